"""The graph arm: seeds, semantic bridging, and personalized PageRank from both.

LinearRAG (arXiv 2510.10114) with what was measured to help on top of it. Every step of a question
is kept in a `Trace`, so a ranking explains itself from the very numbers that made it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse

from backends.numerics import (
    half_products,
    make_ranking,
    products,
    query_matrix,
    require_k,
    require_mask,
    top_rows,
)
from backends.store.snapshot import Corpus
from backends.trigraph import push as local
from backends.trigraph.bridging import Activation, bridge
from backends.trigraph.explanation import (
    Explanation,
    explain_entities,
    explain_passages,
    explain_seeds,
)
from backends.trigraph.graph import AssemblySettings, TriGraph, assemble
from backends.trigraph.pagerank import (
    Stationary,
    Walk,
    personalized_pagerank,
    restrict,
    share_of_mentions,
    walk_on,
)
from backends.trigraph.push import LocalWalk, local_walk
from backends.trigraph.seeds import Seed, SeedFinder, SeedSettings, SeedStats
from backends.types import Float32, Float64, Mask, Query, Ranking

LexicalScores = Callable[[Sequence[Query]], Float32]
# Power of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4
CELLS = 16_000_000
"""Passages times questions that are walked for together, to bound memory: 128 MB an array."""
NO_SEED = "no entity of the question is in the graph: ranked by the passages' prior alone"


@dataclass(frozen=True, slots=True)
class TriGraphSettings:
    """How the graph is built and walked. Symbols are those of LinearRAG, section 3.

    Attributes:
        assembly: What counts as an entity and as a mention.
        seeds: How a question's mentions become entities.
        steps: T, at most so many steps of bridging, the seeds' own included.
        threshold: δ, values below it activate nothing.
        sentences_per_entity: k, sentences that each active entity passes its value on through.
        summed: An entity reached repeatedly restarts the walk with the sum of its values rather
            than the largest.
        similarity_weight: λ, weight of the passage's similarity in its prior.
        lexical_weight: Weight of BM25 beside similarity in the prior, when no seed is a title.
        lexical_weight_titled: The same when a seed is the title of a passage.
        passage_weight: W_p, passages' share of the restart mass against entities'.
        degree_power: An entity's restart mass is divided by its number of passages to this power.
        title_weight: Restart mass that an activated title gives its passages, in units of its
            squared value times the passage's similarity.
        damping: Probability of following an edge instead of restarting.
        tolerance: L1 residual at which a full walk counts as settled.
        walk: "full" sweeps the whole graph; "local" follows the mass from where it stands out, at
            a cost that hardly grows with the corpus; "auto" is local in a large corpus.
        local_from: Passages from which on "auto" is local; with fewer, a batch of full walks takes
            no longer.
    """

    assembly: AssemblySettings = field(default_factory=AssemblySettings)
    seeds: SeedSettings = field(default_factory=SeedSettings)
    steps: Annotated[int, Field(ge=1)] = 3
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.35
    sentences_per_entity: int = 1
    summed: bool = True
    similarity_weight: float = 4.0
    lexical_weight: float = 1.0
    lexical_weight_titled: float = 0.3
    passage_weight: float = 0.05
    degree_power: float = 1.0
    title_weight: float = 4.0
    damping: Annotated[float, Field(ge=0, lt=1)] = 0.5
    tolerance: float = 1e-6
    walk: Literal["auto", "full", "local"] = "auto"
    local_from: int = 20_000


# LinearRAG as its public code runs by default. Its edges between neighbours in the file are left
# out: in published corpora these are each other's gold evidence.
PUBLISHED = TriGraphSettings(
    assembly=AssemblySettings(title_entities=False, link_text=False, noun_phrases="off"),
    seeds=SeedSettings(vocabulary=False, nearest=True, similarity_floor=0.0),
    steps=3,
    threshold=0.5,
    similarity_weight=1.5,
    lexical_weight=0.0,
    lexical_weight_titled=0.0,
    degree_power=0.0,
    title_weight=0.0,
)
PRESETS = {"default": TriGraphSettings(), "published": PUBLISHED}


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that led from one question to its ranking.

    Attributes:
        seeds: Where the walk started.
        activation: What bridging reached.
        prior: (n,) restart mass given to passages, before normalisation.
        restart: (a,) restart mass given to the activated entities, before normalisation.
    """

    seeds: tuple[Seed, ...]
    activation: Activation
    prior: Float64
    restart: Float64


@dataclass(frozen=True, slots=True)
class _View:
    """The graph without the passages that a filter leaves out."""

    walk: Walk
    pushed: LocalWalk | None  # the same, where walks are local
    log_counts: sparse.csc_array  # ln(1 + N), (n, e)
    passages_of: NDArray[np.int64]
    titled: sparse.csr_array
    allowed: Mask | None


class TriGraphRetriever:
    """Ranks passages by a walk over the Tri-Graph of one index version."""

    name = "graph"

    def __init__(
        self,
        corpus: Corpus,
        settings: TriGraphSettings,
        lexical: LexicalScores | None = None,
        after: "TriGraphRetriever | None" = None,
    ) -> None:
        """Build the graph of a corpus.

        Args:
            corpus: One version of an index.
            settings: See `TriGraphSettings`.
            lexical: BM25 scores of queries, (n, b); needed when a lexical weight is not 0.
            after: The retriever of the version that the corpus was read after, with the same
                settings. Building takes less time then; what is built is the same.

        Raises:
            ValueError: It is needed and missing: leaving BM25 out unasked would go unnoticed.
        """
        if lexical is None and (settings.lexical_weight or settings.lexical_weight_titled):
            raise ValueError(
                "These settings weigh BM25, and no lexical scores were given. Pass the lexical "
                "arm's scores, or set lexical_weight and lexical_weight_titled to 0."
            )
        self.settings = settings
        self.corpus = corpus
        self.graph: TriGraph = assemble(
            corpus, settings.assembly, (after.corpus, after.graph) if after else None
        )
        self.finder = SeedFinder(self.graph, corpus, settings.seeds)
        self._lexical = lexical
        self._view = self._see(None)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each query, best first."""
        require_k(k)
        require_mask(allowed, len(self.corpus))
        rankings: list[Ranking] = []
        view = self._view_of(allowed)
        together = max(1, CELLS // max(len(self.corpus), 1))
        for start in range(0, len(queries), together):
            traces = self._traces(queries[start : start + together], view)
            scores = self._settle(traces, view).passages
            rankings += [
                self._rank(trace, scores[:, column], k, allowed)
                for column, trace in enumerate(traces)
            ]
        return rankings

    def trace(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Trace]:
        """Seeds, activation and restart masses of each query."""
        return self._traces(queries, self._view_of(allowed))

    def seeds(
        self, queries: Sequence[Query], allowed: Mask | None = None
    ) -> list[tuple[SeedStats, ...]]:
        """Where each walk would start, known without walking.

        Args:
            queries: Analysed questions.
            allowed: (n,) mask; what it leaves out is not counted.

        Raises:
            RequestError: The mask does not fit this version.
        """
        require_mask(allowed, len(self.corpus))
        view = self._view_of(allowed)
        return [
            tuple(self._reach(seed, view) for seed in self.finder.find(query, view.passages_of))
            for query in queries
        ]

    def settle(self, traces: Sequence[Trace], allowed: Mask | None = None) -> Stationary:
        """Walk from the restart masses of each trace until settled."""
        return self._settle(traces, self._view_of(allowed))

    def _reach(self, seed: Seed, view: _View) -> SeedStats:
        titled = view.titled.indptr
        return SeedStats(
            mention=seed.mention,
            value=seed.value,
            origin=seed.origin,
            passages=int(view.passages_of[seed.entity]),
            titles=int(titled[seed.entity + 1] - titled[seed.entity]),
        )

    def _view_of(self, allowed: Mask | None) -> _View:
        return self._view if allowed is None else self._see(allowed)

    def _traces(self, queries: Sequence[Query], view: _View) -> list[Trace]:
        vectors = query_matrix(queries, self.corpus.vectors.shape[1])
        lexical = self._lexical_scores(queries)
        return [
            self._trace(query, products(self.corpus.vectors, vectors[row]), lexical[row], view)
            for row, query in enumerate(queries)
        ]

    def _settle(self, traces: Sequence[Trace], view: _View) -> Stationary:
        prior = np.zeros((view.walk.passages, len(traces)))
        for column, trace in enumerate(traces):
            prior[:, column] = trace.prior
        restart = sparse.csc_array(
            (
                np.concatenate([np.empty(0), *(trace.restart for trace in traces)]),
                np.concatenate([np.empty(0, np.int64), *(t.activation.entities for t in traces)]),
                np.cumsum([0, *(len(trace.restart) for trace in traces)]),
            ),
            shape=(view.walk.entities, len(traces)),
        )
        if view.pushed is not None:
            return local.personalized_pagerank(
                view.pushed, prior, restart, damping=self.settings.damping
            )
        return personalized_pagerank(
            view.walk,
            prior,
            restart,
            damping=self.settings.damping,
            tolerance=self.settings.tolerance,
        )

    def explain(self, query: Query, ranking: Ranking, allowed: Mask | None = None) -> Explanation:
        """Say how the passages of a ranking came to their places, from the walk's own numbers.

        Args:
            query: The question that was asked.
            ranking: Of this arm or of another; passages that this version lacks are left out.
            allowed: The mask it was searched with.
        """
        (trace,) = self.trace([query], allowed)
        settled = self.settle([trace], allowed).passages[:, 0]
        total = trace.prior.sum() + trace.restart.sum()
        shares = np.stack([trace.prior / (total or 1), settled / (settled.sum() or 1)])
        row_of = {id_: row for row, id_ in enumerate(self.corpus.ids)}
        known = [hit.id for hit in ranking.hits if hit.id in row_of]
        return Explanation(
            explain_seeds(self.graph, trace.seeds),
            explain_entities(self.graph, self.corpus, trace.activation),
            explain_passages(
                self.graph, known, [row_of[i] for i in known], trace.activation, shares
            ),
        )

    def _rank(self, trace: Trace, walked: Float64, k: int, allowed: Mask | None) -> Ranking:
        score = walked if trace.seeds else trace.prior
        eligible = np.arange(len(score)) if allowed is None else np.flatnonzero(allowed)
        rows = eligible[top_rows(score[eligible], k)]
        return make_ranking(
            self.name,
            self.corpus.ids,
            rows,
            score[rows],
            candidates=len(eligible),
            degraded="" if trace.seeds else NO_SEED,
        )

    def _see(self, allowed: Mask | None) -> _View:
        counts = self.graph.counts if allowed is None else self._counts_of(allowed)
        by_entity = sparse.csc_array(counts)
        by_entity.eliminate_zeros()
        passages_of = np.diff(by_entity.indptr).astype(np.int64)
        by_entity.data = np.log1p(by_entity.data)
        titled = self.graph.titled
        if allowed is not None:
            titled = sparse.csr_array(restrict(titled.T.tocsr(), allowed).T)
            titled.eliminate_zeros()
        walk = walk_on(share_of_mentions(counts))
        pushed = local_walk(walk) if self._walks_locally() else None
        return _View(walk, pushed, by_entity, passages_of, titled, allowed)

    def _walks_locally(self) -> bool:
        if self.settings.walk == "auto":
            return len(self.corpus) >= self.settings.local_from
        return self.settings.walk == "local"

    def _counts_of(self, allowed: Mask) -> sparse.csr_array:
        """C without the passages that are not allowed, and without joints that lack a chunk."""
        counts = restrict(self.graph.counts, allowed)
        chunks = counts.astype(bool).sum(axis=0)[len(self.graph) :]
        kept = np.concatenate([np.ones(len(self.graph)), chunks == 2])
        return counts if kept.all() else sparse.csr_array(counts @ sparse.diags_array(kept))

    def _lexical_scores(self, queries: Sequence[Query]) -> Float32:
        wanted = self.settings.lexical_weight or self.settings.lexical_weight_titled
        if self._lexical is None or not wanted:
            return np.zeros((len(queries), len(self.corpus)), np.float32)
        return np.ascontiguousarray(self._lexical(queries).T)

    def _trace(self, query: Query, similarity: Float32, lexical: Float32, view: _View) -> Trace:
        seeds = self.finder.find(query, view.passages_of)
        activation = self._activate(query, seeds, view)
        near = _scaled(similarity, view.allowed)
        prior = self._prior(near, lexical, seeds, activation, view)
        self._add_titles(prior, near, seeds, activation, view)
        mass = activation.weight if self.settings.summed else activation.value
        degree = view.passages_of[activation.entities]
        shared = np.maximum(degree, 1) ** self.settings.degree_power
        restart = np.where(degree > 0, mass / shared, 0)
        if view.allowed is not None:
            prior[~view.allowed] = 0
        return Trace(seeds, activation, prior, restart)

    def _activate(self, query: Query, seeds: tuple[Seed, ...], view: _View) -> Activation:
        corpus = self.corpus

        def similarity(sentences: NDArray[np.int64]) -> Float32:
            near = half_products(corpus.sentence_vectors, sentences, query.vector)
            if view.allowed is not None:
                near[~view.allowed[corpus.sentence_passage[sentences]]] = -1
            return near

        return bridge(
            self.graph.mentions,
            {seed.entity: seed.value for seed in seeds},
            similarity,
            steps=self.settings.steps,
            threshold=self.settings.threshold,
            sentences_per_entity=self.settings.sentences_per_entity,
        )

    def _prior(
        self,
        near: Float64,
        lexical: Float32,
        seeds: tuple[Seed, ...],
        activation: Activation,
        view: _View,
    ) -> Float64:
        """(λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 beside similarity."""
        bonus = np.zeros(len(near))
        for entity, value, level in zip(
            activation.entities.tolist(),
            activation.value.tolist(),
            activation.level.tolist(),
            strict=True,
        ):
            for_entity = slice(view.log_counts.indptr[entity], view.log_counts.indptr[entity + 1])
            passages = view.log_counts.indices[for_entity]
            bonus[passages] += (value / level) * view.log_counts.data[for_entity]
        similarity = near + self._lexical_weight(seeds, view) * _share_of_best(
            lexical, view.allowed
        )
        prior: Float64 = self.settings.similarity_weight * similarity + np.log1p(bonus)
        return self.settings.passage_weight * prior

    def _lexical_weight(self, seeds: tuple[Seed, ...], view: _View) -> float:
        """BM25 matters where names do not already say what the question is about."""
        titled = view.titled.indptr
        if any(s.value >= 1 and titled[s.entity + 1] > titled[s.entity] for s in seeds):
            return self.settings.lexical_weight_titled
        return self.settings.lexical_weight

    def _add_titles(
        self,
        prior: Float64,
        near: Float64,
        seeds: tuple[Seed, ...],
        activation: Activation,
        view: _View,
    ) -> None:
        """An activated title sends the walk to the passages it stands over.

        Squaring the value lets a title named outright, or reached along several bridges, stand
        out, and an uncertain one recede. Where only lower-case words of the question matched the
        title, its passage must be close to the question as well.
        """
        if not self.settings.title_weight:
            return
        titled = view.titled
        doubtful = {seed.entity for seed in seeds if seed.value < 1}
        mass = activation.weight if self.settings.summed else activation.value
        for entity, weight in zip(activation.entities.tolist(), mass.tolist(), strict=True):
            passages = titled.indices[titled.indptr[entity] : titled.indptr[entity + 1]]
            if len(passages):
                share = self.settings.title_weight * weight**2 / len(passages)
                closeness = near[passages]
                prior[passages] += share * closeness ** (DOUBT if entity in doubtful else 1)


def _scaled(similarity: Float32, allowed: Mask | None) -> Float64:
    """Similarity scaled to [0, 1] over the passages that take part; all equal gives 1."""
    own = similarity if allowed is None else similarity[allowed]
    if not len(own):
        return np.zeros(len(similarity))
    low, high = float(own.min()), float(own.max())
    if high <= low:
        return np.ones(len(similarity))
    return np.clip((similarity.astype(np.float64) - low) / (high - low), 0, 1)


def _share_of_best(scores: Float32, allowed: Mask | None) -> Float64:
    own = scores if allowed is None else scores[allowed]
    best = float(own.max(initial=0.0))
    return scores.astype(np.float64) / best if best > 0 else np.zeros(len(scores))
