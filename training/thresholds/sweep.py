"""Evaluates all pairs of thresholds at once, by prefix sums.

Questions are sorted by score. A pair of cuts (i, j), i <= j, sends the i lowest distinct scores to
the simple route, those from the j-th on to the graph, and the rest to fusion. The sum over all
questions of a value that depends on the route is then

    S[i] + F[j] - F[i] + G[m] - G[j] = a[i] + b[j]

with S, F, G the prefix sums of the value under each route. So one outer sum evaluates all pairs.
Mean latency, the number of slow questions, the graph share, and the two moments of the difference
to a given pair are all such sums.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wye.backends.types import Float64, Int64
from wye.router.types import Thresholds
from wye.training.thresholds.outcomes import (
    FUSION,
    GRAPH,
    SIMPLE,
    Outcome,
    RouteOutcomes,
    ThresholdObjective,
)

CUTS = 1000
"""Most cuts to consider; tables over pairs of more would take gigabytes."""
SLACK = 1e-9
"""Tolerance of comparisons: the order of a sum changes its last bits, and a bound may be met
exactly."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """The possible positions of thresholds, between adjacent scores.

    Attributes:
        scores: (m,) distinct scores, rising.
        positions: (c,) number of them below each cut, rising, from 0 to m.
        level: (n,) index of each question's score among them.
    """

    scores: Float64
    positions: Int64
    level: Int64

    @classmethod
    def of(cls, scores: Float64, most: int | None = None) -> "Cuts":
        """All cuts, or at most `most`, spread evenly over the questions."""
        distinct, level, counts = np.unique(scores, return_inverse=True, return_counts=True)
        positions = np.arange(len(distinct) + 1)
        if most is not None and most < len(positions):
            ends = np.concatenate([[0], np.cumsum(counts)])
            targets = np.linspace(0, len(scores), most)
            positions = np.unique(np.searchsorted(ends, targets))
        return cls(distinct, positions, level)

    def thresholds(self, low: int, high: int) -> Thresholds:
        """Thresholds at positions `low` <= `high`, midway between the scores on either side."""
        return Thresholds(self._border(low, upper=False), self._border(high, upper=True))

    def _border(self, position: int, *, upper: bool) -> float:
        if position == 0:
            return 0.0
        if position == len(self.scores):
            return 1.0
        below, above = float(self.scores[position - 1]), float(self.scores[position])
        middle = below + (above - below) / 2
        # Adjacent floats have no middle, and only one of the two cuts on the right side.
        if upper:
            return middle if middle > below else above
        return middle if middle < above else below


def sums(cuts: Cuts, values: Float64, counts: Float64 | None = None) -> Float64:
    """(c, c) sums of the routes' values (n, 3) by low and high cut; meaningless below the diagonal.

    Args:
        counts: (n,) how often each question counts; None for once.
    """
    weighed = values if counts is None else values * counts[:, None]
    m = len(cuts.scores)
    prefix = np.zeros((m + 1, 3))
    for route in range(3):
        prefix[1:, route] = np.cumsum(np.bincount(cuts.level, weighed[:, route], minlength=m))
    at = prefix[cuts.positions]
    low, high = at[:, SIMPLE] - at[:, FUSION], at[:, FUSION] + prefix[m, GRAPH] - at[:, GRAPH]
    result: Float64 = low[:, None] + high
    return result


def allowed(
    replay: RouteOutcomes, cuts: Cuts, goal: ThresholdObjective, counts: Float64 | None = None
) -> NDArray[np.bool_]:
    """(c, c) mask of the pairs of cuts, low <= high, that keep the goal's bounds."""
    each = np.ones(len(replay)) if counts is None else counts
    runs_graph = np.tile([0.0, 1.0, 1.0], (len(replay), 1))
    bounds: list[tuple[Float64, float | None, float]] = [
        (replay.latency_ms, goal.max_mean_ms, float(each.sum())),
        (runs_graph, goal.max_graph_share, float(each.sum())),
    ]
    if replay.strange is not None:  # the loss against fusion, by dataset that is not trained on
        loss = replay.quality[:, [FUSION]] - replay.quality
        for dataset in range(1, int(replay.strange.max()) + 1):
            rows = replay.strange == dataset
            strange = np.where(rows[:, None], loss, 0.0)
            bounds.append((strange, goal.max_loss, float(each[rows].sum())))
    size = len(cuts.positions)
    result = np.triu(np.ones((size, size), np.bool_))
    for values, mean, n in bounds:
        if mean is not None:
            most = mean * n
            result &= sums(cuts, values, counts) <= most + SLACK * max(1.0, abs(most))
    return result


def keeps(outcome: Outcome, goal: ThresholdObjective) -> bool:
    """Whether an outcome keeps the goal's bounds."""
    bounds = (
        (outcome.mean_ms, goal.max_mean_ms),
        (sum(outcome.shares[1:]), goal.max_graph_share),
    )
    return all(most is None or value <= most + SLACK for value, most in bounds)


def objective(replay: RouteOutcomes, goal: ThresholdObjective) -> Float64:
    """(n, 3) quality - λ · latency of each route for each question."""
    return replay.quality - goal.latency_weight * replay.latency_ms
