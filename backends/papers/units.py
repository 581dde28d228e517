"""The sentences of a version as knowledge units, sets of them, and activation by the best of them.

Clue-RAG extracts knowledge units with a language model and ranks sets of them with another. Here
the units are the sentences that the index stores: those of the text, or the statements that a
passage came with.
Sets are scored without a model: by their cosine with the question, by the share of its words that
they have, or by both. If there is a cross-encoder, it rescores the best of these.

EA-GraphRAG's graph arm starts from facts: it takes the sentences of the whole corpus that are
closest to the question, reranks them by their words as well, and starts from the entities that the
best of them mention. No language model extracts triples or selects among them: a sentence is the
fact, and its entities stand for head and tail. Source: EA-GraphRAG (arXiv 2602.03578), section
3.4.2 and algorithm 1, after HippoRAG 2. The paper does not say how scores are normalised nor how
many facts and entities are kept: here scores are scaled to [0, 1] over the reranked sentences, 5
facts and 20 entities are kept, and an entity has the score of its best fact.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import chain, compress, islice

import numpy as np

from wye.backends.arrays import Words, distinct, ranges
from wye.backends.numerics import products_of, top_rows
from wye.backends.papers.settings import Scoring
from wye.backends.store.corpus import Corpus
from wye.backends.text import content_terms
from wye.backends.trigraph.bridging import Activation, Bridge
from wye.backends.trigraph.explanation import QUESTION
from wye.backends.trigraph.graph import Lists
from wye.backends.types import Float32, Float64, Int64, Mask, Query, TextScorer

Set = tuple[int, ...]  # rows of sentences, ascending

MOST_READ = 64  # sets that a model reads for a question at a time
OVERLAP_SHARE = 0.5  # weight of the overlap beside the cosine, in a mix of both


class Units:
    """The sentences of one version of the index."""

    def __init__(self, corpus: Corpus, scorer: TextScorer | None = None) -> None:
        """Tokenise all sentences with their passages' titles; `scorer` scores joined sets."""
        self._corpus, self._scorer = corpus, scorer
        self._words = Words()
        numbers, lengths = array("i"), array("i")
        texts = chain.from_iterable(corpus.iter_sentence_texts())
        for passage, text in zip(corpus.sentence_passage.tolist(), texts, strict=True):
            words = set(content_terms(f"{corpus.titles[passage]} {text}"))
            numbers.extend(sorted(map(self._words.number, words)))
            lengths.append(len(words))
        self._numbers = np.array(numbers, np.int32)
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        owners = np.repeat(corpus.sentence_passage, lengths).astype(np.int64)
        pairs = distinct(self._numbers.astype(np.int64) << 32 | owners)
        self._holders = (pairs & 0xFFFFFFFF).astype(np.int32)
        self._holder_starts = np.searchsorted(pairs >> 32, np.arange(len(self._words) + 1))

    def nearest(self, vector: Float32, k: int, allowed: Mask | None) -> Int64:
        """Rows of the k sentences closest to a vector (d,) in allowed passages (n,), best first."""
        corpus = self._corpus
        rows = np.arange(len(corpus.sentence_passage))
        if allowed is not None:
            rows = np.flatnonzero(allowed[corpus.sentence_passage])
        return rows[top_rows(products_of(corpus.sentence_vectors, rows, vector), k)]

    def vectors(self, sets: Sequence[Set]) -> Float32:
        """(n, d) sum of the sentence vectors of each set, added in order of rows."""
        sums = np.zeros((len(sets), self._corpus.sentence_vectors.shape[1]), np.float32)
        for position in range(max(map(len, sets), default=0)):
            owners = [row for row, units in enumerate(sets) if len(units) > position]
            rows = np.array([sets[row][position] for row in owners], np.int64)
            sums[owners] += self._corpus.sentence_vectors[rows].astype(np.float32)
        return sums

    def narrowed(
        self, query: Query, sets: Sequence[Set], by: Scoring, allowed: Mask | None = None
    ) -> Sequence[Set]:
        """The best `MOST_READ` sets `by` a score, in the given order; all if no model reads."""
        if self._scorer is None or len(sets) <= MOST_READ:
            return sets
        best = top_rows(self._worth(query, sets, by, allowed), MOST_READ)
        return [sets[row] for row in sorted(best.tolist())]

    def scores(
        self, query: Query, sets: Sequence[Set], by: Scoring, allowed: Mask | None = None
    ) -> Float64:
        """(n,) scores of non-empty sets of sentences for a question, by the model if there is one.

        `by` and `allowed` are as in `narrowed`.
        """
        if self._scorer is None:
            return self._worth(query, sets, by, allowed)
        rows = [row for units in sets for row in units]
        texts = iter(self._corpus.sentence_texts(rows) if rows else ())
        titles = (self._corpus.titles[row] for row in self._corpus.sentence_passage[rows].tolist())
        titled_texts = (f"{title}: {next(texts)}" if title else next(texts) for title in titles)
        return self._scorer.score(
            query.text, [" ".join(islice(titled_texts, len(units))) for units in sets]
        ).astype(np.float64)

    def _worth(
        self, query: Query, sets: Sequence[Set], by: Scoring, allowed: Mask | None
    ) -> Float64:
        """(n,) scores of sets without a model; "mix" is the cosine plus half of the overlap."""
        if by == "overlap":
            return self._overlap(query, sets, allowed)
        scores = self._cosine(query, sets)
        if by == "mix":
            scores += OVERLAP_SHARE * self._overlap(query, sets, allowed)
        return scores

    def _overlap(self, query: Query, sets: Sequence[Set], allowed: Mask | None) -> Float64:
        """(n,) share of the question's content words that a set has, weighted by rarity."""
        words = sorted(set(content_terms(query.text)))
        weights = [self._weight(word, allowed) for word in words]
        total = math.fsum(weights)
        if not total or not sets:
            return np.zeros(len(sets))
        numbers = np.array([self._words.find(word) for word in words], np.int32)
        order = np.argsort(numbers, kind="stable")
        rows = np.fromiter(chain.from_iterable(sets), np.int64)
        owners = np.repeat(np.arange(len(sets)), [len(units) for units in sets])
        unit_words = self._numbers[ranges(self._starts[rows], self._starts[rows + 1])]
        owner = np.repeat(owners, np.diff(self._starts)[rows])
        position = np.searchsorted(numbers[order], unit_words)
        position[position == len(order)] = 0
        same = numbers[order][position] == unit_words
        has = np.zeros((len(sets), len(words)), bool)
        has[owner[same], order[position[same]]] = True
        # `fsum` rounds once, so that sets with equally rare words have equal scores.
        sums = (math.fsum(compress(weights, row)) for row in has.tolist())
        return np.fromiter(sums, np.float64, len(sets)) / total

    def _cosine(self, query: Query, sets: Sequence[Set]) -> Float64:
        """(n,) cosine of the question with the sum of a set's vectors."""
        sums = self.vectors(sets)
        lengths = np.sqrt(np.vecdot(sums, sums))
        products = np.vecdot(sums, query.vector).astype(np.float64)
        cosine: Float64 = np.divide(products, lengths, out=np.zeros(len(sets)), where=lengths > 0)
        return cosine

    def _weight(self, word: str, allowed: Mask | None) -> float:
        number = self._words.find(word)
        start, end = self._holder_starts[number : number + 2] if number >= 0 else (0, 0)
        holders = self._holders[start:end]
        passages = len(holders) if allowed is None else int(allowed[holders].sum())
        size = len(self._corpus) if allowed is None else int(allowed.sum())
        return math.log(1 + size / (1 + passages))


POOL = 200
FACTS = 5
ENTITIES = 20


def best_facts(units: Units, query: Query, allowed: Mask | None) -> tuple[Int64, Float64]:
    """Rows of the sentences closest to a question, best first, with their scores in [0, 1]."""
    pool = np.sort(units.nearest(query.vector, POOL, allowed))
    sets = units.narrowed(query, [(row,) for row in pool.tolist()], "mix", allowed)
    pool = np.array([row for (row,) in sets], np.int64)
    scores = units.scores(query, sets, "mix", allowed)
    best = np.argsort(-scores, kind="stable")[:FACTS]
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    values = (scores[best] - low) / (high - low) if high > low else np.ones(len(best))
    return pool[best], values


def activate(
    mentions: Lists,
    facts: Int64,
    scores: Float64,
    degree: Callable[[Int64], Int64],
    entities: int = ENTITIES,
) -> Activation:
    """Activate entities of facts, rows (f,) with scores. Equal to `reference.activate_facts`.

    Those with the highest score / `degree`, the number of allowed passages, are kept; ties by
    number.
    """
    bridges: dict[int, Bridge] = {}
    for sentence, score in zip(facts.tolist(), scores.tolist(), strict=True):
        for entity in mentions.one(sentence).tolist():
            if score > 0 and (entity not in bridges or score > bridges[entity].similarity):
                bridges[entity] = Bridge(sentence, score, QUESTION)
    named = sorted(bridges)
    values_of_named = np.array([bridges[entity].similarity for entity in named])
    best = top_rows(values_of_named / degree(np.array(named, np.int64)), entities)
    active = [named[position] for position in sorted(best.tolist())]
    links = {entity: bridges[entity] for entity in active}
    values, level = np.array([each.similarity for each in links.values()]), np.ones(len(active))
    return Activation(np.array(active, np.int64), values, values, level.astype(np.int64), links)
