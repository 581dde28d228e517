"""What every arm does with scores: take the top k, break ties by id.

Passages are in id order, so a smaller row is a smaller id, and "ties by id" is "ties by row". Where
late passages follow those of a base, their order by id is known besides.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wye.backends.types import Float16, Float32, Float64, Int32, Int64, Query, Ranking, RowHits

T = TypeVar("T")
_Value = TypeVar("_Value", bound=np.generic)
_Result = TypeVar("_Result", bound=np.generic)

CELLS = 16_000_000  # passages times questions of a batch, which bounds an array to 128 MB


def query_matrix(queries: Sequence[Query], dimension: int) -> Float32:
    """Queries' vectors as float32 (b, d), C-contiguous."""
    vectors = [query.vector for query in queries]
    return np.array(vectors, np.float32).reshape(len(queries), dimension)


def top_rows(scores: NDArray[np.floating], k: int, order: Int64 | None = None) -> Int64:
    """Positions (min(k, n),) of the k highest of n finite scores, best first.

    Ties are broken by position, or by another `order` (n,), least first.
    """
    # Ascending, with all scores that tie at the cut.
    bound = _reached(scores, k) if k < len(scores) else -np.inf
    best = np.flatnonzero(scores >= bound)
    best = best if order is None else best[np.argsort(order[best])]
    return best[np.argsort(-scores[best], kind="stable")[:k]]


_GROUPS = 256


def _reached(scores: NDArray[np.floating], k: int) -> np.floating[Any]:
    """A lower bound of the k-th highest of at least k scores, which few scores beyond k reach.

    It is the k-th highest among the maxima of many parts, which takes a fifth of the time of
    finding the k-th score itself.
    """
    groups = max(4 * k, _GROUPS)
    size = len(scores) // groups
    if size > 1:
        scores = scores[: groups * size].reshape(size, groups).max(axis=0)
    bound: np.floating[Any] = np.partition(scores, len(scores) - k)[len(scores) - k]
    return bound


def rank_rows(
    retriever: str,
    ids: Sequence[str],
    scores: NDArray[np.floating],
    rows: Int64 | None,
    k: int,
    *,
    degraded: str = "",
    order: Int64 | None = None,
) -> Ranking:
    """The best k candidates, ascending rows or None for all, by scores (n,); see `top_rows`."""
    if rows is None:
        best = top_rows(scores, k, order)
    else:
        best = rows[top_rows(scores[rows], k, None if order is None else order[rows])]
    candidates = len(scores if rows is None else rows)
    return Ranking(retriever, RowHits(ids, best, scores[best]), candidates, degraded)


# Inner products with a question's vector, the same to the last bit in any batch.
#
# BLAS splits a matrix-vector product among its threads and waits for the last of them: on a busy
# machine that is a time slice of the scheduler, 20 ms where one thread needs 0.3. `np.vecdot`
# computes one dot product per row in the calling thread, so a value depends on its two vectors
# alone.


_SIGN_AND_VALUE = np.array(0x8FFFFFFF, np.uint32).view(np.int32)
_HALFWAY = np.float32(2.0**56)
_LEAST = -709.0  # below this value the logistic function is less than 1e-307
_ROWS_AT_ONCE = 128  # rows that are processed together, so that they stay in the cache


@dataclass(frozen=True, eq=False)
class JoinedRows(Generic[_Value]):
    """Rows of a base and late ones, as one array. NumPy functions accept it, but copy all rows."""

    base: NDArray[_Value]
    late: NDArray[_Value]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return (len(self), *self.base.shape[1:])

    def __len__(self) -> int:
        return len(self.base) + len(self.late)

    def __getitem__(self, rows: Int32 | Int64) -> NDArray[_Value]:
        return self.of_each(rows, lambda part, its_rows: part[its_rows])

    def of_each(
        self, rows: Int32 | Int64, function: Callable[[NDArray[_Value], Int64], NDArray[_Result]]
    ) -> NDArray[_Result]:
        """(m, ...) result of a function for each of some rows; it takes a part and rows of it."""
        is_late, rows = rows >= len(self.base), rows.astype(np.int64)
        if not is_late.any():
            return function(self.base, rows)
        late = function(self.late, rows[is_late] - len(self.base))
        results = np.empty((len(rows), *late.shape[1:]), late.dtype)
        results[is_late] = late
        results[~is_late] = function(self.base, rows[~is_late])
        return results

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[_Value]:  # noqa: ANN401
        return np.concatenate([self.base, self.late]).astype(dtype or self.base.dtype)


Rows16 = Float16 | JoinedRows[np.float16]
Rows32 = Float32 | JoinedRows[np.float32]


def products_of(vectors: Rows16 | Rows32, rows: Int64, query: Float32) -> Float32:
    """Inner products (m,) of rows (m,) of finite vectors (n, d) with a query, halves as float32.

    Few rows are copied at a time, since a copy of all takes fresh pages. NumPy converts halves one
    by one. Here their bits are shifted to where a float32 has them, which is exact and twice as
    fast overall. A half's exponent read as a float32's makes the value 2^-112 times as large, and
    two factors of 2^56 undo that without overflow, for a query below 2^72.
    """
    if isinstance(vectors, JoinedRows):
        return vectors.of_each(rows, lambda part, its_rows: products_of(part, its_rows, query))
    result, are_halves = np.empty(len(rows), np.float32), vectors.dtype == np.float16
    table = vectors.view(np.int16) if are_halves else vectors
    query = query * _HALFWAY if are_halves else query
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        values = table.take(rows[block], axis=0)
        if are_halves:
            bits = values.astype(np.int32)
            bits <<= 13
            bits &= _SIGN_AND_VALUE
            values = bits.view(np.float32)
        np.vecdot(values, query, out=result[block])
    if are_halves:
        result *= _HALFWAY
    return result


def products_of_all(vectors: Rows32, queries: Float32) -> Float32:
    """Inner products (b, n) of vectors (n, d) with queries (b, d), alike in any batch."""
    if isinstance(vectors, JoinedRows):
        parts = [products_of_all(part, queries) for part in (vectors.base, vectors.late)]
        return np.concatenate(parts, axis=1)
    result = np.empty((len(queries), len(vectors)), np.float32)
    # With one query each row is used once, so no cache helps.
    step = _ROWS_AT_ONCE if len(queries) > 1 else max(1, len(vectors))
    for start in range(0, len(vectors), step):
        block = slice(start, start + step)
        np.vecdot(vectors[None, block], queries[:, None], out=result[:, block])
    return result


def logistic(values: Float64) -> Float64:
    """1 / (1 + exp(-v)) of each value, equal to `scipy.special.expit` to the last bit.

    Importing SciPy takes a tenth of a second, and this is called with few values.
    """
    results = (1 / (1 + math.exp(-v)) if v > _LEAST else 0.0 for v in values.ravel().tolist())
    return np.fromiter(results, np.float64, values.size).reshape(values.shape)


def batches(questions: Sequence[T], passages: int) -> Iterator[Sequence[T]]:
    """Split questions into batches of at most `CELLS` cells, for an index of that many passages."""
    together = max(1, CELLS // max(passages, 1))
    for start in range(0, len(questions), together):
        yield questions[start : start + together]
