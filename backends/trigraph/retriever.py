"""The graph arm: seeds, semantic bridging, and personalized PageRank from both.

LinearRAG (arXiv 2510.10114) with what was measured to help on top of it. A `TriGraphBatch` keeps
what each step found, so a ranking explains itself from the very numbers that made it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from backends.coverage import NameCoverage, bits
from backends.numerics import (
    half_products,
    products_of_all,
    query_matrix,
    rank_rows,
    require_k,
    require_mask,
    sums,
)
from backends.store.snapshot import Corpus
from backends.trigraph import push
from backends.trigraph.bridging import Activation, bridge, equation_5
from backends.trigraph.explanation import (
    Explanation,
    explain_entities,
    explain_passages,
    explain_seeds,
)
from backends.trigraph.facts import activate, best_facts
from backends.trigraph.graph import AssemblySettings, TriGraph, assemble
from backends.trigraph.lists import Numbers
from backends.trigraph.pagerank import (
    Walk,
    personalized_pagerank,
    reciprocal,
    restrict,
    share_of_mentions,
    walk_on,
    with_edges,
)
from backends.trigraph.push import LocalWalk, local_walk
from backends.trigraph.seeds import Seed, SeedFinder, SeedSettings, SeedStats
from backends.types import Float32, Float64, Int64, Mask, Query, Ranking, TextScorer
from backends.units import Units

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")
_Value = TypeVar("_Value", bound=np.generic)
LexicalScores = Callable[[Query], Float32]
# Power of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4
CELLS = 16_000_000
"""Passages times questions of a batch, to bound memory: 128 MB an array."""
NO_SEED = "no entity of the question is in the graph: ranked by the passages' prior alone"


@dataclass(frozen=True, slots=True)
class TriGraphSettings:
    """How the graph is built and walked. Symbols are those of LinearRAG, section 3.

    Attributes:
        assembly: What counts as an entity and as a mention.
        seeds: How a question's mentions become entities.
        activation: "bridging" goes from the names of the question along its closest sentences;
            "eq5" does so along all sentences, as LinearRAG's equation 5 is printed; "facts" starts
            from what the closest sentences of the whole corpus mention, as EA-GraphRAG's graph arm
            does.
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
        tolerance: Largest relative error of a full walk.
        walk: "full" sweeps the whole graph; "local" follows the mass from where it stands out, at
            a cost that hardly grows with the corpus; "auto" is local in a large corpus.
        local_from: Passages from which on "auto" is local; with fewer, a batch of full walks takes
            no longer.
    """

    assembly: AssemblySettings = field(default_factory=AssemblySettings)
    seeds: SeedSettings = field(default_factory=SeedSettings)
    activation: Literal["bridging", "eq5", "facts"] = "bridging"
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
    tolerance: float = 1e-3
    walk: Literal["auto", "full", "local"] = "auto"
    local_from: int = 20_000

    @property
    def weighs_lexical(self) -> bool:
        """Whether BM25 counts in the prior."""
        return bool(self.lexical_weight or self.lexical_weight_titled)


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


class FilteredGraph:
    """The graph without the passages that a filter leaves out.

    What is asked of an entity is counted when it is asked, and a local walk goes over the edges of
    the whole graph; only for full walks, in small corpora, is a graph made of what is left.

    Attributes:
        allowed: (n,) mask; None for all.
    """

    def __init__(
        self, graph: TriGraph, walk: Walk | LocalWalk, allowed: Mask | None = None
    ) -> None:
        """Nothing is counted yet.

        Args:
            walk: On the whole graph; questions are walked for likewise.
        """
        self.allowed = allowed
        self._graph = graph
        self._whole = walk

    def mentions(self, entities: Int64) -> tuple[Numbers, Float32, Int64]:
        """Passages that mention some entities, end to end: rows, how often, and (a,) how many."""
        passages = self._graph.passages
        return self._left(*passages.valued(entities), passages.lengths(entities))

    def titles(self, entities: Int64) -> tuple[Numbers, Int64]:
        """Passages whose title some entities are, end to end: rows, and (a,) how many."""
        titled = self._graph.titled
        rows = titled.of(entities)
        found, _, lengths = self._left(rows, rows, titled.lengths(entities))
        return found, lengths

    def degree(self, entities: Int64) -> Int64:
        """(a,) how many passages mention each of some entities."""
        if self.allowed is None:
            return self._graph.passages.lengths(entities)
        return self.mentions(entities)[2]

    def among(self, allowed: Mask) -> "FilteredGraph":
        """The same without passages that a filter leaves out."""
        return FilteredGraph(self._graph, self._whole, allowed)

    @cached_property
    def walk(self) -> Walk | LocalWalk:
        """The walk among the passages that are left."""
        if self.allowed is None:
            return self._whole
        if isinstance(self._whole, LocalWalk):
            return self._whole.among(self.allowed, *self._without_half_edges(self.allowed))
        return walk_on(share_of_mentions(self.counts))

    @property
    def counts(self) -> "sparse.csc_array":
        """(n, e + j) how often passages that are left mention each entity; made anew each time."""
        if self.allowed is None:
            return self._graph.counts
        counts = restrict(self._graph.counts, self.allowed)
        # Edges between chunks of which one is left lead nowhere.
        ends = np.diff(counts.indptr)
        whole = ends == 2
        whole[: len(self._graph)] = True
        return counts if whole.all() else with_edges(counts, np.repeat(whole, ends))

    def _left(
        self, rows: Numbers, values: NDArray[_Value], lengths: Int64
    ) -> tuple[Numbers, NDArray[_Value], Int64]:
        """What is left of the entries of some entities: rows, values, and how many of each."""
        if self.allowed is None:
            return rows, values, lengths
        left = self.allowed[rows]
        owners = np.repeat(np.arange(len(lengths)), lengths)[left]
        return rows[left], values[left], np.bincount(owners, minlength=len(lengths))

    def _without_half_edges(self, allowed: Mask) -> tuple[Float64 | None, Mask | None]:
        """What shares of a passage grow by where edges between chunks are left out, and which."""
        graph, size = self._graph, len(self._graph)
        half = allowed[graph.chunk_edges].sum(axis=1) == 1
        if not half.any():
            return None, None
        lost = np.bincount(graph.chunk_edges[half].ravel(), minlength=len(allowed))
        kept = np.ones(len(graph.passages), bool)
        kept[size:] = ~half
        return graph.totals * reciprocal(graph.totals - lost), kept


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that led from one question to its restart masses.

    Attributes:
        prior: (n,) restart mass given to passages, before normalisation.
        restart: (a,) restart mass given to the activated entities, before normalisation.
    """

    seeds: tuple[Seed, ...]
    activation: Activation
    prior: Float64
    restart: Float64


class TriGraphRetriever:
    """Ranks passages by a walk over the Tri-Graph of one index version."""

    name = "graph"

    def __init__(
        self,
        corpus: Corpus,
        settings: TriGraphSettings,
        lexical: LexicalScores | None = None,
        graph: TriGraph | None = None,
        walk: LocalWalk | None = None,
        *,
        scorer: TextScorer | None = None,
    ) -> None:
        """Rank the passages of a corpus.

        Args:
            lexical: (n,) BM25 scores of a query; needed when a lexical weight is not 0.
            graph: Of the same corpus and settings; None to build it.
            walk: Of that graph, where it was kept; None to arrange it.
            scorer: Reads what facts and clue start from; None for words and vectors alone.

        Raises:
            ValueError: It is needed and missing: leaving BM25 out unasked would go unnoticed.
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
        self.lexical = lexical
        self.scorer = scorer
        self.units = Units(corpus, scorer) if settings.activation == "facts" else None
        # Made now, so that no question waits for it.
        found = walk if walk and self.walks_locally else self._walk()
        self._whole = FilteredGraph(self.graph, found)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each query, best first."""
        rankings: list[Ranking] = []
        for part in in_parts(queries, len(self.corpus)):
            rankings += self.batch(part, allowed).search(range(len(part)), k)
        return rankings

    def batch(self, queries: Sequence[Query], allowed: Mask | None = None) -> "TriGraphBatch":
        """Questions to be asked together; `in_parts` says how many at most.

        Raises:
            RequestError: The mask does not fit this version.
        """
        require_mask(allowed, len(self.corpus))
        return TriGraphBatch(self, queries, self.filtered(allowed))

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        return self.finder.needs_vector(mention)

    def filtered(self, allowed: Mask | None) -> FilteredGraph:
        """The graph of the allowed passages; None for all."""
        if allowed is None:
            return self._whole
        return self._whole.among(allowed)

    @property
    def local_walk(self) -> LocalWalk | None:
        """The walk over the whole graph, where walks are local."""
        return self._whole.walk if isinstance(self._whole.walk, LocalWalk) else None

    @property
    def walks_locally(self) -> bool:
        """Whether walks go no farther than mass stands out."""
        if self.settings.walk == "auto":
            return len(self.corpus) >= self.settings.local_from
        return self.settings.walk == "local"

    def _walk(self) -> Walk | LocalWalk:
        weights = share_of_mentions(self.graph.counts)
        return local_walk(weights) if self.walks_locally else walk_on(weights)


class TriGraphBatch:
    """Questions on their way through the graph; each step is taken once for each of them.

    Questions are named by their place among the queries.
    """

    def __init__(
        self, arm: TriGraphRetriever, queries: Sequence[Query], filtered: FilteredGraph
    ) -> None:
        self._arm = arm
        self._queries = queries
        self._filtered = filtered
        self._settings = arm.settings
        self._in_words: dict[int, tuple[Seed, ...]] = {}
        self._seeds: dict[int, tuple[Seed, ...]] = {}
        self._walked: dict[int, tuple[Trace, Float64]] = {}

    def needs_parse(self, place: int) -> bool:
        """Whether a question's mentions bear on where its walk starts."""
        return not self._arm.finder.suffice(self._named(place))

    def seeds(self, place: int) -> tuple[SeedStats, ...]:
        """Where a question's walk starts, known without walking."""
        found = self._found(place)
        entities = _entities(found)
        passages, titles = self._filtered.degree(entities), self._filtered.titles(entities)[1]
        return tuple(
            SeedStats(seed.mention, seed.value, seed.origin, *both)
            for seed, both in zip(
                found, zip(passages.tolist(), titles.tolist(), strict=True), strict=True
            )
        )

    def names_in(self, place: int, ids: Sequence[str]) -> tuple[NameCoverage, ...]:
        """The names that stand in the words of a question, among a few passages; needs no parse.

        Args:
            ids: Of the passages.
        """
        filtered, rows = self._filtered, np.array(self._arm.corpus.rows(ids), np.int32)
        found = []
        for seed in self._named(place):
            entity = np.array([seed.entity], np.int64)
            mentioned, titled = filtered.mentions(entity)[0], filtered.titles(entity)[0]
            found.append(
                NameCoverage(
                    mention=seed.mention,
                    value=seed.value,
                    degree=len(mentioned),
                    titled=len(titled),
                    titles=bits((titled[:, None] == rows).any(axis=0).tolist()),
                    texts=bits((mentioned[:, None] == rows).any(axis=0).tolist()),
                )
            )
        return tuple(found)

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Float32] | None = None,
        lexical: Mapping[int, Float32] | None = None,
    ) -> list[Ranking]:
        """At most k passages for some of the questions.

        Args:
            similarities: (n,) similarities of questions for which they are known already.
            lexical: Their BM25 scores likewise.

        Raises:
            RequestError: k is below 1, or a vector does not fit this index.
        """
        require_k(k)
        missing = [place for place in places if place not in self._walked]
        near = dict(similarities or {})
        near.update(self._similarities([place for place in missing if place not in near]))
        traces = [self.trace(place, near[place], (lexical or {}).get(place)) for place in missing]
        settled = self.run_pagerank(traces) if traces else np.empty((0, 0))
        for column, (place, trace) in enumerate(zip(missing, traces, strict=True)):
            self._walked[place] = trace, np.ascontiguousarray(settled[:, column])
        return [self._rank(*self._walked[place], k) for place in places]

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """Say how the passages of a ranking came to their places, from the walk's own numbers.

        Args:
            place: Of a question that was searched.
            ranking: Of this arm or of another; passages that this version lacks are left out.
        """
        return explain_walk(self._arm.graph, self._arm.corpus, *self._walked[place], ranking)

    @property
    def filtered(self) -> FilteredGraph:
        """The graph of the passages that take part."""
        return self._filtered

    def trace(
        self, place: int, similarity: Float32 | None = None, lexical: Float32 | None = None
    ) -> Trace:
        """Seeds, activation and restart masses of a question.

        Args:
            similarity: (n,) to every passage; None to compute it.
            lexical: (n,) BM25 of every passage; None to compute it.

        Raises:
            RequestError: The question's vector does not fit this index.
        """
        settings = self._settings
        allowed, query = self._filtered.allowed, self._queries[place]
        if similarity is None:
            similarity = self._similarities([place])[place]
        if lexical is None or not settings.weighs_lexical:
            lexical = self._lexical(query)
        seeds = self._found(place) if self._arm.units is None else ()
        activation = self._activate(query, seeds)
        near = _scaled(similarity, allowed)
        prior = self._prior(near, lexical, seeds, activation)
        self._add_titles(prior, near, seeds, activation)
        degree = self._filtered.degree(activation.entities)
        shared = np.maximum(degree, 1) ** settings.degree_power
        restart = np.where(degree > 0, self._mass(activation) / shared, 0)
        if allowed is not None:
            prior[~allowed] = 0
        return Trace(seeds, activation, prior, restart)

    def run_pagerank(self, traces: Sequence[Trace]) -> Float64:
        """(n, b) mass that settles on the passages, from the restart masses of each trace."""
        filtered, settings = self._filtered, self._settings
        # A column for each question, contiguous.
        prior = np.array([trace.prior for trace in traces]).T
        restart = [(trace.activation.entities, trace.restart) for trace in traces]
        walk, damping = filtered.walk, settings.damping
        if isinstance(walk, LocalWalk):
            return push.personalized_pagerank(walk, prior, restart, damping=damping).passages
        return personalized_pagerank(
            walk, prior, restart, damping=damping, tolerance=settings.tolerance
        )

    def _similarities(self, places: Sequence[int]) -> dict[int, Float32]:
        """(n,) similarities of questions to every passage."""
        vectors = self._arm.corpus.vectors
        asked = query_matrix([self._queries[place] for place in places], vectors.shape[1])
        return dict(zip(places, products_of_all(vectors, asked), strict=True))

    def _named(self, place: int) -> tuple[Seed, ...]:
        if place not in self._in_words:
            query, degree = self._queries[place], self._filtered.degree
            self._in_words[place] = self._arm.finder.in_words(query, degree)
        return self._in_words[place]

    def _found(self, place: int) -> tuple[Seed, ...]:
        if place not in self._seeds:
            query, degree, named = self._queries[place], self._filtered.degree, self._named(place)
            self._seeds[place] = self._arm.finder.find(query, degree, named)
        return self._seeds[place]

    def _lexical(self, query: Query) -> Float32:
        if self._arm.lexical is None or not self._settings.weighs_lexical:
            return np.zeros(len(self._arm.corpus), np.float32)
        return self._arm.lexical(query)

    def _rank(self, trace: Trace, settled: Float64, k: int) -> Ranking:
        walked = len(trace.activation.entities) > 0
        score = settled if walked else trace.prior
        allowed = self._filtered.allowed
        eligible = None if allowed is None else np.flatnonzero(allowed)
        name, ids, degraded = self._arm.name, self._arm.corpus.ids, "" if walked else NO_SEED
        return rank_rows(name, ids, score, eligible, k, degraded=degraded)

    def _activate(self, query: Query, seeds: tuple[Seed, ...]) -> Activation:
        corpus, allowed = self._arm.corpus, self._filtered.allowed

        def similarity(sentences: NDArray[np.int64]) -> Float32:
            near = half_products(corpus.sentence_vectors, sentences, query.vector)
            if allowed is not None:
                near[~allowed[corpus.sentence_passage[sentences]]] = -1
            return near

        mentions, settings = self._arm.graph.mentions, self._settings
        if self._arm.units is not None:
            facts = best_facts(self._arm.units, query, allowed)
            return activate(mentions, *facts, self._filtered.degree)
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
        )

    def _prior(
        self, near: Float64, lexical: Float32, seeds: tuple[Seed, ...], activation: Activation
    ) -> Float64:
        """(λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 beside similarity."""
        prior = _share_of_best(lexical, self._filtered.allowed)
        prior *= self._lexical_weight(seeds)
        prior += near
        prior *= self._settings.similarity_weight
        bonus = self._bonus(activation)
        mentioned = np.flatnonzero(bonus)
        prior[mentioned] += np.log1p(bonus[mentioned])
        prior *= self._settings.passage_weight
        return prior

    def _bonus(self, activation: Activation) -> Float64:
        """(n,) Σ a_e·ln(1 + N_e)/L_e over the active entities that a passage mentions."""
        rows, counts, degree = self._filtered.mentions(activation.entities)
        each = np.repeat(activation.value / activation.level, degree)
        often = np.log1p(counts.astype(np.float64))
        return sums(rows, each * often, len(self._arm.corpus))

    def _lexical_weight(self, seeds: tuple[Seed, ...]) -> float:
        """BM25 matters where names do not already say what the question is about."""
        sure = _entities([seed for seed in seeds if seed.value >= 1])
        if self._filtered.titles(sure)[1].any():
            return self._settings.lexical_weight_titled
        return self._settings.lexical_weight

    def _add_titles(
        self, prior: Float64, near: Float64, seeds: tuple[Seed, ...], activation: Activation
    ) -> None:
        """An activated title sends the walk to the passages it stands over.

        Squaring the value lets a title named outright, or reached along several bridges, stand
        out, and an uncertain one recede. Where only lower-case words of the question matched the
        title, its passage must be close to the question as well.
        """
        entities = activation.entities
        passages, over = self._filtered.titles(entities)
        share = self._settings.title_weight * self._mass(activation) ** 2 / np.maximum(over, 1)
        doubtful = [seed.entity for seed in seeds if seed.value < 1]
        closeness = near[passages]
        meant = np.repeat(~np.isin(entities, doubtful), over)
        closeness = np.where(meant, closeness, closeness**DOUBT)
        np.add.at(prior, passages, np.repeat(share, over) * closeness)

    def _mass(self, activation: Activation) -> Float64:
        return activation.weight if self._settings.summed else activation.value


def _entities(seeds: Sequence[Seed]) -> Int64:
    """(a,) of seeds."""
    return np.array([seed.entity for seed in seeds], np.int64)


def explain_walk(
    graph: TriGraph, corpus: Corpus, trace: Trace, settled: Float64, ranking: Ranking
) -> Explanation:
    """How the passages of a ranking came to their places, in the numbers of a walk.

    Args:
        settled: (n,) mass on the passages.
    """
    total = trace.prior.sum() + trace.restart.sum()
    shares = np.stack([trace.prior / (total or 1), settled / (settled.sum() or 1)])
    rows = corpus.rows([hit.id for hit in ranking.hits])
    return Explanation(
        explain_seeds(graph, trace.seeds),
        explain_entities(graph, corpus, trace.activation),
        explain_passages(graph, corpus.ids, rows, trace.activation, shares),
    )


def _scaled(similarity: Float32, allowed: Mask | None) -> Float64:
    """Similarity scaled to [0, 1] over the passages that take part; all equal gives 1."""
    own = similarity if allowed is None else similarity[allowed]
    if not len(own):
        return np.zeros(len(similarity))
    low, high = float(own.min()), float(own.max())
    if high <= low:
        return np.ones(len(similarity))
    scaled = similarity.astype(np.float64)
    scaled -= low
    scaled /= high - low
    return np.clip(scaled, 0, 1, out=scaled)


def _share_of_best(scores: Float32, allowed: Mask | None) -> Float64:
    own = scores if allowed is None else scores[allowed]
    best = float(own.max(initial=0.0))
    return scores.astype(np.float64) / best if best > 0 else np.zeros(len(scores))


def in_parts(questions: Sequence[T], passages: int) -> Iterator[Sequence[T]]:
    """Questions in batches of at most `CELLS`, for an index of that many passages."""
    together = max(1, CELLS // max(passages, 1))
    for start in range(0, len(questions), together):
        yield questions[start : start + together]
