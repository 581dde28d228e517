"""The zoom arm: ZoomRAG's Doc-Zoom and Chunk-Zoom, without a language model.

Doc-Zoom is a walk over passages and entities that restarts at the question; Chunk-Zoom is one over
the sentences of the first passages, by which those for an answer are chosen.

The question is a node of the graph. Its edges lead to the entities that it names and to passages
whose similarity stands out from the corpus; passages and entities are linked by mentions. The walk
restarts at the question with a high probability, so that mass stays close to it.

The graph without questions is shared: each question's walk is decomposed into its own edges and the
shared matrix, so the walks of a batch advance together and independently (equations 6 to 9).
Equation 9 is printed with Z·M, which holds only for a symmetric M; M·Zᵀ, as in the equation before
it, always holds.

Edges between similar passages are left out unless `neighbours` is above 0: they lowered every
measure on the train and dev questions that were tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.arrays import ranges
from wye.backends.numerics import products_of_all, query_matrix, rank_rows, top_rows
from wye.backends.papers.settings import ZoomSettings
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph, TriGraph
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Float32, Float64, Int64, Mask, Query, Ranking

if TYPE_CHECKING:
    from scipy import sparse

NOTHING_STANDS_OUT = "no passage and no name stands out: the most similar passages were taken"

CELLS = 4_000_000  # nodes times questions of a batch, which bounds an array to 32 MB


@dataclass(frozen=True, slots=True)
class SharedGraph:
    """The graph that all questions share, without their own nodes."""

    edges: "sparse.csr_array"  # (n + e, n + e) M, from a column's node to a row's
    weight: Float64  # (n + e,) c, column sums of M
    passages: int  # number of allowed passages
    entities: int  # number of entities that these mention


class ZoomRetriever:
    """The zoom arm over one version of the index."""

    name = "zoom"

    def __init__(self, graph: TriGraphRetriever, settings: ZoomSettings | None = None) -> None:
        self.settings = settings or ZoomSettings()
        self.graph = graph
        self._corpus = graph.corpus
        self._whole: SharedGraph | None = None

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question, among those that the walk reaches."""
        filtered = self.graph.batch((), allowed).filtered
        shared = self.shared(filtered)
        rankings: list[Ranking] = []
        together = max(1, CELLS // max(1, len(shared.weight)))
        for start in range(0, len(queries), together):
            edges, degraded = self.edges(queries[start : start + together], filtered, shared)
            masses = self.walk(shared, edges)[:, : len(self._corpus)]
            for mass, reason in zip(masses, degraded, strict=True):
                rows = np.flatnonzero(mass > 0)
                ids = self._corpus.ids
                rankings.append(rank_rows(self.name, ids, mass, rows, k, degraded=reason))
        return rankings

    def walk(self, shared: SharedGraph, edges: Float64) -> Float64:
        """The mass on the nodes for questions with some edges; see `decoupled_walk`."""
        return decoupled_walk(shared, edges, self.settings.restart, self.settings.steps)

    def score_sentences(
        self, query: Query, ids: Sequence[str], allowed: Mask | None = None
    ) -> list[list[tuple[str, float]]]:
        """The stored sentences of some passages, in order, with their scores by Chunk-Zoom.

        The walk over sentences restarts at the mass that Doc-Zoom's leaves on the entities.
        """
        corpus, graph = self._corpus, self.graph.graph
        filtered = self.graph.batch((), allowed).filtered
        shared = self.shared(filtered)
        edges, _ = self.edges([query], filtered, shared)
        mass = self.walk(shared, edges)[0]
        passages = np.array(corpus.rows(ids), np.int64)
        owners = corpus.sentence_passage
        of_passages = np.sort(passages).astype(owners.dtype)
        first, last = (np.searchsorted(owners, of_passages, side) for side in ("left", "right"))
        rows = ranges(first, last)
        if not len(rows):
            return [[] for _ in ids]
        sentence, mentioned = graph.mentions.pairs(rows)
        entities = np.unique(mentioned).astype(np.int64)
        mentions = np.zeros((len(rows), len(entities)))
        mentions[sentence, np.searchsorted(entities, mentioned)] = 1
        vectors = corpus.sentence_vectors[rows].astype(np.float64)
        of_rows, active = owners[rows].astype(np.int64), mass[len(corpus) + entities]
        scores = chunk_zoom(vectors, of_rows, mentions, active, query.vector)
        scored: dict[int, list[tuple[str, float]]] = {row: [] for row in passages.tolist()}
        texts = corpus.sentence_texts(rows)
        for row, text, score in zip(owners[rows].tolist(), texts, scores.tolist(), strict=True):
            scored[row].append((text, score))
        return [scored[row] for row in passages.tolist()]

    def shared(self, filtered: FilteredGraph) -> SharedGraph:
        """The shared graph for a filter; the one without a filter is cached."""
        if filtered.allowed is not self.graph.graph.present:
            return shared_graph(self._corpus, self.graph.graph, filtered, self.settings)
        if self._whole is None:
            self._whole = shared_graph(self._corpus, self.graph.graph, filtered, self.settings)
        return self._whole

    def edges(
        self, queries: Sequence[Query], filtered: FilteredGraph, shared: SharedGraph
    ) -> tuple[Float64, list[str]]:
        """The questions' edges H (b, n + e), and why each is degraded, or ""."""
        n, settings = len(self._corpus), self.settings
        vectors = query_matrix(queries, self._corpus.vectors.shape[1])
        edges = np.zeros((len(queries), len(shared.weight)))
        degraded: list[str] = []
        similarities = products_of_all(self._corpus.vectors, vectors)
        for row, (query, similarity) in enumerate(zip(queries, similarities, strict=True)):
            rows = _standing_out(similarity, filtered.allowed, settings.deviations)
            named = self.graph.finder.find(query, filtered.degree)
            seeds = [seed for seed in named if seed.value >= settings.least]
            nothing = not seeds and not len(rows)
            if nothing:
                rows = _allowed_rows(filtered.allowed, n)
                rows = np.sort(rows[top_rows(similarity[rows], settings.most)])
            edges[row, rows] = np.exp(similarity[rows].astype(np.float64))
            edges[row, [n + seed.entity for seed in seeds]] = 1
            _rescale(edges[row, :n], shared.passages)
            _rescale(edges[row, n:], shared.entities)
            degraded.append(NOTHING_STANDS_OUT if nothing else "")
        return edges, degraded


def shared_graph(
    corpus: Corpus, graph: TriGraph, filtered: FilteredGraph, settings: ZoomSettings
) -> SharedGraph:
    """The allowed passages, the entities they mention, and the edges, scaled to one mean weight."""
    from scipy import sparse  # noqa: PLC0415 - takes .1 s, which other arms need not pay

    n = len(corpus)
    rows = _allowed_rows(filtered.allowed, n)
    passage, entity, _ = graph.mentioned_in(rows)
    entities = len(np.unique(entity))
    ones = np.ones(len(entity))
    _rescale(ones, len(rows) * entities)
    mentioned = sparse.csc_array((ones, (rows[passage], entity)), shape=(n, len(graph)))
    similar = None
    if settings.neighbours:
        similar = _similar(np.asarray(corpus.vectors), rows, settings)
        _rescale(similar.data, len(rows) ** 2)
    edges = sparse.block_array([[similar, mentioned], [mentioned.T, None]], format="csr")
    edges.sort_indices()
    return SharedGraph(edges, edges.sum(axis=0), len(rows), entities)


def decoupled_walk(shared: SharedGraph, edges: Float64, restart: float, steps: int) -> Float64:
    """The mass (b, n + e) on the nodes after T steps of walks that restart at their own question.

    The values equal those of `reference.zoom`, which walks from one question over the whole graph.
    `edges` (b, n + e) are H, the weights of the questions' edges.
    """
    follow = 1 - restart
    total = edges + shared.weight
    share = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    sums = np.array([row.sum() for row in edges])
    question_shares = edges / np.where(sums > 0, sums, 1)[:, None]
    at_question, mass = np.ones(len(edges)), np.zeros_like(edges)
    for _ in range(steps):
        moving = mass * share
        back = np.vecdot(edges, moving)
        mass = question_shares * at_question[:, None]
        mass += (shared.edges @ np.ascontiguousarray(moving.T)).T
        mass *= follow
        at_question = follow * back + restart
    return mass


def _similar(vectors: Float32, rows: Int64, settings: ZoomSettings) -> "sparse.csr_array":
    """(n, n) e^cos of each passage with its `settings.neighbours`, row by row, so in any block."""
    from scipy import sparse  # noqa: PLC0415 - see `shared_graph`

    n = len(vectors)
    allowed_vectors = vectors[rows]
    row_edges: list[tuple[Int64, Float64]] = []
    for vector in allowed_vectors:
        similarity = np.vecdot(allowed_vectors, vector)
        nearest = np.flatnonzero(similarity > _mark(similarity, settings.deviations))
        nearest = np.sort(nearest[top_rows(similarity[nearest], settings.neighbours)])
        row_edges.append((rows[nearest], np.exp(similarity[nearest].astype(np.float64))))
    lengths = np.zeros(n, np.int64)
    lengths[rows] = [len(columns) for columns, _ in row_edges]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.zeros(0, np.int64), *(columns for columns, _ in row_edges)])
    data = np.concatenate([np.zeros(0), *(values for _, values in row_edges)])
    return sparse.csr_array((data, indices, starts), shape=(n, n))


def _standing_out(similarity: Float32, allowed: Mask | None, deviations: float) -> Int64:
    """Rows of the passages whose similarity is far above the mean of the allowed passages."""
    rows = _allowed_rows(allowed, len(similarity))
    return rows[similarity[rows] > _mark(similarity[rows], deviations)] if len(rows) else rows


def _mark(similarity: Float32, deviations: float) -> float:
    """The similarity above which a passage stands out."""
    values = similarity.astype(np.float64)
    return float(values.mean() + deviations * values.std())


def _allowed_rows(allowed: Mask | None, n: int) -> Int64:
    return np.arange(n) if allowed is None else np.flatnonzero(allowed)


def _rescale(weights: Float64, cells: int) -> None:
    """Scale weights in place to a mean of 1 over `cells` pairs of nodes."""
    total = weights.sum()
    if total > 0:
        weights *= cells / total


_RESTART = 0.9
_WEIGHT = 0.5


def chunk_zoom(
    vectors: Float64, passage: Int64, mentions: Float64, active: Float64, question: Float32
) -> Float64:
    """(s,) scores of sentences by ZoomRAG's equation 10, with restart 0.9.

    Links between sentences are half by similarity and half by distance, with a deviation of one
    sentence.

    Args:
        vectors: (s, d) vectors of the sentences.
        passage: (s,) the passage of each sentence, ascending.
        mentions: (s, e) 1 where a sentence mentions an entity.
        active: (e,) restart mass of the entities; if all 0, the sentences have e^cos instead.
        question: (d,) vector of the question.
    """
    size = len(vectors)
    position = np.arange(size)
    distance_weight = np.where(
        passage[:, None] == passage, np.exp(-((position[:, None] - position) ** 2) / 2), 0
    )
    alike = _columns(np.exp(vectors @ vectors.T))
    chunks = _level(_WEIGHT * _columns(distance_weight) + (1 - _WEIGHT) * alike)
    links = _level(mentions)
    walk = _columns(np.block([[chunks, links], [links.T, np.zeros((len(active),) * 2)]]))
    start = np.concatenate([np.zeros(size), active])
    if not active.any():
        start[:size] = np.exp(vectors @ question)
    solved = np.linalg.solve(np.eye(len(walk)) - (1 - _RESTART) * walk, start / start.sum())
    return np.asarray(solved[:size], np.float64)


def _columns(matrix: Float64) -> Float64:
    shares: Float64 = matrix / np.maximum(matrix.sum(axis=0), 1e-12)
    return shares


def _level(matrix: Float64) -> Float64:
    """Scale a matrix so that its nonzero entries average 1."""
    return matrix * (np.count_nonzero(matrix) / matrix.sum()) if matrix.any() else matrix
