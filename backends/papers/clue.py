"""The clue arm: Clue-RAG's iterative retrieval without a language model.

Sentences are the knowledge units. The search anchors at the entities that the question names and at
those in the units closest to it. From each entity it takes the units closest to the residual
question (its vector minus those of the units taken so far) and follows the best sets of units from
entity to entity. One walk over the graph then ranks the passages. It restarts at the passages of
all followed sets, each weighted by what the best of its units adds to its set.

Source: Clue-RAG, algorithms 3 and 4, with its numbers. The paper's last step, a model that reranks
the passages, is a walk here, since scores from words and vectors rank second hops badly. Where the
paper leaves it open: a set is in the beam once, however it was reached; its score depends on the
set and not on the path; ties between sets are broken by the rows of their sentences.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wye.backends.arrays import distinct
from wye.backends.numerics import batches, products_of, rank_rows, top_rows
from wye.backends.papers.settings import ClueSettings
from wye.backends.papers.units import Set, Units
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.question import HUB, InMemory
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.walk import walk
from wye.backends.types import Float32, Mask, Query, Ranking, RowHits

NO_CLUE = (
    "no sentence of the passages that may be found mentions an entity: ranked by similarity alone"
)
SHARPNESS = 10  # a passage's restart mass is e to the power of this times its score


@dataclass(frozen=True, slots=True)
class _State:
    """The score of a set of units in the beam, and the entities to go on from."""

    entities: AbstractSet[int]
    score: float = 0.0


class ClueRetriever:
    """The clue arm over one version of the index."""

    name = "clue"

    def __init__(self, graph: TriGraphRetriever, settings: ClueSettings | None = None) -> None:
        """Search a graph's passages; the first search tokenises all of its sentences."""
        self.settings = settings or ClueSettings()
        self._graph = graph
        self._corpus = graph.corpus

    @cached_property
    def _units(self) -> Units:
        return self._graph.units or Units(self._corpus, self._graph.scorer)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question, among those that the walk reaches.

        Where no unit was found, passages are ranked by similarity, and `degraded` says so.
        """
        rankings: list[Ranking] = []
        for group in batches(queries, len(self._corpus)):
            filtered = self._graph.batch(group, allowed).filtered
            rankings += [self._rank(query, k, filtered) for query in group]
        return rankings

    def _rank(self, query: Query, k: int, filtered: FilteredGraph) -> Ranking:
        corpus, allowed = self._corpus, filtered.allowed
        anchors = self._anchors(query, filtered)
        followed = self._follow(query, anchors, allowed)
        best: dict[int, float] = {}
        for unit, gain in self._gains(query, followed, allowed):
            passage = int(corpus.sentence_passage[unit])
            best[passage] = max(gain, best.get(passage, gain))
        if not best:
            similarity = np.vecdot(corpus.vectors, query.vector)
            rows = None if allowed is None else np.flatnonzero(allowed)
            return rank_rows(self.name, corpus.ids, similarity, rows, k, degraded=NO_CLUE)
        rows = np.array(sorted(best), np.int64)
        similarity = np.vecdot(corpus.vectors[rows], query.vector)
        scores = np.array([best[row] for row in rows.tolist()]) + similarity
        known = anchors.union(*(state.entities for _, state in followed))
        entities = np.array(sorted(known), np.int64)
        reached, _ = filtered.mentions(entities[filtered.degree(entities) <= HUB])
        passages = distinct(np.concatenate([rows, reached]))
        restart = np.zeros(len(passages))
        restart[np.searchsorted(passages, rows)] = np.exp(SHARPNESS * (scores - scores.max()))
        source = InMemory(corpus, self._graph.graph, filtered)
        edges, ties = source.edges(passages), source.consecutive(passages)
        none = entities, np.zeros(len(entities))
        mass = walk(edges, ties, restart, none, self._graph.settings.damping)
        rows, mass = passages[mass > 0], mass[mass > 0]
        first = top_rows(mass, k)
        return Ranking(self.name, RowHits(corpus.ids, rows[first], mass[first]), len(rows))

    def _anchors(self, query: Query, filtered: FilteredGraph) -> set[int]:
        anchors = set[int]()
        if self.settings.units:
            k = self.settings.nearest
            for unit in self._units.nearest(query.vector, k, filtered.allowed).tolist():
                anchors.update(self._graph.graph.mentions.one(unit).tolist())
        if self.settings.names:
            anchors.update(seed.entity for seed in self._graph.finder.find(query, filtered.degree))
        return anchors

    def _follow(
        self, query: Query, anchors: AbstractSet[int], allowed: Mask | None
    ) -> list[tuple[Set, _State]]:
        """The best sets of each round, best first; see `reference.clue`."""
        mentions, followed = self._graph.graph.mentions, list[tuple[Set, _State]]()
        beam: list[tuple[Set, _State]] = [((), _State(anchors))]
        for _ in range(self.settings.rounds):
            entities_of_set: dict[Set, set[int]] = {}
            for (units, state), residual in zip(beam, self._residuals(query, beam), strict=True):
                for unit in self._closest(sorted(state.entities), units, residual, allowed):
                    reached = entities_of_set.setdefault(tuple(sorted((*units, unit))), set())
                    reached.update(mentions.one(unit).tolist())
            by = self.settings.score
            sets = self._units.narrowed(query, sorted(entities_of_set), by, allowed)
            scores = self._units.scores(query, sets, by, allowed)
            best = top_rows(scores, self.settings.sets).tolist() if sets else []
            beam = [(sets[at], _State(entities_of_set[sets[at]], float(scores[at]))) for at in best]
            followed += beam
        return followed

    def _gains(
        self, query: Query, followed: Sequence[tuple[Set, _State]], allowed: Mask | None
    ) -> list[tuple[int, float]]:
        """Each unit of each set, and the score that the set would lose without it."""
        each = [(unit, units, state.score) for units, state in followed for unit in units]
        others = [tuple(u for u in units if u != unit) for unit, units, _ in each]
        sets = sorted({*others} - {()})
        scores = self._units.scores(query, sets, self.settings.score, allowed).tolist()
        score_of_set: dict[Set, float] = {(): 0.0, **dict(zip(sets, scores, strict=True))}
        pairs = zip(each, others, strict=True)
        return [(unit, score - score_of_set[rest]) for (unit, _, score), rest in pairs]

    def _residuals(self, query: Query, beam: Sequence[tuple[Set, _State]]) -> Float32:
        """(b, d) residual question of each set: its vector minus those of the set's units."""
        sums = self._units.vectors([units for units, _ in beam])
        return query.vector - sums if self.settings.updating else query.vector + 0 * sums

    def _closest(
        self, entities: Sequence[int], units: Set, residual: Float32, allowed: Mask | None
    ) -> set[int]:
        """The units closest to `residual` from each entity."""
        corpus, closest = self._corpus, set[int]()
        lists = [self._graph.graph.sentences_with(entity) for entity in entities]
        if not lists:
            return closest
        rows = np.concatenate(lists)
        similarity = products_of(corpus.sentence_vectors, rows, residual)
        free = ~np.isin(rows, units)
        if allowed is not None:
            free &= allowed[corpus.sentence_passage[rows]]
        start = 0
        for unit_rows in lists:
            span = slice(start, start + len(unit_rows))
            start += len(unit_rows)
            free_positions = np.flatnonzero(free[span])
            best = free_positions[top_rows(similarity[span][free_positions], self.settings.nearest)]
            closest.update(unit_rows[best].tolist())
        return closest
