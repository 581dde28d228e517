"""Misspelt words of a question."""

import re
from collections.abc import Callable, Iterable, Mapping
from string import ascii_lowercase

from wye.backends.text import singular

LONG_WORD = 8
"""Letters from which a word has hardly any other word one letter away."""
_PLAIN_WORD = re.compile(r"(?<![\w'\u2019-])[a-z]{5,}(?![\w'\u2019-])")
_ENDINGS = ("s", "es", "d", "ed", "ing", "ly")


def respelt(
    question: str,
    counts_of: Callable[[Iterable[str]], Mapping[str, int]],
    is_word: Callable[[str], bool],
) -> str:
    """A question with its misspelt words as the corpus writes them.

    A word in small letters is misspelt if no passage has it and it is no word of a language either,
    nor a form of one. It stands for the word at one of `_misspellings` that most passages have,
    unless two such words are in as many.

    Args:
        counts_of: Word -> how many passages have it, for those of some words that any has.
        is_word: Whether a language has a word.
    """
    words = dict.fromkeys(_PLAIN_WORD.findall(question))
    known = counts_of(words) if words else {}
    meant = {}
    for word in words:
        forms = [word, *(word.removesuffix(ending) for ending in _ENDINGS)]
        if word not in known and not any(map(is_word, dict.fromkeys(forms))):
            counts = counts_of(_misspellings(word))
            most = max(counts.values(), default=0)
            likely = [other for other, count in counts.items() if count == most]
            if len({singular(other) for other in likely}) == 1:
                meant[word] = likely[0]
    return _PLAIN_WORD.sub(lambda match: meant.get(match[0], match[0]), question)


def _misspellings(word: str) -> list[str]:
    """Words that one slip makes of a word, or it of them; the first letter stays.

    Two letters are swapped, or a letter is doubled or no longer. Short words have many other words
    near them ("solver", "silver"), so only in one of `LONG_WORD` letters one is also left out, put
    in or replaced, before the last.
    """
    inside = range(1, len(word) - 1)
    slips = [word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inside]
    slips += [word[:at] + word[at] + word[at:] for at in inside]
    slips += [word[:at] + word[at + 1 :] for at in range(1, len(word)) if word[at] == word[at - 1]]
    if len(word) >= LONG_WORD:
        slips += [word[:at] + word[at + 1 :] for at in inside]
        slips += [word[:at] + c + word[at + 1 :] for at in inside for c in ascii_lowercase]
        slips += [word[:at] + c + word[at:] for at in (*inside, -1) for c in ascii_lowercase]
    return [*dict.fromkeys(slips)]
