"""Answers without a language model: a short one, and the sentences that it rests on.

Which of two things, and whether two are of one country, is answered by comparing what passages say
of both. Of other questions one candidate may stand out. Where nothing does, the sentences that bear
on the question are all there is.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.documents import split_sentences
from backends.lexical import content_terms
from router.answers.comparing import compare
from router.answers.expected import OPEN, expected
from router.answers.short import STANDS_OUT, options, shares, terms_of

# Chosen on dev questions of 2wiki, popqa and nq by how often the three sentences hold the answer.
# What a word of the question is worth once a chosen sentence has said it.
_SAID = 0.6
# What a word of a name is worth that a chosen sentence brings in.
_BRIDGED = 0.3
# What the first sentence of a passage is worth more: it says what the passage is about.
_LEAD = 1.4
# Words added to a sentence's length, so that short ones do not win by being short.
_SHORT = 8

# The least share of the question's words that one passage has if it bears on the question. With the
# rule of names: 4 of the demo's 120 judged questions get no answer, and of questions about other
# corpora 66 to 100 %; 0 of 198 over 15,000 passages whose first five hold the answer.
_LEAST_SHARED = 0.3

_NAME = re.compile(r"\b[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence, and the number of its passage from 1."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class Extract:
    """An answer made of passages alone.

    Attributes:
        short: In a few words; "" where nothing stands out.
        share: How far it stands out, 0 to 1; 1 where two things were compared.
        quotes: Sentences that it rests on or, without it, that bear on the question; in the order
            of the passages.
    """

    short: str = ""
    share: float = 0.0
    quotes: tuple[Quote, ...] = ()


def extract(question: str, passages: Sequence[tuple[str, str]], most: int = 3) -> Extract:
    """Answer a question from passages; nothing where they seem to be about something else.

    Args:
        passages: Title and text of each, best first.
        most: Quotes wanted; there are more where more is compared.
    """
    if not _bears(question, passages):
        return Extract()
    short, share, told = _short(question, passages)
    others = _best(question, passages, most)
    chosen = [*dict.fromkeys((*told, *others))][: max(most, len(told))]
    places = {
        quote: (quote.number, passages[quote.number - 1][1].find(quote.text)) for quote in chosen
    }
    return Extract(short, share, tuple(sorted(chosen, key=places.__getitem__)))


def _short(question: str, passages: Sequence[tuple[str, str]]) -> tuple[str, float, list[Quote]]:
    """The short answer, how far it stands out, and what tells it."""
    asked = expected(question)
    if compared := compare(question, asked, passages):
        told = [Quote(fact.sentence, fact.passage + 1) for fact in compared.facts]
        return compared.answer, 1.0, told
    if asked.form != OPEN:
        return "", 0.0, []
    found = options(asked, question, passages)
    if not found:
        return "", 0.0, []
    own = shares(found)
    best = max(range(len(found)), key=own.__getitem__)
    same = (part for part, one in zip(own, found, strict=True) if one.plain == found[best].plain)
    share = math.fsum(same)
    if share < STANDS_OUT:
        return "", 0.0, []
    sentence = found[best].sentence
    return found[best].candidate.text, share, [Quote(sentence.text, sentence.passage + 1)]


@dataclass(frozen=True, slots=True)
class _Sentence:
    quote: Quote
    terms: frozenset[str]
    is_first: bool


def best_sentences(
    question: str, passages: Sequence[tuple[str, str]], most: int = 3
) -> list[Quote]:
    """Sentences that bear most on a question, chosen one after another.

    A sentence is worth the question's words that it has, rare ones more. What one sentence has said
    is worth less in the next, and the names that it brings in are worth something: the answer to a
    question over two steps stands beside a name that the question lacks.

    Args:
        passages: Title and text of each, best first.

    Returns:
        In the order of the passages; fewer than wanted when no more bear on it, and none when the
        passages seem to be about something else.
    """
    return _best(question, passages, most) if _bears(question, passages) else []


def _best(question: str, passages: Sequence[tuple[str, str]], most: int) -> list[Quote]:
    """The same of passages that bear on the question."""
    rest = [
        _Sentence(Quote(text, number), terms_of(text), place == 0)
        for number, (_, body) in enumerate(passages, start=1)
        for place, text in enumerate(split_sentences(body))
    ]
    order = {sentence.quote: place for place, sentence in reversed([*enumerate(rest)])}
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
    return sorted(chosen, key=order.__getitem__)


def _bears(question: str, passages: Sequence[tuple[str, str]]) -> bool:
    """Whether a passage has enough of the question's words, and any has one of its names."""
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
    """Term -> ln(1 + sentences / sentences with it)."""
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    return {term: math.log(1 + len(sentences) / count) for term, count in counts.items()}


def _terms(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))
