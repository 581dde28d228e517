"""Dense retrieval: passages by inner product with the question's vector.

The exact kind is a scan: of the question's own thread when it comes alone, a matrix product when
there are several. `benchmarks/scale.py` prints it beside FAISS's flat index, which needs as
long for one question, three times as long for each of a batch, and a copy of the vectors.
FAISS serves the approximate kinds, HNSW and IVF-PQ.

Whatever finds candidates, their scores are those of `backends.numerics`, which depend on nothing
but two vectors, and ties are cut by id. So score and order are the same in any batch, and for the
exact kind no passage that belongs in the answer is missed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import faiss
import numpy as np

from backends.numerics import (
    RequestError,
    make_ranking,
    products,
    query_matrix,
    rank_rows,
    require_k,
    require_mask,
    top_rows,
)
from backends.types import Float32, Int64, Mask, Query, Ranking

_PRODUCTS_AT_ONCE = 2**22
"""Inner products held at a time: 16 MiB."""

_GATHER_COST = 8
"""Copying a scattered row costs about as much as scanning this many in place."""

_CODES = 256
"""Entries of a product-quantisation code book, which cannot be learnt from fewer passages."""


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """How passages are found by vector.

    Attributes:
        kind: "exact" scans every vector; "hnsw" and "ivfpq" look at a part of them, for corpora
            where a scan takes too long.
        scan_below: The approximate kinds also scan when there are fewer passages than this (or
            than 256): that is fast enough, and exact.
        overfetch: Candidates an approximate kind proposes per passage asked for.
        seed: Of the clustering of "ivfpq".
        hnsw_links: Links per node (M of Malkov and Yashunin, arXiv 1603.09320).
        hnsw_build: Breadth of the search that places a node (efConstruction).
        hnsw_search: Least breadth of the search that answers a question (efSearch).
        ivf_lists: Clusters; 0 means four times the square root of the number of passages.
        ivf_probes: Clusters looked into per question.
        pq_bytes: Bytes per stored code (Jégou et al. 2011), lowered to a divisor of the dimension.
    """

    kind: Literal["exact", "hnsw", "ivfpq"] = "exact"
    scan_below: int = 10_000
    overfetch: int = 8
    seed: int = 0
    hnsw_links: int = 32
    hnsw_build: int = 200
    hnsw_search: int = 128
    ivf_lists: int = 0
    ivf_probes: int = 32
    pq_bytes: int = 64

    def __post_init__(self) -> None:
        if self.kind not in ("exact", "hnsw", "ivfpq"):
            raise RequestError(
                f"There is no dense index of kind {self.kind!r}. Choose exact, hnsw or ivfpq."
            )


class DenseRetriever:
    """The dense arm over one version of the index.

    A filtered search scans the allowed passages whatever the kind: a walk through an HNSW graph
    would step on passages that the filter forbids, and filters are exact in every arm.

    A single question is answered in the thread that asks; a batch that is scanned runs in the
    threads of BLAS, which `OMP_NUM_THREADS` bounds.
    """

    name = "dense"

    def __init__(
        self, ids: Sequence[str], vectors: Float32, settings: DenseSettings | None = None
    ) -> None:
        """Build what the chosen kind needs; the exact kind needs nothing.

        Args:
            ids: n passage ids in ascending order.
            vectors: (n, d) unit vectors, one row an id. Kept, not copied, when C-contiguous.

        Raises:
            RequestError: There are not as many vectors as ids.
        """
        if vectors.ndim != 2 or len(vectors) != len(ids):
            raise RequestError(
                f"{len(ids)} passage ids came with vectors of shape {vectors.shape}. "
                "Give one row per id, in the same order."
            )
        self.ids = ids
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.settings = settings or DenseSettings()
        self._longest = _longest(self.vectors)
        self._index = _build(self.vectors, self.settings)

    @property
    def index_bytes(self) -> int:
        """Memory of the FAISS index beside the vectors themselves; 0 for an exact search."""
        return 0 if self._index is None else int(faiss.serialize_index(self._index).nbytes)

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question; the score is the inner product as given.

        A question's vector is used as it is: the score is the cosine when it has unit length.

        Args:
            allowed: (n,) mask over the passages, or None for all.

        Raises:
            RequestError: k is below 1, or the mask or a vector does not fit this index.
        """
        require_k(k)
        require_mask(allowed, len(self.ids))
        vectors = query_matrix(queries, self.vectors.shape[1])
        rows = None if allowed is None else np.flatnonzero(allowed)
        candidates = len(self.ids) if rows is None else len(rows)
        found = self._find(vectors, min(k, candidates), rows)
        return [
            make_ranking(self.name, self.ids, best, scores, candidates=candidates)
            for best, scores in found
        ]

    @property
    def scores_all(self) -> bool:
        """Whether every vector is looked at, so that `rank` of `scores` is what `search` gives."""
        return self._index is None

    def scores(self, query: Query) -> Float32:
        """(n,) inner products of a question with every passage.

        Raises:
            RequestError: The vector does not fit this index.
        """
        (vector,) = query_matrix([query], self.vectors.shape[1])
        return products(self.vectors, vector)

    def rank(self, scores: Float32, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by one question's (n,) `scores`.

        Raises:
            RequestError: k is below 1, or the mask does not fit this index.
        """
        require_k(k)
        require_mask(allowed, len(self.ids))
        rows = np.arange(len(self.ids)) if allowed is None else np.flatnonzero(allowed)
        return rank_rows(self.name, self.ids, scores, rows, k)

    def _find(self, vectors: Float32, k: int, allowed: Int64 | None) -> list[tuple[Int64, Float32]]:
        """The best k (at least 0, at most the allowed) rows and their scores per question."""
        if k == 0 or len(vectors) == 0:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]
        if self._index is None or allowed is not None:
            return self._scan(vectors, k, allowed)
        # One by one: in a batch FAISS compares with cluster centres through BLAS, and its last bits
        # can send a question to another cluster.
        return [self._approximate(self._index, vector, k) for vector in vectors]

    def _scan(self, vectors: Float32, k: int, allowed: Int64 | None) -> list[tuple[Int64, Float32]]:
        """Exact search over the allowed rows (all of them for None)."""
        pool, chosen = self.vectors, allowed
        if allowed is not None and len(allowed) * _GATHER_COST < len(self.vectors):
            pool, chosen = self.vectors[allowed], None
        found = []
        for vector, values in zip(vectors, _all_products(pool, vectors), strict=True):
            near = _near(values if chosen is None else values[chosen], k, self._slack(vector))
            found.append(self._best(vector, near if allowed is None else allowed[near], k))
        return found

    def _slack(self, vector: Float32) -> float:
        """How far below the k-th best product a row of the best k can have come out.

        A float32 sum of d products is off by at most about d·2⁻²⁴ of the lengths, whatever its
        order. Two such sums are compared here with two others.
        """
        rounding = (len(vector) + 2) * 2.0**-24
        return 4 * rounding * float(np.linalg.norm(vector)) * self._longest

    def _approximate(self, index: faiss.Index, vector: Float32, k: int) -> tuple[Int64, Float32]:
        """Search with the FAISS index, and scan when it proposes fewer rows than asked for."""
        fetched = min(k * self.settings.overfetch, len(self.vectors))
        proposed = index.search(vector[None], fetched)[1][0]
        proposed = np.sort(proposed[proposed >= 0])
        if len(proposed) < k:
            return self._scan(vector[None], k, None)[0]
        return self._best(vector, proposed, k)

    def _best(self, vector: Float32, rows: Int64, k: int) -> tuple[Int64, Float32]:
        """Cut ascending rows to the best k, ties by row."""
        scores = _products_of(self.vectors, rows, vector)
        best = top_rows(scores, k)
        return rows[best], scores[best]


def _products_of(vectors: Float32, rows: Int64, query: Float32) -> Float32:
    """Inner products (m,) of some rows, in the cheaper of two ways to the same bits."""
    if len(rows) * _GATHER_COST < len(vectors):
        return products(vectors[rows], query)
    return products(vectors, query)[rows]


def _all_products(vectors: Float32, queries: Float32) -> Iterator[Float32]:
    """Inner products (n,) of all rows with each query, right up to the last bits.

    BLAS shares even a single query among its threads and waits for the last one, which on a busy
    machine takes a time slice; only a batch is worth that.
    """
    if len(queries) == 1:
        yield products(vectors, queries[0])
        return
    step = max(1, _PRODUCTS_AT_ONCE // max(1, len(vectors)))
    for start in range(0, len(queries), step):
        yield from queries[start : start + step] @ vectors.T


def _near(values: Float32, k: int, slack: float) -> Int64:
    """Ascending places of the k highest values, and of all within `slack` of the lowest of them."""
    cut = np.partition(values, len(values) - k)[len(values) - k]
    return np.flatnonzero(values >= cut - slack)


def _longest(vectors: Float32) -> float:
    """Euclidean length of the longest row: 1 for unit vectors, up to how they were stored."""
    if len(vectors) == 0:
        return 0.0
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors).max()))


def _build(vectors: Float32, settings: DenseSettings) -> faiss.Index | None:
    """The FAISS index of the settings, or None where a scan serves."""
    if settings.kind == "exact" or len(vectors) < max(settings.scan_below, _CODES):
        return None
    # Concurrent insertions and reductions finish in any order: one thread makes the same index
    # from the same vectors every time.
    with _one_thread():
        return _hnsw(vectors, settings) if settings.kind == "hnsw" else _ivfpq(vectors, settings)


def _hnsw(vectors: Float32, settings: DenseSettings) -> faiss.Index:
    index = faiss.IndexHNSWFlat(vectors.shape[1], settings.hnsw_links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = settings.hnsw_build
    index.hnsw.efSearch = settings.hnsw_search  # FAISS raises it to the k of a search by itself.
    index.add(vectors)
    return index


def _ivfpq(vectors: Float32, settings: DenseSettings) -> faiss.Index:
    passages, dimension = vectors.shape
    lists = min(settings.ivf_lists or int(4 * passages**0.5), passages)
    index = faiss.IndexIVFPQ(
        faiss.IndexFlatIP(dimension),
        dimension,
        lists,
        _divisor(dimension, settings.pq_bytes),
        _CODES.bit_length() - 1,
        faiss.METRIC_INNER_PRODUCT,
    )
    for clustering in (index.cp, index.pq.cp):
        clustering.seed = settings.seed
        clustering.niter = 10
        clustering.min_points_per_centroid = 1  # Below FAISS's 39 it prints a warning.
        # FAISS's 256 points and 25 iterations take four times as long and find no more.
        clustering.max_points_per_centroid = 64
    index.nprobe = settings.ivf_probes
    index.train(vectors)
    index.add(vectors)
    return index


def _divisor(dimension: int, most: int) -> int:
    """The largest divisor of the dimension that is at most `most`."""
    return next(parts for parts in range(min(most, dimension), 0, -1) if dimension % parts == 0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run FAISS on one thread; OpenMP keeps this setting per calling thread."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
