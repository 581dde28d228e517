"""Dense retrieval: passages by inner product with the question's vector.

The exact kind is a BLAS scan of the matrix: on 2 cores it answers a single question three to four
times sooner than FAISS's flat index and a batch no later (`training/bench/dense.py` prints both).
FAISS serves the approximate kinds, HNSW and IVF-PQ.

Candidates come from float32 kernels, whose last bits depend on the kernel and which keep an
arbitrary one of two equal passages. So their inner products are computed again in float64, rounded
once to float32 and cut with ties by id: scores and order are the same in any batch, and for the
exact kind no passage that belongs in the answer is missed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import faiss
import numpy as np

from backends.ranking import (
    RequestError,
    make_ranking,
    query_matrix,
    require_k,
    require_mask,
    top_rows,
)
from backends.types import Float32, Int64, Mask, Query, Ranking

_RESCORED_AT_ONCE = 8192
"""Rows converted to float64 together, which bounds the memory of a search with a very large k."""


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

    BLAS and OpenMP share the work of one call among their threads; `OMP_NUM_THREADS` bounds both.
    """

    name = "dense"

    def __init__(
        self, ids: Sequence[str], vectors: Float32, settings: DenseSettings | None = None
    ) -> None:
        """Build what the chosen kind needs; the exact kind needs nothing.

        Args:
            ids: n passage ids in ascending order.
            vectors: (n, d) unit vectors, one row an id. Kept, not copied, when C-contiguous.
            settings: Exact search when left out.

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
            queries: b analysed questions.
            k: At least 1.
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

    def similarities(self, queries: Sequence[Query]) -> Float32:
        """Inner products of every passage with every question.

        Each question is one matrix-vector product, not a column of a matrix product, so that its
        values do not depend on the rest of the batch. They are float32 sums: up to d·2⁻²⁴ off the
        scores of `search`.

        Args:
            queries: b analysed questions.

        Returns:
            (n, b) float32.

        Raises:
            RequestError: A vector does not fit this index.
        """
        vectors = query_matrix(queries, self.vectors.shape[1])
        products = np.empty((len(vectors), len(self.ids)), dtype=np.float32)
        for vector, row in zip(vectors, products, strict=True):
            np.dot(self.vectors, vector, out=row)
        return products.T

    def _find(self, vectors: Float32, k: int, allowed: Int64 | None) -> list[tuple[Int64, Float32]]:
        """The best k (at least 0, at most the allowed) rows and their scores per question."""
        if k == 0:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]
        if self._index is None or allowed is not None:
            return [self._scan(vector, k, allowed) for vector in vectors]
        return self._approximate(self._index, vectors, k) if len(vectors) else []

    def _scan(self, vector: Float32, k: int, allowed: Int64 | None) -> tuple[Int64, Float32]:
        """Exact search over the allowed rows (all of them for None); k at most their number."""
        if allowed is None:
            products = self.vectors @ vector
        elif len(allowed) * _GATHER_COST < len(self.vectors):
            products = self.vectors[allowed] @ vector
        else:
            products = (self.vectors @ vector)[allowed]
        cut = np.partition(products, len(products) - k)[len(products) - k]
        # A float32 sum of d products is off by at most d·2⁻²⁴ of the lengths, on either side of
        # the comparison: a row further below the cut than that cannot belong to the best k.
        slack = 2 * (len(vector) + 2) * 2.0**-24 * float(np.linalg.norm(vector)) * self._longest
        near = np.flatnonzero(products >= cut - slack)
        return self._best(vector, near if allowed is None else allowed[near], k)

    def _approximate(
        self, index: faiss.Index, vectors: Float32, k: int
    ) -> list[tuple[Int64, Float32]]:
        """Search with the FAISS index, and scan where it proposes fewer rows than asked for."""
        fetched = min(k * self.settings.overfetch, len(self.vectors))
        _, rows = index.search(vectors, fetched)
        found = []
        for vector, row in zip(vectors, rows, strict=True):
            proposed = np.sort(row[row >= 0])
            enough = len(proposed) >= k
            found.append(self._best(vector, proposed, k) if enough else self._scan(vector, k, None))
        return found

    def _best(self, vector: Float32, rows: Int64, k: int) -> tuple[Int64, Float32]:
        """Cut ascending rows to the best k by exact inner product, ties by row."""
        scores = _exact(self.vectors, vector, rows)
        best = top_rows(scores, k)
        return rows[best], scores[best]


def _exact(vectors: Float32, query: Float32, rows: Int64) -> Float32:
    """Inner products (m,) of some rows with a query, in float64 and rounded once."""
    wide = query.astype(np.float64)
    scores = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _RESCORED_AT_ONCE):
        part = slice(start, start + _RESCORED_AT_ONCE)
        scores[part] = vectors[rows[part]].astype(np.float64) @ wide
    return scores


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
