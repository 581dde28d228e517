"""The graph arm: seeds, semantic bridging, and personalized PageRank from both.

LinearRAG (arXiv 2510.10114), with additions that were measured to help, on the few passages that a
question needs (`question`). A `TriGraphBatch` keeps the result of each step, so a ranking is
explained by the numbers that produced it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wye.backends.arrays import distinct, without
from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.numerics import batches, top_rows
from wye.backends.papers.units import Units, activate, best_facts
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.bridging import Activation, Restart, bridge, equation_5
from wye.backends.trigraph.explanation import Explanation, Trace, explain_walk
from wye.backends.trigraph.graph import FilteredGraph, TriGraph, assemble
from wye.backends.trigraph.question import HEADS, MOST_NAMING, InMemory, PassageSource, union
from wye.backends.trigraph.seeds import Seed, SeedFinder, SeedStats
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import Promoted, promote, walk
from wye.backends.types import (
    Float32,
    Int64,
    Mask,
    NameCoverage,
    Query,
    Ranking,
    RowHits,
    Scores,
    TextScorer,
)

LexicalScores = Callable[[Query], Float32]

Similarities = Callable[[Sequence[Query], Mask | None], list[Scores]]
"""From questions and a mask over the passages to each question's known similarities."""


NO_SEED = "no entity of the question is in the graph: ranked by the passages' prior alone"


class TriGraphRetriever:
    """Ranks passages by a walk over the Tri-Graph of one index version."""

    name = "graph"

    def __init__(
        self,
        corpus: Corpus,
        settings: TriGraphSettings,
        lexical: LexicalScores | None = None,
        graph: TriGraph | None = None,
        *,
        near: Similarities | None = None,
        scorer: TextScorer | None = None,
    ) -> None:
        """Prepare to search a corpus by its graph, which is built for None.

        Args:
            lexical: From a query to (n,) BM25 scores, which a weight may need.
            near: The dense arm's `scores`; None to compare with all passages.
            scorer: Scores sets of sentences for "facts" and the clue arm, beside words and vectors.
        """
        self.settings = settings
        self.corpus = corpus
        self.graph = assemble(corpus, settings.assembly) if graph is None else graph
        self.finder = SeedFinder(self.graph, corpus, settings.seeds)
        self.lexical = lexical if settings.weighs_lexical else None
        exact = DenseSettings(kind="exact")
        self.near = near or DenseRetriever(corpus.ids, corpus.vectors, exact).scores
        self.scorer = scorer
        self.units = Units(corpus, scorer) if settings.activation == "facts" else None

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each query, best first."""
        rankings: list[Ranking] = []
        for part in batches(queries, len(self.corpus)):
            rankings += self.batch(part, allowed).search(range(len(part)), k)
        return rankings

    def batch(self, queries: Sequence[Query], allowed: Mask | None = None) -> "TriGraphBatch":
        """A batch of questions, see `batches`."""
        return TriGraphBatch(self, queries, FilteredGraph(self.graph, allowed))

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        return self.finder.needs_vector(mention)


class TriGraphBatch:
    """A batch of questions, identified by position; each step runs once per question."""

    def __init__(
        self, arm: TriGraphRetriever, queries: Sequence[Query], filtered: FilteredGraph
    ) -> None:
        self._arm = arm
        self._queries = queries
        self.filtered = filtered
        self._settings = arm.settings
        self._in_words: dict[int, tuple[Seed, ...]] = {}
        self._seeds: dict[int, tuple[Seed, ...]] = {}
        self._walked: dict[int, tuple[PassageSource, Trace, Promoted]] = {}

    def needs_parse(self, position: int) -> bool:
        """Whether a question's seeds depend on its mentions, which a parse finds."""
        return not self._arm.finder.suffice(self._seeds_in_words(position))

    def names(self, position: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        seeds = self._seeds_in_words(position)
        return [seed.mention for seed in seeds if seed.value >= 1 or " " in seed.mention]

    def seeds(self, positions: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, with how specific they are; needs no walk."""
        return [self._stats(self._seeds_of(position)) for position in positions]

    def _stats(self, seeds: Sequence[Seed]) -> tuple[SeedStats, ...]:
        entities = np.array([seed.entity for seed in seeds], np.int64)
        passages, titles = self.filtered.degree(entities), self.filtered.titles(entities)[1]
        rows = zip(seeds, passages.tolist(), titles.tolist(), strict=True)
        return tuple(
            SeedStats(one.mention, one.value, one.origin, *counts) for one, *counts in rows
        )

    def names_in(
        self, positions: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """Where the names in some questions' words occur in passages by id; needs no parse."""
        rows = [np.array(self._arm.corpus.rows(passage_ids), np.int64) for passage_ids in ids]
        return [*map(self._coverage, map(self._seeds_in_words, positions), rows)]

    def _coverage(self, seeds: Sequence[Seed], passages: Int64) -> tuple[NameCoverage, ...]:
        graph, entities = self._arm.graph, np.array([seed.entity for seed in seeds], np.int64)
        degrees, titled = self.filtered.degree(entities), self.filtered.titles(entities)[1]
        are_in = list[list[int]]()
        for passage, entity in (graph.titles.pairs(passages), graph.mentioned_in(passages)[:2]):
            which, at = np.nonzero(entities[:, None] == entity)
            flags = [0] * len(seeds)
            for number, position in zip(which.tolist(), passage[at].tolist(), strict=True):
                flags[number] |= 1 << position
            are_in.append(flags)
        fields = zip(seeds, degrees.tolist(), titled.tolist(), *are_in, strict=True)
        return tuple(NameCoverage(seed.mention, seed.value, *rest) for seed, *rest in fields)

    def search(
        self,
        positions: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores] | None = None,
        lexical: Mapping[int, Scores] | None = None,
    ) -> list[Ranking]:
        """At most k passages for questions at some positions.

        `similarities` and `lexical` are scores of questions for which they are known already.
        """
        missing = [position for position in positions if position not in self._walked]
        sources = self._sources(missing, similarities or {}, lexical or {})
        for position, source in zip(missing, sources, strict=True):
            self._walked[position] = source, *self._walk(position, source)
        return [self._rank(*self._walked[position][1:], k) for position in positions]

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of any arm's ranking of a question by the numbers of the walk."""
        source, trace, (mass, named_in) = self._walked[position]
        return explain_walk(source, trace, mass, ranking, named_in)

    def _walk(self, position: int, source: PassageSource) -> tuple[Trace, Promoted]:
        """The graph of a question, and the mass that settles on its passages."""
        settings, query = self._settings, self._queries[position]
        seeds = self._seeds_of(position) if self._arm.units is None else ()
        named = np.array(sorted(seed.entity for seed in seeds), np.int64)
        most = settings.candidates and max(settings.candidates // 4, 1)
        passages = source.text_hits(most)
        if most:
            passages = union(passages, source.mentioning(named, most))
        activation = self._activate(query, seeds, source, passages)
        restart = Restart(source, seeds, activation, settings)
        edges = source.edges(passages)
        prior = restart.prior(edges)
        if most:
            is_head = np.zeros(len(prior), bool)
            is_head[top_rows(prior, HEADS)] = True
            names = distinct(edges.entity[is_head[edges.passage]])
            names = names[source.degree(names) <= MOST_NAMING]
            reached = without(activation.entities, named)
            others = source.edges(without(source.led_to(reached, names, most), passages))
            order = source.by_id(np.concatenate([edges.passages, others.passages]))
            edges = edges.with_others(others, order)
            prior = np.concatenate([prior, restart.prior(others)])[order]
        trace = Trace(seeds, activation, edges.passages, prior, restart.masses)
        if not len(activation.entities):
            return trace, Promoted(prior, {})
        ties, masses = source.consecutive(edges.passages), (activation.entities, restart.masses)
        mass = walk(edges, ties, prior, masses, settings.damping)
        return trace, promote(source, edges, mass, settings.promotion)

    def _activate(
        self, query: Query, seeds: Sequence[Seed], source: PassageSource, passages: Int64
    ) -> Activation:
        settings, values = self._settings, {seed.entity: seed.value for seed in seeds}
        if self._arm.units is not None:
            facts = best_facts(self._arm.units, query, self.filtered.allowed)
            return activate(self._arm.graph.mentions, *facts, self.filtered.degree)
        sentences, threshold = source.sentences(passages), settings.threshold
        if settings.activation == "eq5":
            return equation_5(sentences, values, steps=settings.steps, threshold=threshold)
        return bridge(
            sentences,
            values,
            steps=settings.steps,
            threshold=threshold,
            sentences_per_entity=settings.sentences_per_entity,
        )

    def _rank(self, trace: Trace, promoted: Promoted, k: int) -> Ranking:
        allowed, corpus = self.filtered.allowed, self._arm.corpus
        candidates = len(corpus) if allowed is None else int(np.count_nonzero(allowed))
        best = top_rows(promoted.mass, k)
        hits = RowHits(corpus.ids, trace.passages[best], promoted.mass[best])
        return Ranking(self._arm.name, hits, candidates, reason_of(trace))

    def _seeds_in_words(self, position: int) -> tuple[Seed, ...]:
        if position not in self._in_words:
            query, degree = self._queries[position], self.filtered.degree
            self._in_words[position] = self._arm.finder.in_words(query, degree)
        return self._in_words[position]

    def _seeds_of(self, position: int) -> tuple[Seed, ...]:
        if position not in self._seeds:
            query, words = self._queries[position], self._seeds_in_words(position)
            self._seeds[position] = self._arm.finder.find(query, self.filtered.degree, words)
        return self._seeds[position]

    def _sources(
        self,
        positions: Sequence[int],
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[PassageSource]:
        """The corpus as each of some questions sees it."""
        arm, unknown = self._arm, [each for each in positions if each not in similarities]
        computed = arm.near([self._queries[each] for each in unknown], self.filtered.allowed)
        near = {**similarities, **dict(zip(unknown, computed, strict=True))}
        sources: list[PassageSource] = []
        for position in positions:
            query, bm25 = self._queries[position], None
            if arm.lexical is not None:
                known = lexical.get(position)
                bm25 = known.values if known else arm.lexical(query)
            scores = near[position], bm25
            sources.append(InMemory(arm.corpus, arm.graph, self.filtered, query, scores))
        return sources


def reason_of(trace: Trace) -> str:
    """Why a ranking is degraded; empty if it is not."""
    return "" if len(trace.activation.entities) else NO_SEED
