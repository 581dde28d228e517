"""What every arm does with scores: check the request, take the top k, break ties by id.

Passages are held in id order, so a smaller row is a smaller id, and "ties by id" is "ties by row".
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backends.errors import BackendError
from backends.types import Float32, Hit, Int64, Mask, Query, Ranking


class RequestError(BackendError, ValueError):
    """A search that no arm can answer: k below 1, a mask or a vector of the wrong shape."""


def require_k(k: int) -> None:
    """Refuse a k below 1.

    Raises:
        RequestError: It is.
    """
    if k < 1:
        raise RequestError(f"k is {k}, and a ranking has at least one place. Ask for k >= 1.")


def require_mask(allowed: Mask | None, passages: int) -> None:
    """Refuse a filter mask that was not made for this version of the index.

    Raises:
        RequestError: It is not a boolean array of shape (passages,).
    """
    if allowed is None:
        return
    if allowed.shape != (passages,) or allowed.dtype != np.bool_:
        raise RequestError(
            f"The filter mask is {allowed.dtype} of shape {allowed.shape}, but this version has "
            f"{passages} passages. Make a boolean mask from the version that is searched."
        )


def query_matrix(queries: Sequence[Query], dimension: int) -> Float32:
    """Stack the vectors of queries.

    Args:
        queries: b analysed questions.
        dimension: d of the passage vectors.

    Returns:
        (b, d) float32, C-contiguous; (0, d) for no queries.

    Raises:
        RequestError: A vector has another length or a value that is not finite.
    """
    matrix = np.empty((len(queries), dimension), dtype=np.float32)
    for row, query in enumerate(queries):
        if query.vector.shape != (dimension,):
            raise RequestError(
                f"The vector of question {query.text!r} has shape {query.vector.shape}, but the "
                f"index holds vectors of {dimension}. Encode with the encoder the index names."
            )
        matrix[row] = query.vector
    if not np.isfinite(matrix).all():
        bad = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise RequestError(
            f"The vector of question {queries[bad].text!r} has a value that is not finite. "
            "Check what the encoder returned for it."
        )
    return matrix


def top_rows(scores: NDArray[np.floating], k: int) -> Int64:
    """Positions of the k highest scores, best first, equal scores by position.

    Args:
        scores: (n,) finite values.
        k: At least 1; more than n returns all.

    Returns:
        (min(k, n),) positions into `scores`.
    """
    if k < len(scores):
        # The cut may fall inside a group of equal scores: everything above it is in, and of the
        # group itself the smallest positions.
        cut = np.partition(scores, len(scores) - k)[len(scores) - k]
        above = np.flatnonzero(scores > cut)
        level = np.flatnonzero(scores == cut)[: k - len(above)]
        chosen = np.concatenate([above, level])
    else:
        chosen = np.arange(len(scores))
    return chosen[np.lexsort((chosen, -scores[chosen]))].astype(np.int64, copy=False)


def make_ranking(
    retriever: str,
    ids: Sequence[str],
    rows: Int64,
    scores: NDArray[np.floating],
    *,
    candidates: int,
    degraded: str = "",
) -> Ranking:
    """Turn rows in ranking order into a Ranking.

    Args:
        retriever: Name of the arm.
        ids: Of every passage of the version, in row order.
        rows: (m,) best first.
        scores: (m,) of those rows.
        candidates: How many passages the arm could have returned.
        degraded: See `Ranking`.
    """
    pairs = zip(rows.tolist(), scores.tolist(), strict=True)
    hits = tuple(Hit(ids[row], score, rank) for rank, (row, score) in enumerate(pairs, start=1))
    return Ranking(retriever, hits, candidates, degraded)
