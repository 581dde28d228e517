"""Means over questions and paired differences, with intervals by percentile bootstrap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wye.backends.types import Float64
from wye.training.errors import EvaluationError

_CELLS = 4_000_000  # in a block of resamples, so that it takes some 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float


Means = dict[str, dict[str, Interval]]
"""System -> measure -> mean."""
Differences = dict[tuple[str, str], dict[str, Interval]]
"""(System, other) -> measure -> mean of system - other."""


def resampled_means(values: Float64, *, resamples: int = 10_000, seed: int = 0) -> Float64:
    """Means over questions drawn with replacement.

    All columns share the draws, so the difference of two columns of the result is the paired
    bootstrap of their difference.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; Sakai, SIGIR
    2006, for its use on retrieval measures.

    Args:
        values: (n, c), one row a question.

    Returns:
        (resamples, c) float64.

    Raises:
        EvaluationError: There is no row.
    """
    n = len(values)
    if n == 0:
        raise EvaluationError("There is no question to compute a mean of.")
    generator = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    block = max(1, _CELLS // n)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(n, size=(size, n))
        drawn += np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        means[start : start + size] = counts @ values / n
    return means


def interval(values: Float64, means: Float64) -> Interval:
    """The mean of `values` (n,) with the 2.5th and 97.5th percentile of its resampled means."""
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))


def mean_interval(values: Float64, seed: int = 0) -> Interval:
    """The mean of `values` (n,) with its interval."""
    return interval(values, resampled_means(values[:, None], seed=seed)[:, 0])


def compare(
    values: Mapping[str, Float64],
    pairs: Sequence[tuple[str, str]],
    measures: Sequence[str],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[Means, Differences]:
    """Means of every system and paired differences, with intervals from the same resamples.

    Args:
        values: System -> (n, m) every measure of every question.
        pairs: Pairs of systems to subtract.

    Raises:
        EvaluationError: There is no question.
    """
    # Differences are resampled directly, so those of equal systems are exactly 0.
    columns = np.hstack([*values.values(), *(values[one] - values[other] for one, other in pairs)])
    means = resampled_means(columns, resamples=resamples, seed=seed)
    intervals = [interval(columns[:, at], means[:, at]) for at in range(columns.shape[1])]
    cells = [
        dict(zip(measures, intervals[start : start + len(measures)], strict=True))
        for start in range(0, len(intervals), len(measures))
    ]
    return (
        dict(zip(values, cells[: len(values)], strict=True)),
        dict(zip(pairs, cells[len(values) :], strict=True)),
    )
