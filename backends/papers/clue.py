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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wye.backends.arrays import distinct
from wye.backends.numerics import batches, products_of, rank_rows, require_k, top_rows
from wye.backends.papers.settings import ClueSettings
from wye.backends.papers.units import Set, Units
from wye.backends.trigraph.bridging import Activation, Bridge
from wye.backends.trigraph.explanation import QUESTION, Explanation, Trace, explain_walk
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.question import HUB, InMemory
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.seeds import Seed
from wye.backends.trigraph.walk import walk
from wye.backends.types import Float32, Float64, Mask, Query, Ranking, RowHits

NO_CLUE = (
    "no sentence of the passages that may be found mentions an entity: ranked by similarity alone"
)
SHARPNESS = 10
"""A passage's restart mass is e to the power of this times its score."""


_Way = tuple[int, int]
"""How an entity was reached: the row of a unit, and the entity from which that was taken. The
latter is `QUESTION` for an anchoring unit; both are for an entity that the question names."""
_NAMED: _Way = (QUESTION, QUESTION)


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a set of units in the beam.

    Attributes:
        entities: Entities to go on from, and how each was reached.
        score: The set's score.
    """

    entities: Mapping[int, _Way]
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

        Raises:
            RequestError: k is below 1, or the mask or a vector does not fit this version.
        """
        require_k(k)
        rankings: list[Ranking] = []
        for group in batches(queries, len(self._corpus)):
            filtered = self._graph.batch(group, allowed).filtered
            for query in group:
                trace = self._trace(query, filtered)
                mass = self._settled(trace, filtered)
                rankings.append(self._rank(query, trace, mass, k, filtered.allowed))
        return rankings

    def explain(self, query: Query, ranking: Ranking, allowed: Mask | None = None) -> Explanation:
        """Explain which units led to the passages of a ranking, of this or another arm."""
        filtered = self._graph.batch([query], allowed).filtered
        trace = self._trace(query, filtered)
        source = InMemory(self._corpus, self._graph.graph, filtered)
        return explain_walk(source, trace, self._settled(trace, filtered), ranking)

    def _settled(self, trace: Trace, filtered: FilteredGraph) -> Float64:
        """The mass that settles on the passages of a trace."""
        source = InMemory(self._corpus, self._graph.graph, filtered)
        edges, ties = source.edges(trace.passages), source.consecutive(trace.passages)
        restart = trace.activation.entities, trace.restart
        return walk(edges, ties, trace.prior, restart, self._graph.settings.damping)

    def _rank(
        self, query: Query, trace: Trace, mass: Float64, k: int, allowed: Mask | None
    ) -> Ranking:
        ids = self._corpus.ids
        if not len(trace.passages):
            similarity = np.vecdot(self._corpus.vectors, query.vector)
            rows = None if allowed is None else np.flatnonzero(allowed)
            return rank_rows(self.name, ids, similarity, rows, k, degraded=NO_CLUE)
        rows, mass = trace.passages[mass > 0], mass[mass > 0]
        best = top_rows(mass, k)
        return Ranking(self.name, RowHits(ids, rows[best], mass[best]), len(rows))

    def _trace(self, query: Query, filtered: FilteredGraph) -> Trace:
        """The seeds, the entities that units led to, and the walk's restart mass."""
        corpus = self._corpus
        seeds, anchors = self._anchors(query, filtered)
        followed = self._follow(query, anchors, filtered.allowed)
        best: dict[int, float] = {}
        for unit, gain in self._gains(query, followed, filtered.allowed):
            passage = int(corpus.sentence_passage[unit])
            best[passage] = max(gain, best.get(passage, gain))
        rows = np.array(sorted(best), np.int64)
        similarity = np.vecdot(corpus.vectors[rows], query.vector)
        scores = np.array([best[row] for row in rows.tolist()]) + similarity
        prior = np.exp(SHARPNESS * (scores - scores.max(initial=-np.inf)))
        activation = self._activation(query, anchors, followed)
        entities = activation.entities
        reached, _ = filtered.mentions(entities[filtered.degree(entities) <= HUB])
        passages = distinct(np.concatenate([rows, reached])) if len(rows) else rows
        restart = np.zeros(len(passages))
        restart[np.searchsorted(passages, rows)] = prior
        return Trace(seeds, activation, passages, restart, np.zeros(len(entities)))

    def _anchors(
        self, query: Query, filtered: FilteredGraph
    ) -> tuple[tuple[Seed, ...], dict[int, _Way]]:
        """The seeds, and the entities to start from."""
        seeds: tuple[Seed, ...] = ()
        anchors: dict[int, _Way] = {}
        if self.settings.units:
            k = self.settings.nearest
            for unit in self._units.nearest(query.vector, k, filtered.allowed).tolist():
                for entity in self._graph.graph.mentions.one(unit).tolist():
                    anchors.setdefault(entity, (unit, QUESTION))
        if self.settings.names:
            seeds = self._graph.finder.find(query, filtered.degree)
            anchors |= {seed.entity: _NAMED for seed in seeds}
        return seeds, anchors

    def _follow(
        self, query: Query, anchors: Mapping[int, _Way], allowed: Mask | None
    ) -> list[tuple[Set, _State]]:
        """The best sets of each round, best first; see `reference.clue`."""
        mentions, followed = self._graph.graph.mentions, list[tuple[Set, _State]]()
        beam: list[tuple[Set, _State]] = [((), _State(anchors))]
        for _ in range(self.settings.rounds):
            entities_of_set: dict[Set, dict[int, _Way]] = {}
            for (units, state), residual in zip(beam, self._residuals(query, beam), strict=True):
                for way in self._closest(sorted(state.entities), units, residual, allowed):
                    reached = entities_of_set.setdefault(tuple(sorted((*units, way[0]))), {})
                    for entity in mentions.one(way[0]).tolist():
                        reached[entity] = min(way, reached.get(entity, way))
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
        without = sorted(
            {tuple(u for u in units if u != unit) for units, _ in followed for unit in units} - {()}
        )
        by = self.settings.score
        scores = self._units.scores(query, without, by, allowed).tolist()
        score_of_set: dict[Set, float] = {(): 0.0, **dict(zip(without, scores, strict=True))}
        return [
            (unit, state.score - score_of_set[tuple(u for u in units if u != unit)])
            for units, state in followed
            for unit in units
        ]

    def _residuals(self, query: Query, beam: Sequence[tuple[Set, _State]]) -> Float32:
        """(b, d) residual question of each set: its vector minus those of the set's units."""
        sums = self._units.vectors([units for units, _ in beam])
        return query.vector - sums if self.settings.updating else query.vector + 0 * sums

    def _closest(
        self, entities: Sequence[int], units: Set, residual: Float32, allowed: Mask | None
    ) -> set[_Way]:
        """The units closest to `residual` from each entity, with that entity."""
        corpus, closest = self._corpus, set[_Way]()
        lists = [self._graph.graph.sentences_with(entity) for entity in entities]
        if not lists:
            return closest
        rows = np.concatenate(lists)
        similarity = products_of(corpus.sentence_vectors, rows, residual)
        free = ~np.isin(rows, units)
        if allowed is not None:
            free &= allowed[corpus.sentence_passage[rows]]
        start = 0
        for entity, unit_rows in zip(entities, lists, strict=True):
            span = slice(start, start + len(unit_rows))
            start += len(unit_rows)
            free_positions = np.flatnonzero(free[span])
            best = free_positions[top_rows(similarity[span][free_positions], self.settings.nearest)]
            closest.update((unit, entity) for unit in unit_rows[best].tolist())
        return closest

    def _activation(
        self, query: Query, anchors: Mapping[int, _Way], followed: Sequence[tuple[Set, _State]]
    ) -> Activation:
        """The reached entities: best and sum of their sets' scores, and how each was reached."""
        value, weight = dict.fromkeys(anchors, 0.0), dict.fromkeys(anchors, 0.0)
        level, ways = dict.fromkeys(anchors, 1), dict(anchors)
        for units, state in followed:
            for entity, way in state.entities.items():
                value[entity] = max(value.get(entity, 0.0), state.score)
                weight[entity] = weight.get(entity, 0.0) + state.score
                level.setdefault(entity, 1 + len(units))
                ways.setdefault(entity, way)
        entities = sorted(value)
        led = [(entity, *ways[entity]) for entity in entities if ways[entity] != _NAMED]
        rows = np.array([unit for _, unit, _ in led], np.int64)
        similarities = products_of(self._corpus.sentence_vectors, rows, query.vector).tolist()
        return Activation(
            np.array(entities, np.int64),
            np.array([value[entity] for entity in entities]),
            np.array([weight[entity] for entity in entities]),
            np.array([level[entity] for entity in entities], np.int64),
            {
                e: Bridge(unit, similarity, way)
                for (e, unit, way), similarity in zip(led, similarities, strict=True)
            },
        )
