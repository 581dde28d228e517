"""Words as numbers, and sentences as rows of them.

A number stays with its word from one version of a corpus to the next, so that sentences which are
in both need not be read again. Words that no sentence has any more do no harm but take room.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import getsizeof

import numpy as np

from backends.linking import starts_like_a_name, tokenise
from backends.ragged import ragged
from backends.types import Int32, Int64

# Closes a sentence: no name has it, so none crosses into the next.
END = -2
# Unused words that are not worth starting over for.
_SPARE = 10_000


class Words:
    """The numbers of words; new words take the next ones."""

    def __init__(self) -> None:
        """Know no word."""
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._numbers)

    @property
    def bytes(self) -> int:
        """Memory of the words and their table."""
        return getsizeof(self._numbers) + sum(map(getsizeof, self._numbers))

    def number(self, word: str) -> int:
        """The number of a word, which is made if there is none."""
        return self._numbers.setdefault(word, len(self._numbers))

    def find(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        return self._numbers.get(word, -1)

    def are_worn(self, used: Int32) -> bool:
        """Whether most words are out of use, so that it is time to start over.

        Args:
            used: (m,) numbers in use, repeats kept.
        """
        distinct = int(np.count_nonzero(np.bincount(used, minlength=1)))
        return len(self) > 2 * distinct + _SPARE


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """The words of s sentences, with their case folded, end to end.

    Attributes:
        packed: (m,) int32 of each word twice its number, and 1 more where the word is written like
            the beginning of a name; `END` after each sentence.
        lengths: (s,) int32 words of each sentence, its end among them.
    """

    packed: Int32
    lengths: Int32

    @classmethod
    def of(cls, texts: Iterable[str], words: Words) -> "SentenceWords":
        """Read sentences; words that are new get numbers."""
        memo = _Packed(words)
        packed: list[int] = []
        lengths: list[int] = []
        for text in texts:
            row = [memo[token] for token in tokenise(text)]
            packed += row
            packed.append(END)
            lengths.append(len(row) + 1)
        return cls(np.array(packed, np.int32), np.array(lengths, np.int32))

    def joined(self, more: "SentenceWords", source: Int64) -> "SentenceWords":
        """Some sentences of these and of more, by their place in both laid end to end."""
        lengths = np.concatenate([self.lengths, more.lengths])
        packed = np.concatenate([self.packed, more.packed])
        return SentenceWords(packed[ragged(lengths, source)], lengths[source])

    def are_worn(self, words: Words) -> bool:
        """Whether most words are in no sentence any more."""
        return words.are_worn(self.packed[self.packed >= 0] >> 1)


class _Packed(dict[str, int]):
    """Token -> how `SentenceWords` has it; filled on first use."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, token: str) -> int:
        packed = 2 * self._words.number(token.casefold()) + int(starts_like_a_name(token))
        self[token] = packed
        return packed
