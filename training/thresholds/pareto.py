"""Quality against latency: the pairs of thresholds that no other pair beats in both."""

from dataclasses import dataclass

import numpy as np

from backends.types import Float64
from router.types import Thresholds
from training.thresholds.outcomes import RouteOutcomes, ThresholdObjective
from training.thresholds.sweep import Cuts, allowed, sums


@dataclass(frozen=True, slots=True)
class Front:
    """Pairs in the order of rising latency and rising quality.

    Attributes:
        thresholds: Of each point.
        quality: (p,) mean over questions.
        mean_ms: (p,) mean latency.
    """

    thresholds: tuple[Thresholds, ...]
    quality: Float64
    mean_ms: Float64


def front(
    replay: RouteOutcomes, bounds: ThresholdObjective | None = None, *, most: int | None = 400
) -> Front:
    """The Pareto front over pairs of thresholds.

    Args:
        replay: The questions.
        bounds: That the pairs have to keep; its weight of latency plays no part. None for none.
        most: Cuts to consider, spread evenly over the questions; None for all.

    Returns:
        At least one point, unless no pair keeps the bounds.
    """
    cuts = Cuts.of(replay.scores, most)
    rows, columns = np.nonzero(allowed(replay, cuts, bounds or ThresholdObjective()))
    quality, latency = (
        sums(cuts, values).table()[rows, columns] / len(replay)
        for values in (replay.quality, replay.latency_ms)
    )
    # By rising latency, the best of equally fast ones first; then whatever sets a new record.
    order = np.lexsort((-quality, latency))
    best = np.maximum.accumulate(quality[order])
    record = np.ones(len(order), np.bool_)
    record[1:] = best[1:] > best[:-1] + 1e-12
    kept = order[record]
    places = cuts.places
    return Front(
        thresholds=tuple(
            cuts.thresholds(int(places[low]), int(places[high]))
            for low, high in zip(rows[kept], columns[kept], strict=True)
        ),
        quality=quality[kept],
        mean_ms=latency[kept],
    )
