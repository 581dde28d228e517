"""The graph arm: seeds, semantic bridging, and personalized PageRank from both.

LinearRAG (arXiv 2510.10114), with additions that were measured to help. A `TriGraphBatch` keeps the
result of each step, so a ranking is explained by the numbers that produced it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from wye.backends.dense import DenseRetriever, DenseSettings
from wye.backends.numerics import (
    batches,
    distinct,
    first_of_each,
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
from wye.backends.trigraph.bridging import Activation, Priors, bridge, equation_5
from wye.backends.trigraph.explanation import Explanation, Trace, explain_walk
from wye.backends.trigraph.graph import FilteredGraph, TriGraph, assemble, counted
from wye.backends.trigraph.seeds import Seed, SeedFinder, SeedStats
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.trigraph.walk import MOST_NAMING, Masses, Promoted, QuestionGraphs, promote
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
                "These settings weigh BM25, and there are no lexical scores. Pass the lexical "
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
        """Where the names in some questions' words occur in a few passages; needs no parse.

        Args:
            ids: Ids of the passages of each question.
        """
        rows = [np.array(self._arm.corpus.rows(passage_ids), np.int64) for passage_ids in ids]
        return [
            tuple(self._coverage(seed, passages) for seed in self._seeds_in_words(position))
            for position, passages in zip(positions, rows, strict=True)
        ]

    def _coverage(self, seed: Seed, passages: Int64) -> NameCoverage:
        entity = np.array([seed.entity])
        mentioned, titled = self.filtered.mentions(entity)[0], self.filtered.titles(entity)[0]
        in_titles, in_texts = (
            bits(located(passages, rows)[1].tolist()) for rows in (titled, mentioned)
        )
        counts = len(mentioned), len(titled)
        return NameCoverage(seed.mention, seed.value, *counts, in_titles, in_texts)

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
        traces = self.traces(missing, similarities, lexical)
        walks = self._promoted(traces, self.run_pagerank(traces))
        self._walked.update(zip(missing, zip(traces, walks, strict=True), strict=True))
        return [self._rank(*self._walked[position], k) for position in positions]

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Explain the ranks of a ranking's passages by the numbers of the walk.

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

    def traces(
        self,
        positions: Sequence[int],
        similarities: Mapping[int, Scores] | None = None,
        lexical: Mapping[int, Scores] | None = None,
    ) -> list[Trace]:
        """Seeds, activation and restart vector of some questions.

        Args:
            similarities: The dense arm's scores of questions for which they are known already.
            lexical: BM25 scores of questions for which they are known already.

        Raises:
            RequestError: A question's vector does not fit this index.
        """
        if not positions:
            return []
        arm, settings, size = self._arm, self._settings, max(len(self._arm.corpus), 1)
        queries = [self._queries[position] for position in positions]
        near, bm25 = self._text_scores(positions, similarities or {}, lexical or {})
        seeds = [self._seeds_of(position) if arm.units is None else () for position in positions]
        hits = [self._text_hits(*scores) for scores in zip(near, bm25, strict=True)]
        activations = [*map(self._activate, queries, seeds, hits)]
        priors = Priors(settings, self.filtered, size, seeds, activations)

        def scores_of(keys: Int64) -> tuple[Float32, Float32]:
            """Similarity and BM25 of passages, by key."""
            ends = np.searchsorted(keys, np.arange(1, len(queries)) * size)
            similar, lexical = [np.empty(0, np.float32)], [np.empty(0, np.float32)]
            for query, dense, scores, rows in zip(
                queries, near, bm25, np.split(keys % size, ends), strict=True
            ):
                similar.append(
                    dense.values[rows]
                    if dense.rows is None
                    else products_of(arm.corpus.vectors, rows, query.vector)
                )
                lexical.append(scores[rows])
            return np.concatenate(similar), np.concatenate(lexical)

        def prior_of(keys: Int64) -> Float64:
            return priors.of(keys, *scores_of(keys))

        keys = _joined([number * size + rows for number, rows in enumerate(hits)])
        priors.scale(keys, *scores_of(keys))
        keys, restart = self._candidates(keys, priors.named, prior_of)
        ends = np.searchsorted(keys, np.arange(1, len(queries)) * size)
        passages, restarts = np.split(keys % size, ends), np.split(restart, ends)
        traces, end = [], 0
        for named, activation, rows, mass in zip(
            seeds, activations, passages, restarts, strict=True
        ):
            start, end = end, end + len(activation.entities)
            degree = priors.degree[start:end]
            divisor = np.maximum(degree, 1) ** settings.degree_power
            entity_restart = np.where(degree > 0, activation.weight / divisor, 0)
            traces.append(Trace(named, activation, rows, mass, entity_restart))
        return traces

    def run_pagerank(self, traces: Sequence[Trace]) -> list[Masses]:
        """For each trace its candidates, and the mass that settles on them."""
        masses: list[Masses] = []
        for part in _in_groups(traces):
            rows = [trace.passages for trace in part]
            starts = [trace.activation.entities for trace in part]
            graphs = QuestionGraphs.of(self._arm.graph, self._arm.corpus, rows, starts)
            settled = graphs.walk(
                np.concatenate([trace.prior for trace in part]),
                [(trace.activation.entities, trace.restart) for trace in part],
                self._settings.damping,
            )
            masses += zip(rows, settled, strict=True)
        return masses

    def _candidates(
        self, text: Int64, named: Int64, prior_of: Callable[[Int64], Float64]
    ) -> tuple[Int64, Float64]:
        """The passages to which each question's walk is confined, by key, with their priors.

        A small share of a large graph ranks as the whole does, if it has what the walk would
        reach: the text hits, passages of active entities, and those whose titles the best mention.

        Args:
            text: Keys of the text hits, ascending; see `Priors`.
            named: Keys of the passages that mention active entities, ascending.
            prior_of: From keys, ascending, to their prior.
        """
        most, size = self._settings.candidates, max(len(self._arm.corpus), 1)
        if not most:
            return text, prior_of(text)
        keys = distinct(np.concatenate([text, named]))
        prior = prior_of(keys)
        positions = np.searchsorted(keys, named)
        is_candidate = np.zeros(len(keys), bool)
        is_candidate[np.searchsorted(keys, text)] = True
        is_candidate[positions[_best_of_each(named // size, prior[positions], most)]] = True
        keys, prior = keys[is_candidate], prior[is_candidate]
        heads = keys[_best_of_each(keys // size, prior, HEADS)]
        graph, filtered = self._arm.graph, self.filtered
        owner, entity = graph.entities_of(heads % size)
        question, entity, _ = counted(heads[owner] // size, entity, len(graph))
        is_rare = filtered.degree(entity) <= MOST_NAMING
        titled, lengths = filtered.titles(entity[is_rare])
        titled_keys = np.repeat(question[is_rare] * size, lengths) + titled
        more = without(distinct(titled_keys), keys)
        more_prior = prior_of(more)
        best = _best_of_each(more // size, more_prior, most)
        keys, prior = np.append(keys, more[best]), np.append(prior, more_prior[best])
        order = np.argsort(keys)
        return keys[order], prior[order]

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
            query, words = self._queries[position], self._seeds_in_words(position)
            self._seeds[position] = self._arm.finder.find(query, self.filtered.degree, words)
        return self._seeds[position]

    def _text_scores(
        self,
        positions: Sequence[int],
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> tuple[list[Scores], list[Float32]]:
        """The dense arm's scores of some questions, and BM25 of every passage."""
        arm, unknown = self._arm, [each for each in positions if each not in similarities]
        computed = arm.near([self._queries[each] for each in unknown], self.filtered.allowed)
        near = {**similarities, **dict(zip(unknown, computed, strict=True))}
        bm25: list[Float32] = []
        for position in positions:
            if arm.lexical is None:
                bm25.append(np.zeros(len(arm.corpus), np.float32))
            elif position in lexical:
                bm25.append(lexical[position].values)
            else:
                bm25.append(arm.lexical(self._queries[position]))
        return [near[position] for position in positions], bm25

    def _promoted(self, traces: Sequence[Trace], settled: Sequence[Masses]) -> list[Promoted]:
        """The walks from some entity after promotion; others do not rank by their mass."""
        share = self._settings.promotion
        results = [Promoted(masses, {}) for masses in settled]
        with_entities = [n for n, trace in enumerate(traces) if len(trace.activation.entities)]
        walks = [settled[number] for number in with_entities]
        promoted = promote(self._arm.graph, self.filtered, walks, share)
        for number, result in zip(with_entities, promoted, strict=True):
            results[number] = result
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
            starts = self._arm.graph.sentence_starts
            return ranges(starts[text], starts[text + 1])

        def similarity(sentences: Int64) -> Float32:
            near = products_of(corpus.sentence_vectors, sentences, query.vector)
            if allowed is not None:
                near[~allowed[corpus.sentence_passage[sentences]]] = -1
            return near

        mentions, settings = self._arm.graph.mentions, self._settings
        if self._arm.units is not None:
            facts = best_facts(self._arm.units, query, allowed)
            return activate(mentions, *facts, self.filtered.degree)
        values = {seed.entity: seed.value for seed in seeds}
        steps, threshold = settings.steps, settings.threshold
        if settings.activation == "eq5":
            return equation_5(mentions, values, similarity, steps=steps, threshold=threshold)
        most = settings.sentences_per_entity
        return bridge(
            mentions,
            values,
            similarity,
            steps=steps,
            threshold=threshold,
            sentences_per_entity=most,
            within=text_sentences,
        )


def _joined(arrays: Sequence[Int64]) -> Int64:
    """Arrays end to end; an empty one where there are none."""
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _best_of_each(groups: Int64, scores: Float64, k: int) -> Int64:
    """Positions of the k highest scores of each group, ties by position; groups are ascending."""
    starts = first_of_each(groups)
    bounds = pairwise([*starts.tolist(), len(groups)])
    return _joined(
        [
            start + top_rows(scores[start:end], k) if end - start > k else np.arange(start, end)
            for start, end in bounds
        ]
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
