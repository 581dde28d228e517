"""What all evaluations share: names of systems, and how sure a mean or a difference of them is."""

from collections.abc import Mapping, Sequence

import numpy as np

from backends.types import Float64, Int64
from training.evaluation.bootstrap import Interval, interval, resampled_means

AUTO, RANDOM, ORACLE = "auto", "random", "oracle"
QUALITY = "nDCG@10"
"""By which the oracle chooses, and which reports look at first."""
PERCENTILES = (50, 95, 99)
Percentiles = tuple[float, float, float]
Shares = tuple[float, float, float, float]
"""Of the simple, fusion and graph route, and of steps."""

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
    """Means of every system and paired differences, all from the same resamples.

    Args:
        values: System -> (n, m) every measure of every question.
        pairs: Systems whose difference is wanted.

    Raises:
        EvaluationError: There is no question.
    """
    # Differences are resampled themselves: those of equal systems are 0 to the last bit.
    columns = np.hstack([*values.values(), *(values[one] - values[other] for one, other in pairs)])
    means = resampled_means(columns, resamples=resamples, seed=seed)
    found = [interval(columns[:, at], means[:, at]) for at in range(columns.shape[1])]
    cells = [
        dict(zip(measures, found[start : start + len(measures)], strict=True))
        for start in range(0, len(found), len(measures))
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
    """Of the routes, by the (n,) codes of those that are taken."""
    simple, fused, graph, steps = (np.bincount(codes, minlength=4) / len(codes)).tolist()
    return simple, fused, graph, steps
