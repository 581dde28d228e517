"""Scores candidates for a short answer: the dates, numbers, names and phrases of a few passages.

Each candidate has evidence from its sentence, its passage and the question. A logistic model weighs
it. The candidates' shares, a softmax of their scores, say how far one stands out.
"""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from backends.lexical import content_terms
from featurizer.plan_nouns import wanted
from router.answers.candidates import (
    DATE,
    NAME,
    NUMBER,
    PHRASE,
    AnswerCandidate,
    AnswerToken,
    candidates,
    tokens_of,
)
from router.answers.countries import COUNTRIES
from router.answers.expected import FREE, PERSON, PLACE, Expected
from router.answers.sentences import sentences_of
from router.answers.titles import head, plain
from router.answers.weights import WEIGHTS

STANDS_OUT = 0.2
"""Least share of a short answer: four of five dev questions have one, which then has half of the
words of the right one."""
SENTENCES = 12
"""How many sentences, the most relevant ones, candidates are taken from."""
_STEM = 5
# Distance in tokens at which a cue no longer counts.
_NEAR = 12
_PREDICATE = 8
_TELLS = 300
"""Characters of a passage in which it says what it is about."""
_COPULAS = ("is", "was", "were", "are")
_DASHES = ("-", "\u2013", "\u2014")
_TOLD = re.compile(r"\b(?:is|was|are|were)\s+(?:(?:an?|the|one of the)\s+)([^.;:]*)")
"""What a passage says that its subject is."""
_OPENING = re.compile(r"[\"“A-Z]")


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """A sentence of a passage.

    Attributes:
        passage: Index of the passage, from 0.
        place: Index within the passage, from 0.
        start: Character offset in the passage's text.
        terms: Content terms.
        worth: Share of the question's content terms that it has, weighted by rarity.
    """

    text: str
    passage: int
    place: int
    start: int
    terms: frozenset[str]
    worth: float = 0.0


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate with its evidence.

    Attributes:
        plain: The candidate's text by `titles.plain`; options with equal ones are one answer.
        evidence: Name of a piece of evidence, a key of `WEIGHTS` -> its value.
    """

    candidate: AnswerCandidate
    sentence: EvidenceSentence
    plain: str
    evidence: dict[str, float] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The weighted sum of the evidence; only differences between scores are meaningful."""
        return sum(WEIGHTS.get(name, 0.0) * value for name, value in self.evidence.items() if value)


def shares(found: Sequence[Option]) -> list[float]:
    """How far each option stands out, 0 to 1: the softmax of the scores."""
    scores = [option.score for option in found]
    most = max(scores, default=0.0)
    powers = [math.exp(score - most) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]


def options(asked: Expected, question: str, passages: Sequence[tuple[str, str]]) -> list[Option]:
    """All candidates of the most relevant sentences, with their evidence.

    Args:
        asked: What the question asks for, from `expected`.
        passages: Title and text of each, best first.
    """
    around = _Passages(question, asked, passages)
    found: list[Option] = []
    passages_of: defaultdict[str, set[int]] = defaultdict(set)
    for sentence in _chosen(asked, passages, around):
        for option in _of(sentence, asked, around):
            found.append(option)
            passages_of[option.plain].add(sentence.passage)
    for option in found:
        option.evidence["passages"] = math.log(len(passages_of[option.plain]))
    return found


class _Passages:
    """What the passages are about.

    Attributes:
        named: Whether the question names each passage's title.
        led_to: Whether the text of such a passage names the title of a passage that is not one.
    """

    def __init__(self, question: str, asked: Expected, passages: Sequence[tuple[str, str]]) -> None:
        self.question = f" {plain(question)} "
        self.titles = [head(title) for title, _ in passages]
        self.title_terms = [frozenset(content_terms(title)) for title in self.titles]
        self.named = [bool(t) and f" {t} " in self.question for t in self.titles]
        # A title has no two blanks in a row, so none goes from one passage to the next.
        told = "".join(
            f" {plain(body)} "
            for (_, body), named in zip(passages, self.named, strict=True)
            if named
        )
        self.led_to = [
            bool(title) and not named and f" {title} " in told
            for title, named in zip(self.titles, self.named, strict=True)
        ]
        subjects = (self.title_terms[place] for place, named in enumerate(self.named) if named)
        rest = asked.terms - frozenset().union(*subjects)
        self.cues = frozenset(map(_stem, rest)) | frozenset(map(_stem, asked.cues))
        self.first_cues = frozenset(map(_stem, asked.first))
        self.noun = _stem(next(iter(content_terms(asked.noun)), asked.noun))
        self.wanted = asked.type if asked.type != FREE else wanted(asked.noun)
        types = (_told(body) for _, body in passages)
        self.types = {title: of for title, of in zip(self.titles, types, strict=True) if of != FREE}


def _told(body: str) -> str:
    """The type of thing that a passage says it is about: that of the first noun with one."""
    found = _TOLD.search(body[:_TELLS])
    words = found[1].lower().split()[:_PREDICATE] if found else []
    return next((of for word in words if (of := wanted(word.strip(',"()'))) != FREE), FREE)


def _chosen(
    asked: Expected, passages: Sequence[tuple[str, str]], around: _Passages
) -> list[EvidenceSentence]:
    """The sentences most relevant to a question, in their order."""
    rest = [
        EvidenceSentence(text, number, place, start, terms_of(text))
        for number, (title, body) in enumerate(passages)
        for place, (text, start) in enumerate(_sentences(title, body))
    ]
    counts = Counter(term for sentence in rest for term in sentence.terms)
    rarity = {term: math.log(1 + len(rest) / count) for term, count in counts.items()}
    unseen = math.log(1 + len(rest))
    whole = math.fsum(rarity.get(term, unseen) for term in sorted(asked.terms)) or 1.0
    read = [
        replace(one, worth=math.fsum(rarity[term] for term in one.terms & asked.terms) / whole)
        for one in rest
    ]
    order = sorted(
        range(len(read)),
        key=lambda n: (
            -read[n].worth - 0.3 * (not read[n].place) - 0.3 * around.led_to[read[n].passage],
            n,
        ),
    )
    return [read[n] for n in sorted(order[:SENTENCES])]


def _sentences(title: str, body: str) -> list[tuple[str, int]]:
    """Sentences with their offsets, without a title that the text repeats at its start."""
    again = bool(title) and body.startswith(f"{title} ") and _OPENING.match(body, len(title) + 1)
    end, found = len(title) if again else 0, []
    for text in sentences_of(body[end:]):
        start = body.index(text, end)
        end = start + len(text)
        found.append((text, start))
    return found


def _of(sentence: EvidenceSentence, asked: Expected, around: _Passages) -> list[Option]:
    tokens = tokens_of(sentence.text)
    context = _Context(sentence, tokens, asked, around)
    found = candidates(sentence.text, tokens)
    return [
        Option(one, sentence, own := plain(one.text), context.evidence(one, own)) for one in found
    ]


class _Context:
    """A sentence with what its candidates are compared with."""

    def __init__(
        self,
        sentence: EvidenceSentence,
        tokens: list[AnswerToken],
        asked: Expected,
        around: _Passages,
    ) -> None:
        self.sentence, self.asked, self.around = sentence, asked, around
        lower = self.lower = [token.text.lower() for token in tokens]
        self.stems = [
            "" if token.function else word[:_STEM]
            for word, token in zip(lower, tokens, strict=True)
        ]
        self.cues = [
            place
            for place, word in enumerate(lower)
            if word in asked.cues or (self.stems[place] and self.stems[place] in around.cues)
        ]
        self.first = [place for place in self.cues if self.stems[place] in around.first_cues]
        self.copula = next((place for place, word in enumerate(lower) if word in _COPULAS), -1)
        self.predicate = -1
        self.bracket = (-1, -1, -1)
        if not sentence.place and "(" in lower:
            begin = lower.index("(")
            end = lower.index(")", begin) if ")" in lower[begin:] else len(lower)
            dash = next((place for place in range(begin, end) if lower[place] in _DASHES), -1)
            self.bracket = (begin, dash, end)
        number = sentence.passage
        hops = asked.hops
        self.common = {
            "worth": sentence.worth,
            "rank": 1 / (1 + number),
            "lead": float(not sentence.place),
            f"named:{hops}": float(around.named[number]),
            f"led to:{hops}": float(around.led_to[number]),
        }

    def evidence(self, one: AnswerCandidate, text: str) -> dict[str, float]:
        """The evidence of a candidate by name; `text` is its text by `plain`."""
        asked, around = self.asked, self.around
        number, hops = self.sentence.passage, self.asked.hops
        terms = _terms(one.text)
        in_question = f" {text} " in around.question
        type_ = asked.type if asked.type in (PERSON, PLACE, DATE, NUMBER) else FREE
        nation = asked.noun in ("nationality", "citizenship")
        if nation:
            type_ = "nation"
        found = {
            **self.common,
            f"{type_}:{one.kind}": 1.0,
            "asked": float(in_question),
            "part of asked": float(not in_question and bool(terms) and terms <= asked.terms),
            f"title:{hops}": float(text in around.titles),
            f"own title:{hops}": float(f" {text} " in f" {around.titles[number]} "),
            f"of own title:{hops}": float(not terms.isdisjoint(around.title_terms[number])),
            "after a cue": _after(self.cues, one.first),
            "before a cue": _before(self.cues, one.last),
            "after the first cue": _after(self.first, one.first),
            "noun": float(
                bool(around.noun)
                and around.noun in self.stems[max(0, one.first - 4) : one.last + 4]
            ),
        }
        if nation or asked.noun == "country":
            found["land"] = 1.0 if text in COUNTRIES else -1.0
        elif text in COUNTRIES:
            found["land for a place" if type_ == "place" else "land for another"] = 1.0
        return found | _KINDS[one.kind](self, one, type_)

    def _date(self, one: AnswerCandidate, type_: str) -> dict[str, float]:
        found = {"long date": float(type_ == DATE and " " in one.text)}
        begin, dash, end = self.bracket
        if begin < one.first < end:
            later = 1.0 if 0 <= dash < one.first else -1.0
            found["born in brackets"] = -later * self.asked.born
            found["died in brackets"] = later * self.asked.died
        return found

    def _name(self, one: AnswerCandidate, type_: str) -> dict[str, float]:
        before = self.lower[one.first - 1] if one.first else ""
        after = self.lower[one.last] if one.last < len(self.lower) else ""
        found = {"by": float(before == "by" and type_ in (PERSON, FREE))}
        told = self.around.types.get(plain(one.text), FREE)
        if FREE not in {told, self.around.wanted}:
            found["of this type" if told == self.around.wanted else "of another type"] = 1.0
        if type_ == PERSON:
            size = len(one.text.split())
            return found | {"full name": float(size in (2, 3)), "one name": float(size == 1)}
        found[f"{type_}:in"] = float(before in ("in", "at", "near"))
        found[f"{type_}:from"] = float(before in ("from", "of", "to"))
        if type_ == PLACE:
            found["place after ,"] = float(before == ",")
            found["place before ,"] = float(after == ",")
        return found

    def _phrase(self, one: AnswerCandidate, _: str) -> dict[str, float]:
        inside = 0 <= self.copula < one.first < self.copula + _PREDICATE
        told = float(inside and self.sentence.place < 2)
        found = {"told": told, "words": float(len(one.text.split()))}
        if self.asked.noun == "occupation":
            found["occupation"] = 1.0
            found["occupation told"] = told
            found["occupation in a word"] = float(" " not in one.text)
            if told and self.predicate in (-1, one.last):
                self.predicate = one.last
                found["occupation told first"] = 1.0
        return found

    def _number(self, one: AnswerCandidate, _: str) -> dict[str, float]:
        noun = self.around.noun
        return {"counted": float(bool(noun) and noun in self.stems[one.last : one.last + 3])}


_KINDS: Mapping[str, Callable[[_Context, AnswerCandidate, str], dict[str, float]]] = {
    DATE: _Context._date,
    NAME: _Context._name,
    PHRASE: _Context._phrase,
    NUMBER: _Context._number,
}


def _after(cues: Sequence[int], first: int) -> float:
    """Nearness, 0 to 1, of a candidate to the last cue before it; `cues` ascend."""
    at = bisect_left(cues, first)
    return max(0.0, 1 - (first - cues[at - 1] - 1) / _NEAR) if at else 0.0


def _before(cues: Sequence[int], last: int) -> float:
    """Nearness, 0 to 1, of a candidate that ends before token `last` to the next cue."""
    at = bisect_left(cues, last)
    return max(0.0, 1 - (cues[at] - last) / _NEAR) if at < len(cues) else 0.0


@lru_cache(maxsize=256)
def terms_of(sentence: str) -> frozenset[str]:
    """Content terms of a sentence, cached, since the short answer and the quotes both use them."""
    return frozenset(content_terms(sentence))


@lru_cache(maxsize=20_000)
def _terms(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))


def _stem(word: str) -> str:
    return word.lower()[:_STEM]
