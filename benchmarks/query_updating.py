"""Clue-RAG's iterative retrieval without a language model, as a rival of steps.

Sentences stand for knowledge units. From the entities of a question and of the sentences nearest to
it, each entity takes the sentences that are closest to what is left of the question, which is its
vector less those of the sentences taken; the best sets of sentences are followed. A set's score is
the share of the question's terms that it has. One walk from the passages of all sets ranks them.

Source: Clue-RAG, algorithms 3 and 4, with K 3, M 5 and D 3, and with a walk for
its last step instead of a model that ranks again.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from backends.lexical import content_terms
from backends.numerics import half_products, rank_rows
from backends.trigraph.bridging import Activation
from backends.trigraph.retriever import Trace
from backends.types import Float32, Query, Ranking
from router.session import Snapshot

NEAREST = 3
SETS = 5
ROUNDS = 3
SHARPNESS = 10

Sentences = tuple[int, ...]


class QueryUpdating:
    """Ranks the passages of one version of an index."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Count in how many passages each term is."""
        self._snapshot = snapshot
        self._corpus, self._graph = snapshot.corpus, snapshot.graph
        counts: Counter[str] = Counter()
        for title, text in self._corpus.iter_texts():
            counts.update(set(content_terms(f"{title} {text}")))
        self._frequency = counts

    def search(self, query: Query, k: int) -> Ranking:
        """At most k passages for a question."""
        sets = self._sets(query)
        best: dict[int, float] = {}
        for sentences, score in sets.items():
            for sentence in sentences:
                passage = int(self._corpus.sentence_passage[sentence])
                best[passage] = max(score, best.get(passage, 0.0))
        prior = np.zeros(len(self._corpus))
        if best:
            rows = np.array(sorted(best), np.int64)
            near = self._corpus.vectors[rows].astype(np.float32) @ query.vector
            values = np.array([best[row] for row in rows.tolist()]) + near
            prior[rows] = np.exp(SHARPNESS * (values - values.max()))
        none = np.zeros(0)
        activation = Activation(np.zeros(0, np.int64), none, none, np.zeros(0, np.int64))
        batch = self._graph.batch([query])
        settled = batch.run_pagerank([Trace((), activation, prior, none)])[:, 0]
        return rank_rows("query updating", self._corpus.ids, settled, None, k)

    def _sets(self, query: Query) -> dict[Sentences, float]:
        """The best sets of sentences of every round, with their scores."""
        graph, vectors = self._graph.graph.mentions, self._corpus.sentence_vectors
        degree = self._graph.filtered(None).degree
        entities = {seed.entity for seed in self._graph.finder.find(query, degree)}
        near = half_products(vectors, np.arange(len(vectors)), query.vector)
        for sentence in np.argsort(-near, kind="stable")[:NEAREST].tolist():
            entities.update(graph.entities_of(sentence))
        terms = set(content_terms(query.text))
        states: list[tuple[int, Float32, Sentences]] = [
            (entity, query.vector, ()) for entity in sorted(entities)
        ]
        kept: dict[Sentences, float] = {}
        for _ in range(ROUNDS):
            found: dict[Sentences, Float32] = {}
            for entity, left, taken in states:
                own = graph.sentences_of(entity)
                own = own[~np.isin(own, taken)]
                closeness = vectors[own].astype(np.float32) @ left
                for sentence in own[np.argsort(-closeness, kind="stable")[:NEAREST]].tolist():
                    chosen = tuple(sorted((*taken, sentence)))
                    found.setdefault(chosen, left - vectors[sentence].astype(np.float32))
            scores = {chosen: self._overlap(terms, chosen) for chosen in found}
            best = sorted(scores, key=lambda chosen: (-scores[chosen], chosen))[:SETS]
            kept.update((chosen, scores[chosen]) for chosen in best)
            states = [
                (entity, found[chosen], chosen)
                for chosen in best
                for entity in sorted({e for s in chosen for e in graph.entities_of(s)})
            ]
        return kept

    def _overlap(self, terms: set[str], sentences: Sequence[int]) -> float:
        """Share of the question's terms, by their weight, that some sentences have."""
        own: set[str] = set()
        texts = self._corpus.sentence_texts(list(sentences))
        for sentence, text in zip(sentences, texts, strict=True):
            title = self._corpus.titles[int(self._corpus.sentence_passage[sentence])]
            own.update(content_terms(f"{title} {text}"))
        total = sum(map(self._weight, terms))
        return sum(map(self._weight, terms & own)) / total if total else 0.0

    def _weight(self, term: str) -> float:
        return math.log(1 + len(self._corpus) / (1 + self._frequency[term]))
