"""Dense retrieval: passages by inner product with the question's vector.

FAISS finds candidates. In a small corpus it scans the array that the index was read into. In a
large one it scans codes of four bits for two dimensions: 1.6 ms for 300,000 vectors where the flat
scan takes 25, and all of the best ten are among the candidates (product quantisation, Jégou et
al., TPAMI 2011, with the scan of André et al., VLDB 2015). A code depends on its own vector alone:
after a rotation the components of any unit vector are nearly normally distributed, so the code book
is that of a normal distribution.

The candidates' scores come from `wye.backends.numerics`, where a score depends on its two vectors
alone, and ties are broken by id. So scores and order are the same in any batch, and the exact kind
misses no passage. The graph arm uses the same scores: where it runs too, `scores` and `rank` give
the dense list, so that no product is computed twice.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Literal

import faiss
import numpy as np

from wye.backends.numerics import (
    JoinedRows,
    Rows32,
    products_of,
    products_of_all,
    query_matrix,
    rank_rows,
    top_rows,
)
from wye.backends.types import Float32, Int64, Mask, Query, Ranking, RowHits, Scores, UInt8

_GATHER_COST = 8  # copying a scattered row costs about as much as scanning this many in place

_SPARE = 16  # rows fetched beyond k, to check that the scores fall far enough behind the k-th

faiss.cvar.distance_compute_blas_threshold = 2048
"""Questions times dimension from which FAISS uses BLAS. With its default of 128,000 a batch of 32
takes nine times as long on one thread."""


_FETCHED = 10  # candidates that codes propose per requested passage

_LEAST = 100  # least k that candidates are proposed for; shorter lists have the same ones

_SEED = 7
_CODES = 16
_SAMPLE = 4096  # normally distributed points that the code book is trained on

_ENCODED_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """How passages are searched by vector.

    Attributes:
        kind: "exact" compares every vector; "compressed" compares codes of a sixteenth of their
            size and then the vectors of the best; "auto" is compressed in a large corpus.
        compressed_from: Passages from which "auto" is compressed.
    """

    kind: Literal["auto", "exact", "compressed"] = "auto"
    compressed_from: int = 50_000

    def compresses(self, passages: int) -> bool:
        """Whether a corpus of that many passages is searched by codes."""
        if self.kind == "auto":
            return passages >= self.compressed_from
        return self.kind == "compressed" and passages > 0


class DenseRetriever:
    """The dense arm over one version of the index.

    Where a filter allows few passages, their vectors are scanned, whatever the kind.

    A search runs in the calling thread alone. Several threads would wait for the last of them: on
    a busy machine that is a time slice of the scheduler, 20 ms where one thread needs 1.
    """

    name = "dense"

    def __init__(
        self,
        ids: Sequence[str],
        vectors: Rows32,
        settings: DenseSettings | None = None,
        codes: UInt8 | None = None,
        *,
        base: "DenseRetriever | None" = None,
        order: Int64 | None = None,
        present: Mask | None = None,
    ) -> None:
        """Build what the chosen kind needs; the exact kind needs nothing.

        Args:
            ids: n passage ids, in ascending order unless there is another.
            vectors: (n, d) unit vectors, one row per id. Kept, not copied, when C-contiguous.
            codes: The vectors' codes by `encode`; None to compute them where they are needed.
            base: The base version's retriever, where the vectors are in two arrays.
            order: (n,) position of each passage in the order of ids; None if they are in it.
            present: (n,) which passages there are; None for all.
        """
        self.ids = ids
        self.settings = settings or DenseSettings()
        self.codes: UInt8 | None = None
        self._order, self._present = order, present
        self._codes: list[_Codes] = []
        self._count = len(ids) if present is None else int(present.sum())
        is_compressed = self.settings.compresses(self._count)
        if isinstance(vectors, JoinedRows):
            self.vectors: Rows32 = vectors
            if is_compressed:
                of_base = base._codes if base else []
                self._codes = [*(of_base or [_Codes(vectors.base)]), _Codes(vectors.late)]
        else:
            self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
            if is_compressed:
                self._codes = [_Codes(self.vectors, codes)]
                self.codes = self._codes[0].codes

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        """At most k passages for each question, among the allowed (n,).

        The score is the inner product with the question's vector as it is given, so it is the
        cosine when that has unit length.
        """
        allowed = self._present if allowed is None else allowed
        vectors = query_matrix(queries, self.vectors.shape[1])
        candidates = len(self.ids) if allowed is None else int(allowed.sum())
        results: Iterator[tuple[Int64, Float32]]
        results = (self._best(v, self._proposed(v, k, allowed), k) for v in vectors)
        if not (self._codes or allowed is not None or isinstance(self.vectors, JoinedRows)):
            results = self._flat(self.vectors, vectors, min(k, candidates))
        hits = (RowHits(self.ids, best, scores) for best, scores in results)
        return [Ranking(self.name, each, candidates) for each in hits]

    @property
    def deepest(self) -> int:
        """Largest k for which `rank` of `scores` gives the same passages as `search`."""
        return _LEAST if self._codes else sys.maxsize

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Inner products of each question with all passages, or with those that codes propose."""
        allowed = self._present if allowed is None else allowed
        vectors = query_matrix(queries, self.vectors.shape[1])
        if not self._codes:
            return [Scores(None, values) for values in products_of_all(self.vectors, vectors)]
        proposed = ((vector, self._proposed(vector, _LEAST, allowed)) for vector in vectors)
        return [Scores(rows, self._products(vector, rows)) for vector, rows in proposed]

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by a question's `scores` under the same mask."""
        allowed = self._present if allowed is None else allowed
        rows = None if allowed is None else np.flatnonzero(allowed)
        if scores.rows is None:
            return rank_rows(self.name, self.ids, scores.values, rows, k, order=self._order)
        best = top_rows(scores.values, k, self._order_of(scores.rows))
        best_rows, candidates = scores.rows[best], len(self.ids if rows is None else rows)
        return Ranking(self.name, RowHits(self.ids, best_rows, scores.values[best]), candidates)

    def _proposed(self, vector: Float32, k: int, allowed: Mask | None) -> Int64:
        """Candidate rows for the best k allowed passages, ascending."""
        k, is_filtered = max(k, _LEAST), allowed is not self._present
        count, fetched = self._count, _FETCHED * k
        every = partial(np.arange, count)
        if allowed is not None:
            count, every = int(allowed.sum()), partial(np.flatnonzero, allowed)
        if not self._codes or not count or (is_filtered and count <= fetched * _GATHER_COST):
            return every()
        share = count / self._count
        rows = self._nearest(rotated(vector[None]), min(self._count, math.ceil(fetched / share)))
        if allowed is not None and is_filtered:
            rows = rows[allowed[rows]]
        return rows if len(rows) >= min(k, count) else every()

    def _nearest(self, query: Float32, k: int) -> Int64:
        """The rows of the best k by their codes, and of all that tie with the k-th, ascending."""
        scores, rows, first = np.empty(0, np.float32), np.empty(0, np.int64), 0
        for codes in self._codes:
            fetched = k
            while True:
                its_scores, its_rows = codes.nearest(query, fetched)
                its_rows += first
                if self._present is not None:
                    is_here = self._present[its_rows]
                    its_scores, its_rows = its_scores[is_here], its_rows[is_here]
                if len(its_rows) >= k or fetched >= codes.size:
                    break
                fetched *= 2
            scores, rows = np.append(scores, its_scores), np.append(rows, its_rows)
            first += codes.size
        if len(scores) > k:
            rows = rows[scores >= np.partition(scores, len(scores) - k)[len(scores) - k]]
        return np.sort(rows)

    def _order_of(self, rows: Int64) -> Int64 | None:
        return None if self._order is None else self._order[rows]

    def _flat(self, passages: Float32, vectors: Float32, k: int) -> Iterator[tuple[Int64, Float32]]:
        """The best k rows and their scores, for each question."""
        if not len(vectors) or not k:
            yield from [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(vectors)
            return
        fetched = min(k + _SPARE, len(passages))
        with _one_thread():
            fetched_scores, rows = faiss.knn(
                vectors, passages, fetched, metric=faiss.METRIC_INNER_PRODUCT
            )
        for vector, scores, fetched_rows in zip(vectors, fetched_scores, rows, strict=True):
            # If not, rows that were not fetched may be as near as the k-th.
            enough = fetched == len(passages) or (scores[-1] < scores[k - 1] - self._slack(vector))
            candidates = np.sort(fetched_rows) if enough else np.arange(len(passages))
            yield self._best(vector, candidates, k)

    def _slack(self, vector: Float32) -> float:
        """How far below the k-th best product FAISS may place a row of the best k.

        A float32 sum of d products is off by at most about d·2⁻²⁴ of the lengths, whatever its
        order. Two such sums are compared here with two others.
        """
        rounding = (len(vector) + 2) * 2.0**-24
        return 4 * rounding * float(np.linalg.norm(vector)) * self._longest

    @cached_property
    def _longest(self) -> float:
        """Euclidean length of the longest row: 1 for unit vectors, up to rounding."""
        vectors = np.asarray(self.vectors)
        if len(vectors) == 0:
            return 0.0
        return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors).max()))

    def _best(self, vector: Float32, rows: Int64, k: int) -> tuple[Int64, Float32]:
        """The best k of ascending rows and their scores; ties are broken by row."""
        scores = self._products(vector, rows)
        best = top_rows(scores, k, self._order_of(rows))
        return rows[best], scores[best]

    def _products(self, vector: Float32, rows: Int64) -> Float32:
        if len(rows) * _GATHER_COST < len(self.vectors):
            return products_of(self.vectors, rows, vector)
        return products_of_all(self.vectors, vector[None]).ravel()[rows]


def encode(vectors: Float32) -> UInt8:
    """Codes (n, d / 4) of vectors (n, d), or (n, d / 2) where d is odd.

    A code depends on its own vector alone. Vectors are rotated first, so that no component is much
    larger than the others.
    """
    codec = _codec(vectors.shape[1])
    codes = np.empty((len(vectors), codec.sa_code_size()), np.uint8)
    with _one_thread():
        for start in range(0, len(vectors), _ENCODED_AT_ONCE):
            block = slice(start, start + _ENCODED_AT_ONCE)
            codes[block] = codec.sa_encode(rotated(vectors[block]))
    return codes


def rotated(vectors: Float32) -> Float32:
    """Vectors (n, d) in a fixed random basis; a row's values depend on that row alone."""
    return products_of_all(_basis(vectors.shape[1]), vectors)


@cache
def _basis(dimension: int) -> Float32:
    normal = np.random.default_rng(_SEED).standard_normal((dimension, dimension))
    return np.ascontiguousarray(np.linalg.qr(normal)[0], np.float32)


@cache
def _codec(dimension: int) -> Any:  # noqa: ANN401 - FAISS has no types
    """An empty FAISS index in which every pair of dimensions has a normal distribution's codes."""
    size = 2 if dimension % 2 == 0 else 1
    normal = np.random.default_rng(_SEED).standard_normal((_SAMPLE, size), np.float32)
    means: Any = faiss.Kmeans(size, _CODES, niter=25, seed=_SEED)
    index: Any = faiss.IndexPQ(dimension, dimension // size, 4, faiss.METRIC_INNER_PRODUCT)
    with _one_thread():
        means.train(normal / np.float32(math.sqrt(dimension)))
    book = np.tile(means.centroids.ravel(), dimension // size)
    faiss.copy_array_to_vector(book, index.pq.centroids)
    index.is_trained = True
    return index


class _Codes:
    """Codes of vectors in the layout that FAISS scans."""

    def __init__(self, vectors: Float32, codes: UInt8 | None = None) -> None:
        self.codes = encode(vectors) if codes is None else codes
        self.size = len(vectors)
        index: Any = faiss.clone_index(_codec(vectors.shape[1]))
        index.add_sa_codes(self.codes)
        self._index: Any = faiss.IndexPQFastScan(index)

    def nearest(self, query: Float32, k: int) -> tuple[Float32, Int64]:
        """Scores and rows of the best k by codes for a rotated query (1, d), and of ties."""
        k = min(k, self.size)
        fetched = k + _SPARE
        while k:
            with _one_thread():
                scores, rows = (array[0] for array in self._index.search(query, fetched))
            if fetched >= self.size or scores[-1] < scores[k - 1]:
                as_good = (scores >= scores[k - 1]) & (rows >= 0)
                return scores[as_good], rows[as_good]
            fetched *= 2
        return np.empty(0, np.float32), np.empty(0, np.int64)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run FAISS on one thread; OpenMP keeps this setting per calling thread."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
