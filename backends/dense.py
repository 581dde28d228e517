"""Dense retrieval: passages by inner product with the question's vector.

FAISS finds candidates in the very array that the index was read into: by a flat scan, or by a walk
through an HNSW graph. The graph arm needs the scores of all passages; where it
will follow, `scores` and `rank` give the list as well, so that no product is made twice.

Whatever finds candidates, their scores are those of `backends.numerics`, which depend on nothing
but two vectors, and ties are cut by id. So score and order are the same in any batch, and for the
exact kind no passage that belongs in the answer is missed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import faiss
import numpy as np

from backends.numerics import (
    RequestError,
    make_ranking,
    products,
    products_of_all,
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

_SPARE = 16
"""Rows fetched beyond k, to see whether the scores fall far enough behind the k-th."""

faiss.cvar.distance_compute_blas_threshold = 2048
"""Questions times dimension from which on FAISS multiplies matrices. With its own 128,000 a batch
of 32 takes nine times as long on one thread."""


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """How passages are found by vector.

    Attributes:
        kind: "exact" looks at every vector, which takes 1 ms for 15,000. "hnsw" looks at a part of
            them; but its graph is built when a version is opened, and after every write, in a
            second for 1,000 passages.
        overfetch: Candidates that HNSW proposes per passage asked for.
        hnsw_links: Links per node (M of Malkov and Yashunin, arXiv 1603.09320).
        hnsw_build: Breadth of the search that places a node (efConstruction).
        hnsw_search: Least breadth of the search that answers a question (efSearch).
    """

    kind: Literal["exact", "hnsw"] = "exact"
    overfetch: int = 8
    hnsw_links: int = 32
    hnsw_build: int = 200
    hnsw_search: int = 128

    def __post_init__(self) -> None:
        if self.kind not in ("exact", "hnsw"):
            raise RequestError(
                f"There is no dense index of kind {self.kind!r}. Choose exact or hnsw."
            )


class DenseRetriever:
    """The dense arm over one version of the index.

    A filtered search scans the allowed passages whatever the kind: a walk through an HNSW graph
    would step on passages that the filter forbids, and filters are exact in every arm.

    Questions are answered in the thread that asks. Threads that share a question wait for the last
    of them: on a busy machine that is a time slice of the scheduler, 20 ms where one needs 1.
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
        walks = self.settings.kind == "hnsw" and len(ids) > 0
        self._hnsw: Any = _hnsw(self.vectors, self.settings) if walks else None

    @property
    def index_bytes(self) -> int:
        """Memory of the HNSW graph beside the vectors themselves; 0 for an exact search."""
        if self._hnsw is None:
            return 0
        return int(faiss.serialize_index(self._hnsw).nbytes) - self.vectors.nbytes

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
        if rows is not None:
            found = self._scan(vectors, k, rows)
        elif self._hnsw is None:
            found = self._flat(vectors, min(k, candidates))
        else:
            found = (self._walk(vector, k) for vector in vectors)
        return [
            make_ranking(self.name, self.ids, best, scores, candidates=candidates)
            for best, scores in found
        ]

    @property
    def scores_all(self) -> bool:
        """Whether every vector is looked at, so that `rank` of `scores` is what `search` gives."""
        return self._hnsw is None

    def scores(self, queries: Sequence[Query]) -> list[Float32]:
        """(n,) inner products of each question with every passage.

        Raises:
            RequestError: A vector does not fit this index.
        """
        return list(products_of_all(self.vectors, query_matrix(queries, self.vectors.shape[1])))

    def rank(self, scores: Float32, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by one question's (n,) `scores`.

        Raises:
            RequestError: k is below 1, or the mask does not fit this index.
        """
        require_k(k)
        require_mask(allowed, len(self.ids))
        rows = None if allowed is None else np.flatnonzero(allowed)
        return rank_rows(self.name, self.ids, scores, rows, k)

    def _flat(self, vectors: Float32, k: int) -> Iterator[tuple[Int64, Float32]]:
        """The best k of all rows and their scores, for each question."""
        if not len(vectors) or not k:
            yield from [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(vectors)
            return
        fetched = min(k + _SPARE, len(self.vectors))
        with _one_thread():
            near, rows = faiss.knn(
                vectors, self.vectors, fetched, metric=faiss.METRIC_INNER_PRODUCT
            )
        for vector, scores, found in zip(vectors, near, rows, strict=True):
            # Otherwise more rows may be as near as the k-th than were fetched.
            enough = fetched == len(self.vectors) or (
                scores[-1] < scores[k - 1] - self._slack(vector)
            )
            candidates = np.sort(found) if enough else np.arange(len(self.vectors))
            yield self._best(vector, candidates, k)

    def _slack(self, vector: Float32) -> float:
        """How far below the k-th best product a row of the best k can have come out.

        A float32 sum of d products is off by at most about d·2⁻²⁴ of the lengths, whatever its
        order. Two such sums are compared here with two others.
        """
        rounding = (len(vector) + 2) * 2.0**-24
        return 4 * rounding * float(np.linalg.norm(vector)) * self._longest

    def _scan(self, vectors: Float32, k: int, rows: Int64) -> Iterator[tuple[Int64, Float32]]:
        """The best k of some rows (ascending)."""
        few = len(rows) * _GATHER_COST < len(self.vectors)
        pool = self.vectors[rows] if few else self.vectors
        step = max(1, _PRODUCTS_AT_ONCE // max(1, len(pool)))
        for start in range(0, len(vectors), step):
            for scores in products_of_all(pool, vectors[start : start + step]):
                own = scores if few else scores[rows]
                best = top_rows(own, k)
                yield rows[best], own[best]

    def _walk(self, vector: Float32, k: int) -> tuple[Int64, Float32]:
        """The best k of what HNSW proposes; of all rows where it proposes fewer."""
        fetched = min(k * self.settings.overfetch, len(self.vectors))
        with _one_thread():
            proposed = self._hnsw.search(vector[None], fetched)[1][0]
        proposed = proposed[proposed >= 0]
        if len(proposed) < min(k, len(self.vectors)):
            proposed = np.arange(len(self.vectors))
        return self._best(vector, np.sort(proposed), k)

    def _best(self, vector: Float32, rows: Int64, k: int) -> tuple[Int64, Float32]:
        """Cut ascending rows to the best k, ties by row."""
        few = len(rows) * _GATHER_COST < len(self.vectors)
        scores = products(self.vectors[rows] if few else self.vectors, vector)
        own = scores if few else scores[rows]
        best = top_rows(own, k)
        return rows[best], own[best]


def _longest(vectors: Float32) -> float:
    """Euclidean length of the longest row: 1 for unit vectors, up to how they were stored."""
    if len(vectors) == 0:
        return 0.0
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors).max()))


def _hnsw(vectors: Float32, settings: DenseSettings) -> faiss.Index:
    """An HNSW graph over the vectors, which it does not copy.

    Concurrent insertions finish in any order: one thread makes the same graph from the same vectors
    every time.
    """
    index = faiss.IndexHNSWFlat(vectors.shape[1], settings.hnsw_links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = settings.hnsw_build
    index.hnsw.efSearch = settings.hnsw_search  # FAISS raises it to the k of a search by itself.
    with _one_thread():
        index.add(vectors)
    # FAISS has copied the vectors; let it look at ours instead.
    view: Any = faiss.MaybeOwnedVectorUInt8()
    view.is_owned = False
    view.view_data = view.c_ptr = faiss.swig_ptr(vectors.view(np.uint8))
    view.view_size = view.c_size = vectors.nbytes
    storage: Any = faiss.downcast_index(index.storage)
    storage.codes = view
    return index


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run FAISS on one thread; OpenMP keeps this setting per calling thread."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
