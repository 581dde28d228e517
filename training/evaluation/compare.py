"""Shared by all evaluations: names of systems, and means and differences with intervals."""

from collections.abc import Mapping, Sequence

import numpy as np

from wye.backends.types import Float64, Int64
from wye.training.evaluation.bootstrap import Interval, interval, resampled_means

AUTO, RANDOM, ORACLE = "auto", "random", "oracle"
QUALITY = "nDCG@10"
"""The measure that the oracle maximises, and that reports show first."""
PERCENTILES = (50, 95, 99)
Percentiles = tuple[float, float, float]
Shares = tuple[float, float, float, float]
"""Shares of the simple, the fusion and the graph route, and of steps."""

Means = dict[str, dict[str, Interval]]
"""System -> measure -> mean."""
Differences = dict[tuple[str, str], dict[str, Interval]]
"""(System, other) -> measure -> mean of system - other."""


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


def percentiles(values: Float64) -> Percentiles:
    """p50, p95 and p99 of (n,) values."""
    p50, p95, p99 = np.percentile(values, PERCENTILES).tolist()
    return p50, p95, p99


def shares_of(codes: Int64) -> Shares:
    """Shares of the routes, from the (n,) codes of the routes taken."""
    simple, fused, graph, steps = (np.bincount(codes, minlength=4) / len(codes)).tolist()
    return simple, fused, graph, steps
