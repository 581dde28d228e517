"""Second hops: from a name in one of the first passages to the passage that it is the name of.

"Which shift has the fitter who smelled the oil?" is answered by a row of the staff list that shares
no word with the report in which the fitter is named. Such a passage is moved towards the head of
the ranking by the probability that it is evidence. The probability depends on five things: the rank
of the passage that has the name, how near the sentence with the name is to the question, which of
the question's words that sentence has and which the new passage adds, and how rare the name is. A
name that few passages mention, such as a number of an order, leads to those as well. So does a day
to the row of a table that it names, in whatever notation, if the question ties two things by time.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from wye.backends.notations import codes_in
from wye.backends.numerics import logistic
from wye.backends.text import cells_of, entity_key, folded_words, split_sentences, words_of
from wye.backends.trigraph.names import day_keys
from wye.backends.trigraph.question import PassageSource, Sentences
from wye.backends.types import Float64, Int64, Query, WordCoverage

FIRST = 5  # how many of the first passages are searched for names
MOST = 64  # most passages that are looked at for one question, those of the likeliest names
RARE = 3  # a name that at most so many passages mention leads to these, whatever their titles
COMMON = 100  # a name that more passages mention leads nowhere
_TIMED = re.compile(
    r"(?<=\w )when\b|\b(?:date|day|evening|morning|night|shift|week)s?\b", re.IGNORECASE
)
"""What ties two things by time. Only then a day leads from one passage to another."""


@dataclass(frozen=True, slots=True)
class HopModel:
    """A logistic model of whether a named passage is evidence, and how far it is moved."""

    bias: float  # logit for the first passage, its nearest sentence and a name of its own
    rank: float  # weight of the number of passages before the one that has the name
    nearness: float  # weight of the sentence's cosine minus that of the nearest sentence
    linked: float  # weight of the share of the question's words, by idf, that the sentence has
    rarity: float  # weight of ln(number of passages that mention the name)
    mention: float  # added where the passage only mentions the name
    words: float  # weight of the share that the named passage has and the one that names it lacks
    columns: float = 0.0  # weight of the share of these words that label columns of the named row
    share: float = 0.0  # how far a passage is moved towards the best score, for a probability of 1

    @property
    def weights(self) -> list[float]:
        """The weights of evidence, in this order."""
        first = [self.rank, self.nearness, self.linked, self.rarity, self.mention]
        return [*first, self.words, self.columns]

    def probabilities(self, evidence: Float64) -> Float64:
        """(m,) probabilities from (m, d) evidence; what is missing at the end counts nothing."""
        return logistic(self.bias + evidence @ self.weights[: evidence.shape[1]])


HOPS = HopModel(
    bias=0.2, rank=-0.3, nearness=3.2, linked=2.5, rarity=-1.4, mention=-2.8, words=11.8, share=0.8
)
"""Weights rounded from a fit on train questions of 2WikiMultiHopQA, MuSiQue, HotpotQA and
`service/demo_work`; `docs/results.md` has its figures."""
ROW_HOPS = HopModel(
    bias=-2.6,
    rank=-0.35,
    nearness=2.6,
    linked=1.9,
    rarity=-0.7,
    mention=-0.3,
    words=9.0,
    columns=7.8,
)
"""Weights where a row of a table is among the first passages, from a fit on six made-up folders.

Rows of one table resemble each other, so that a row of another hardly overtakes them by its score.
So the likeliest passage has a place among the first."""
LEAST = 0.05  # probability below which it has none


class Hop(NamedTuple):
    """A passage that a name leads to."""

    passage: str  # its id
    probability: float  # that it is evidence
    name: str  # the name
    source: str  # id of the passage that has the name
    sentence: int  # row of the sentence that has it
    among_first: bool = False  # whether the passage has a place among the first, whatever its score


def second_hops(
    source: PassageSource,
    words: Callable[[Int64], Sequence[WordCoverage]],
    query: Query,
    first: Sequence[str],
) -> list[Hop]:
    """The passages to which names in the first ones lead, each once, likeliest first.

    `words` tells which of some passages have each content word of the question.
    """
    heads = source.numbers(first[:FIRST])
    sentences = source.sentences(heads)
    if not len(sentences.rows):
        return []
    of_heads = source.texts(heads)
    near = sentences.similarity(np.arange(len(sentences.rows))).astype(np.float64)
    # Sentences are read from disk, which takes more time than all else, so only for known days.
    days = map(day_keys, of_heads if _TIMED.search(query.text) else ())
    by_time = any(source.entity(key) is not None for key in chain.from_iterable(days))
    texts = [text for _, text in source.statements(sentences.rows)] if by_time else []
    inner = _codes_within(source, sentences) if any(map(cells_of, of_heads)) else []
    links = _links(source, heads, sentences, texts, inner)
    question = _Words(words(heads[:0]))
    if texts:
        linked = np.array([question.share_of(text) for text in texts])[links[:, _SENTENCE]]
    else:
        linked = _linked(source, of_heads, question, links[:, [_HEAD, _ENTITY]])
    nearness = near[links[:, _SENTENCE]] - near.max()
    commonness = np.log(np.maximum(links[:, _DEGREE], 1))
    known = [links[:, _HEAD], nearness, linked, commonness, 1 - links[:, _IS_TITLE]]
    evidence = np.column_stack(known)
    best = _best_of_each(links[:, _PASSAGE], evidence @ HOPS.weights[: len(known)])[:MOST]
    links = links[best]
    has = {w.term: w.texts for w in words(np.concatenate([heads, links[:, _PASSAGE]]))}
    added = [
        question.share(word for word, of in has.items() if of >> n & ~of >> head & 1)
        for n, head in enumerate(links[:, _HEAD].tolist(), start=len(heads))
    ]
    evidence = np.column_stack([evidence[best], np.array(added, np.float64)])
    among_first = np.zeros(len(links), bool)
    if any(map(cells_of, of_heads)) and len(links):
        labelled = _labelled(source, of_heads, question, links[:, [_HEAD, _PASSAGE]])
        chances = ROW_HOPS.probabilities(np.column_stack([evidence, labelled]))
        among_first[chances.argmax()] = chances.max() >= LEAST
    hops = zip(
        source.ids(links[:, _PASSAGE]),
        HOPS.probabilities(evidence).tolist(),
        map(source.name, links[:, _ENTITY].tolist()),
        source.ids(heads[links[:, _HEAD]]),
        sentences.rows[links[:, _SENTENCE]].tolist(),
        among_first.tolist(),
        strict=True,
    )
    return sorted((Hop(*hop) for hop in hops), key=lambda hop: (-hop.probability, hop.passage))


_PASSAGE, _ENTITY, _DEGREE, _SENTENCE, _HEAD, _IS_TITLE = range(6)
"""Of a link: a passage, the entity that leads to it, how many passages mention that, the positions
of the sentence with it and of the sentence's passage, and whether it is the new passage's title."""


def _links(
    source: PassageSource,
    heads: Int64,
    sentences: Sentences,
    texts: Sequence[str],
    inner: Sequence[tuple[int, str]],
) -> Int64:
    """(m, 6) what names, and days in texts of sentences, lead to, beyond the heads' documents.

    `inner` has positions of sentences with keys of further names.
    """
    of_days = ((n, key) for n, text in enumerate(texts) for key in day_keys(text))
    keyed = ((n, source.entity(key)) for n, key in chain(of_days, inner))
    days = [(n, entity) for n, entity in keyed if entity is not None]
    of_day = np.array(days, np.int64).reshape(-1, 2)
    sentence = np.concatenate([sentences.sentence, of_day[:, 0]])
    entities = np.concatenate([sentences.entity, of_day[:, 1]])
    name, passage, is_title = source.named(entities, RARE)
    head = np.argmax(sentences.passage[sentence[name], None] == heads, axis=1)
    of_head = np.zeros(len(entities), bool)  # of the passage's own title, no other is the page
    of_head[name[is_title & (passage == heads[head])]] = True
    degree = source.degree(entities)[name]
    links = np.column_stack([passage, entities[name], degree, sentence[name], head, is_title])
    beyond = links[(degree <= COMMON) & ~(is_title & of_head[name])]
    of_heads, documents = source.documents(heads), source.documents(beyond[:, _PASSAGE])
    pairs = zip(documents, beyond[:, _HEAD].tolist(), strict=True)
    is_other = [document != of_heads[head] for document, head in pairs]
    others: Int64 = beyond[np.array(is_other, bool)]
    return others


def _codes_within(source: PassageSource, sentences: Sentences) -> list[tuple[int, str]]:
    """Positions of sentences, and keys of the codes in longer names in them: "shaft for PB-4"."""
    names = map(source.name, sentences.entity.tolist())
    longer = [
        pair for pair in zip(sentences.sentence.tolist(), names, strict=True) if " " in pair[1]
    ]
    return [
        (n, entity_key(code.text)) for n, name in longer for code in codes_in(name) if code.parts
    ]


def _best_of_each(rows: Int64, logits: Float64) -> Int64:
    """Positions of the highest logit of each row, highest first, ties by row."""
    order = np.lexsort((rows, -logits))
    _, first = np.unique(rows[order], return_index=True)
    return order[np.sort(first)]


class _Words:
    """The content words of a question, weighted by how rare they are."""

    def __init__(self, words: Iterable[WordCoverage]) -> None:
        self._weights = {word.term: word.weight for word in words}
        self._total = sum(self._weights.values()) or 1.0
        self._forms = {term: words_of(term) for term in self._weights}

    def share(self, terms: Iterable[str]) -> float:
        """The share of the words, by weight, that are among some of them."""
        return math.fsum(self._weights[term] for term in terms) / self._total

    def share_of(self, text: str) -> float:
        """The share of the words, by weight, that a text has."""
        return self.share(self.terms_in(text))

    def terms_in(self, text: str) -> set[str]:
        """Those of the words that a text has."""
        words = {*folded_words(text)}
        return {term for term, forms in self._forms.items() if not words.isdisjoint(forms)}


def _labelled(
    source: PassageSource, heads: Sequence[str], question: _Words, pairs: Int64
) -> Float64:
    """(m,) share of the question's words that label a column of a row, and that heads lack.

    `pairs` (m, 2) are positions of heads, and passages; what is no row has 0. What the first head
    has says which row is meant, not what is asked of it.
    """
    labels = [" ".join(label for label, _ in cells_of(text)) for text in source.texts(pairs[:, 1])]
    first, *_ = in_heads = [question.terms_in(text) for text in heads]
    of_rows = zip(map(question.terms_in, labels), pairs[:, 0].tolist(), strict=True)
    shares = [question.share(terms - in_heads[head] - first) for terms, head in of_rows]
    return np.array(shares, np.float64)


def _linked(source: PassageSource, heads: Sequence[str], question: _Words, pairs: Int64) -> Float64:
    """(m,) highest share of the question's words in a sentence of a head with a name, by pairs."""
    of_lines = [map(split_sentences, text.splitlines()) for text in heads]
    sentences = [[*chain.from_iterable(several)] for several in of_lines]
    folded = [[sentence.casefold() for sentence in several] for several in sentences]
    share_of = cache(lambda head, n: question.share_of(sentences[head][n]))

    @cache
    def best(head: int, entity: int) -> float:
        key = source.key(entity)
        having = [n for n, text in enumerate(folded[head]) if key in text]
        return max((share_of(head, n) for n in having), default=0.0)

    return np.array([best(head, entity) for head, entity in pairs.tolist()], np.float64)
