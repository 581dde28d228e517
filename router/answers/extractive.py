"""Answers without a language model: the sentences that are most relevant to the question."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wye.backends.lexical import content_terms
from wye.router.answers.sentences import sentences_of

# These four were chosen on dev questions of 2wiki, popqa and nq by how often the three sentences
# hold the answer. Factor on a question word's weight for each chosen sentence that has it:
_SAID = 0.6
# Weight of a word in a name that a chosen sentence brings in:
_BRIDGED = 0.3
# Factor for the first sentence of a passage, which says what the passage is about:
_LEAD = 1.4
# Terms added to a sentence's length, so that short sentences do not win by being short:
_SHORT = 8

# Passages are relevant if one of them has at least this share of the question's words. With the
# rule for names, 4 of the demo's 120 judged questions get no answer, 66 to 100 % of questions about
# other corpora, and 0 of 198 over 15,000 passages whose first five hold the answer.
_LEAST_SHARED = 0.3

_NAME = re.compile(r"\b[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence and the number of its passage, from 1."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class _Sentence:
    quote: Quote
    terms: frozenset[str]
    is_first: bool


def best_sentences(
    question: str, passages: Sequence[tuple[str, str]], most: int = 3
) -> list[Quote]:
    """The most relevant sentences for a question, chosen greedily.

    A sentence's value is that of its words from the question; rare ones count more. A word counts
    less once a chosen sentence has it. Names that a chosen sentence brings in count too, since the
    answer to a question over two hops is next to a name that the question lacks.

    Args:
        passages: Title and text of each, best first.

    Returns:
        At most `most` sentences, the best first; none if the passages seem to be about something
        else.
    """
    if not _bears(question, passages):
        return []
    rest = [
        _Sentence(Quote(text, number), _terms(text), place == 0)
        for number, (_, body) in enumerate(passages, start=1)
        for place, text in enumerate(sentences_of(body))
    ]
    rarity = _rarity(rest)
    asked = _terms(question)
    worth: dict[str, float] = dict.fromkeys(asked, 1.0)
    chosen: list[Quote] = []
    while rest and len(chosen) < most:
        best = max(rest, key=lambda sentence: _worth(sentence, worth, rarity))
        if _worth(best, worth, rarity) <= 0:
            break
        rest.remove(best)
        chosen.append(best.quote)
        for term in best.terms & worth.keys():
            worth[term] *= _SAID
        for term in _terms(" ".join(_NAME.findall(best.quote.text))) - asked:
            worth[term] = max(worth.get(term, 0.0), _BRIDGED)
    return chosen


def _bears(question: str, passages: Sequence[tuple[str, str]]) -> bool:
    """Whether a passage has enough of the question's words, and one has any of its names."""
    asked, named = _terms(question), _terms(" ".join(_NAME.findall(question)))
    shared = [asked & _terms(f"{title} {body}") for title, body in passages]
    most = max(map(len, shared), default=0)
    is_about_it = not named or any(named & each for each in shared)
    return most >= _LEAST_SHARED * len(asked) and is_about_it


def _worth(sentence: _Sentence, worth: Mapping[str, float], rarity: Mapping[str, float]) -> float:
    said = math.fsum(worth[term] * rarity[term] for term in sentence.terms & worth.keys())
    lead = _LEAD if sentence.is_first else 1.0
    return lead * said / math.sqrt((_SHORT + len(sentence.terms)) * sentence.quote.number)


def _rarity(sentences: Sequence[_Sentence]) -> dict[str, float]:
    """Term -> ln(1 + number of sentences / number of sentences with the term)."""
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    return {term: math.log(1 + len(sentences) / count) for term, count in counts.items()}


def _terms(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))
