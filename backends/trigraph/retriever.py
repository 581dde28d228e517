"""The graph arm: seeds, semantic bridging, and personalized PageRank from both.

LinearRAG (arXiv 2510.10114), with additions that were measured to help. A `TriGraphBatch` keeps the
result of each step, so a ranking is explained by the numbers that produced it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.numerics import (
    batches,
    distinct,
    half_products,
    located,
    products_of,
    ranges,
    require_k,
    require_mask,
    top_rows,
    without,
)
from wye.backends.papers.units import Units, activate, best_facts
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.assembly import assemble
from wye.backends.trigraph.bridging import Activation, bridge, equation_5
from wye.backends.trigraph.explanation import Explanation, Trace, explain_walk
from wye.backends.trigraph.graph import FilteredGraph, TriGraph
from wye.backends.trigraph.prior import Prior
from wye.backends.trigraph.promotion import MOST, Promoted, promote
from wye.backends.trigraph.seeds import Seed, SeedFinder, SeedStats
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import Masses, QuestionGraphs
from wye.backends.types import (
    Float32,
    Float64,
    Int64,
    Mask,
    NameCoverage,
    Query,
    Ranking,
    RowHits,
    Scores,
    TextScorer,
    bits,
)

LexicalScores = Callable[[Query], Float32]

Similarities = Callable[[Sequence[Query], Mask | None], list[Scores]]
"""From questions and a mask over the passages to each question's known similarities."""


HEADS = 10
"""How many of the candidates with the best prior bring in those whose titles they mention."""

TOGETHER = 50_000
"""Passages of the questions whose walks are one, which bounds the memory of a batch."""

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
        """Prepare to search a corpus.

        Args:
            lexical: From a query to (n,) BM25 scores; needed if a lexical weight is not 0.
            graph: The graph of this corpus and these settings; None to build it.
            near: The dense arm's `scores`; None to compare with all passages.
            scorer: Scores sets of sentences for "facts" and the clue arm; None to use words and
                vectors alone.

        Raises:
            ValueError: `lexical` is needed and missing: ignoring BM25 would go unnoticed.
        """
        if lexical is None and settings.weighs_lexical:
            raise ValueError(
                "These settings weigh BM25, and no lexical scores were given. Pass the lexical "
                "arm's scores, or set lexical_weight and lexical_weight_titled to 0."
            )
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
        """A batch of questions; `batches` splits them into small enough batches.

        Raises:
            RequestError: The mask does not fit this version.
        """
        require_mask(allowed, len(self.corpus))
        return TriGraphBatch(self, queries, FilteredGraph(self.graph, allowed))

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        return self.finder.needs_vector(mention)


class TriGraphBatch:
    """A batch of questions, identified by position; each step runs once per question.

    Attributes:
        filtered: The graph of the allowed passages.
    """

    def __init__(
        self, arm: TriGraphRetriever, queries: Sequence[Query], filtered: FilteredGraph
    ) -> None:
        self._arm = arm
        self._queries = queries
        self.filtered = filtered
        self._settings = arm.settings
        self._in_words: dict[int, tuple[Seed, ...]] = {}
        self._seeds: dict[int, tuple[Seed, ...]] = {}
        self._walked: dict[int, tuple[Trace, Promoted]] = {}

    def needs_parse(self, position: int) -> bool:
        """Whether a question's seeds depend on its mentions, which a parse finds."""
        return not self._arm.finder.suffice(self._seeds_in_words(position))

    def names(self, position: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        seeds = self._seeds_in_words(position)
        return [seed.mention for seed in seeds if seed.value >= 1 or " " in seed.mention]

    def seeds(self, positions: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, with how specific they are; needs no walk."""
        return [self._stats(self._seeds_of(place)) for place in positions]

    def _stats(self, seeds: Sequence[Seed]) -> tuple[SeedStats, ...]:
        entities = np.array([seed.entity for seed in seeds], np.int64)
        passages, titles = self.filtered.degree(entities), self.filtered.titles(entities)[1]
        return tuple(
            SeedStats(seed.mention, seed.value, seed.origin, *both)
            for seed, both in zip(
                seeds, zip(passages.tolist(), titles.tolist(), strict=True), strict=True
            )
        )

    def names_in(
        self, positions: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """Where the names in some questions' words occur in a few passages; needs no parse.

        Args:
            ids: Ids of the passages of each question.
        """
        return [
            self._names_in(position, passage_ids)
            for position, passage_ids in zip(positions, ids, strict=True)
        ]

    def _names_in(self, position: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        rows, coverages = np.array(self._arm.corpus.rows(ids), np.int64), []
        for seed in self._seeds_in_words(position):
            entity = np.array([seed.entity])
            mentioned, titled = self.filtered.mentions(entity)[0], self.filtered.titles(entity)[0]
            coverages.append(
                NameCoverage(
                    mention=seed.mention,
                    value=seed.value,
                    degree=len(mentioned),
                    titled=len(titled),
                    titles=bits(located(rows, titled)[1].tolist()),
                    texts=bits(located(rows, mentioned)[1].tolist()),
                )
            )
        return tuple(coverages)

    def search(
        self,
        positions: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores] | None = None,
        lexical: Mapping[int, Scores] | None = None,
    ) -> list[Ranking]:
        """At most k passages for some of the questions.

        Args:
            positions: Positions of the questions.
            similarities: The dense arm's scores of questions for which they are known already.
            lexical: BM25 scores of questions for which they are known already.

        Raises:
            RequestError: k is below 1, or a vector does not fit this index.
        """
        require_k(k)
        missing = [position for position in positions if position not in self._walked]
        known, lexical_scores = dict(similarities or {}), lexical or {}
        unknown = [position for position in missing if position not in known]
        queries = [self._queries[position] for position in unknown]
        known.update(zip(unknown, self._arm.near(queries, self.filtered.allowed), strict=True))
        traces = [
            self.trace(
                position,
                known[position],
                lexical_scores[position].values if position in lexical_scores else None,
            )
            for position in missing
        ]
        walks = self._promoted(traces, self.run_pagerank(traces))
        self._walked.update(zip(missing, zip(traces, walks, strict=True), strict=True))
        return [self._rank(*self._walked[position], k) for position in positions]

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of a ranking's passages by the walk's own numbers.

        Args:
            position: Position of a question that was searched.
            ranking: A ranking of this or another arm; passages that this version lacks are left
                out.
        """
        trace, (settled, named_in) = self._walked[position]
        arm = self._arm
        return explain_walk(
            arm.graph, arm.corpus, trace, settled, ranking, self.filtered.degree, named_in
        )

    def trace(
        self, position: int, similarity: Scores | None = None, lexical: Float32 | None = None
    ) -> Trace:
        """Seeds, activation and restart vector of a question.

        Args:
            similarity: The dense arm's scores; None to compute them.
            lexical: (n,) BM25 of every passage; None to compute it.

        Raises:
            RequestError: The question's vector does not fit this index.
        """
        query, filtered, settings = self._queries[position], self.filtered, self._settings
        if similarity is None:
            (similarity,) = self._arm.near([query], filtered.allowed)
        if lexical is None or self._arm.lexical is None:
            lexical = self._lexical(query)
        seeds = self._seeds_of(position) if self._arm.units is None else ()
        text = self._text_hits(similarity, lexical)
        activation = self._activate(query, seeds, text)
        prior = Prior(settings, filtered, seeds, activation)
        vectors = self._arm.corpus.vectors

        def similar(rows: Int64) -> Float32:
            if similarity.rows is None:
                return similarity.values[rows]
            return products_of(vectors, rows, query.vector)

        def prior_of(rows: Int64) -> Float64:
            return prior.of(rows, similar(rows), lexical[rows])

        prior.scale(similar(text), lexical[text])
        passages, restart_mass = self._candidates(text, prior.named, prior_of)
        mass = activation.weight if settings.summed else activation.value
        divisor = np.maximum(prior.degree, 1) ** settings.degree_power
        restart = np.where(prior.degree > 0, mass / divisor, 0)
        return Trace(seeds, activation, passages, restart_mass, restart)

    def run_pagerank(self, traces: Sequence[Trace]) -> list[Masses]:
        """For each trace its candidates, and the mass that settles on them."""
        masses: list[Masses] = []
        for part in _in_groups(traces):
            rows = [trace.passages for trace in part]
            graphs = QuestionGraphs.of(self._arm.graph, self._arm.corpus, rows)
            settled = graphs.walk(
                np.concatenate([trace.prior for trace in part]),
                [(trace.activation.entities, trace.restart) for trace in part],
                self._settings.damping,
            )
            masses += zip(rows, settled, strict=True)
        return masses

    def _candidates(
        self, text: Int64, named: Int64, prior_of: Callable[[Int64], Float64]
    ) -> Masses:
        """The passages among which a question's walk takes place, and the prior of each.

        A small share of a large graph ranks as the whole does, if it has what the walk would
        reach: the text hits, passages of active entities, and those whose titles the best mention.

        Args:
            text: Rows of the text hits, ascending.
            named: Rows of the passages that mention active entities, ascending.
            prior_of: From rows, ascending, to their prior.
        """
        most, filtered = self._settings.candidates, self.filtered
        if not most:
            return text, prior_of(text)
        rows = distinct(np.concatenate([text, named]))
        prior = prior_of(rows)
        positions = np.searchsorted(rows, named)
        is_chosen = np.zeros(len(rows), bool)
        is_chosen[np.searchsorted(rows, text)] = True
        is_chosen[positions[top_rows(prior[positions], most)]] = True
        rows, prior = rows[is_chosen], prior[is_chosen]
        heads = rows[top_rows(prior, HEADS)]
        entities = distinct(self._arm.graph.entities_of(heads)[1])
        titled, _ = filtered.titles(entities[filtered.degree(entities) <= MOST])
        more = without(distinct(titled.astype(np.int64)), rows)
        more_prior = prior_of(more)
        best = top_rows(more_prior, most)
        rows, prior = np.append(rows, more[best]), np.append(prior, more_prior[best])
        order = np.argsort(rows)
        return rows[order], prior[order]

    @cached_property
    def _passages(self) -> Int64:
        """Rows of the allowed passages, ascending."""
        if self.filtered.allowed is None:
            return np.arange(len(self._arm.corpus), dtype=np.int64)
        return np.flatnonzero(self.filtered.allowed)

    def _text_hits(self, similarity: Scores, lexical: Float32) -> Int64:
        """Rows of the allowed passages with the best similarity or BM25, ascending."""
        most, allowed = self._settings.candidates, self.filtered.allowed
        if not most:
            return self._passages
        near, values = similarity.rows, similarity.values
        if near is None:
            near = self._passages
            values = values if allowed is None else values[near]
        scores = lexical if allowed is None else np.where(allowed, lexical, np.float32(0))
        best = top_rows(scores, most)
        return distinct(np.concatenate([near[top_rows(values, most)], best[scores[best] > 0]]))

    def _seeds_in_words(self, position: int) -> tuple[Seed, ...]:
        if position not in self._in_words:
            query, degree = self._queries[position], self.filtered.degree
            self._in_words[position] = self._arm.finder.in_words(query, degree)
        return self._in_words[position]

    def _seeds_of(self, position: int) -> tuple[Seed, ...]:
        if position not in self._seeds:
            query, degree, named = (
                self._queries[position],
                self.filtered.degree,
                self._seeds_in_words(position),
            )
            self._seeds[position] = self._arm.finder.find(query, degree, named)
        return self._seeds[position]

    def _lexical(self, query: Query) -> Float32:
        if self._arm.lexical is None:
            return np.zeros(len(self._arm.corpus), np.float32)
        return self._arm.lexical(query)

    def _promoted(self, traces: Sequence[Trace], settled: Sequence[Masses]) -> list[Promoted]:
        """The walks from some entity after promotion; others do not rank by their mass."""
        share = self._settings.promotion
        results = [Promoted(own, {}) for own in settled]
        with_entities = [n for n, trace in enumerate(traces) if len(trace.activation.entities)]
        walks = [settled[number] for number in with_entities]
        promoted = promote(self._arm.graph, self.filtered, walks, share)
        for number, own in zip(with_entities, promoted, strict=True):
            results[number] = own
        return results

    def _rank(self, trace: Trace, promoted: Promoted, k: int) -> Ranking:
        walked = len(trace.activation.entities) > 0
        rows, score = promoted.settled if walked else (trace.passages, trace.prior)
        allowed, corpus = self.filtered.allowed, self._arm.corpus
        candidates = len(corpus) if allowed is None else int(np.count_nonzero(allowed))
        best, why = top_rows(score, k), "" if walked else NO_SEED
        hits = RowHits(corpus.ids, rows[best], score[best])
        return Ranking(self._arm.name, hits, candidates, why)

    def _activate(self, query: Query, seeds: tuple[Seed, ...], text: Int64) -> Activation:
        corpus, allowed = self._arm.corpus, self.filtered.allowed

        def text_sentences() -> Int64:
            owners = corpus.sentence_passage
            rows = text.astype(owners.dtype)
            return ranges(np.searchsorted(owners, rows), np.searchsorted(owners, rows, "right"))

        def similarity(sentences: NDArray[np.int64]) -> Float32:
            near = half_products(corpus.sentence_vectors, sentences, query.vector)
            if allowed is not None:
                near[~allowed[corpus.sentence_passage[sentences]]] = -1
            return near

        mentions, settings = self._arm.graph.mentions, self._settings
        if self._arm.units is not None:
            facts = best_facts(self._arm.units, query, allowed)
            return activate(mentions, *facts, self.filtered.degree)
        values = {seed.entity: seed.value for seed in seeds}
        if settings.activation == "eq5":
            return equation_5(
                mentions, values, similarity, steps=settings.steps, threshold=settings.threshold
            )
        return bridge(
            mentions,
            values,
            similarity,
            steps=settings.steps,
            threshold=settings.threshold,
            sentences_per_entity=settings.sentences_per_entity,
            within=text_sentences,
        )


def _in_groups(traces: Sequence[Trace]) -> Iterator[Sequence[Trace]]:
    """Consecutive traces, as many as have `TOGETHER` passages, at least one."""
    start = passages = 0
    for position, trace in enumerate(traces):
        passages += len(trace.passages)
        if position > start and passages > TOGETHER:
            yield traces[start:position]
            start, passages = position, len(trace.passages)
    if traces:
        yield traces[start:]
