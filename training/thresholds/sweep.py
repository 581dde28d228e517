"""Every pair of thresholds at once: sums over routes as sums of two prefix sums.

Questions are sorted by score. A pair of cuts (i, j), i <= j, sends the i lowest distinct scores to
the simple route, those from the j-th on to graph, and the rest to fusion. Any sum over questions of
a value that depends on the route taken is then

    S[i] + F[j] - F[i] + G[m] - G[j] = a[i] + b[j]

with S, F, G the prefix sums of the value under each route. So all pairs cost one outer sum, bounds
on mean latency, on the number of slow questions and on the graph share are the same kind of sum,
and so are the two moments of the difference to any given pair.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.types import Float64, Int64
from router.types import Thresholds
from training.thresholds.outcomes import (
    FUSION,
    GRAPH,
    SIMPLE,
    Outcome,
    RouteOutcomes,
    ThresholdObjective,
)

CUTS = 1000
"""Places where thresholds may be; all pairs of more would take gigabytes."""
SLACK = 1e-9
"""Sums in another order differ in their last bits; a bound met exactly is met."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """The places where thresholds can be, between neighbouring scores.

    Attributes:
        scores: (m,) distinct scores, rising.
        places: (c,) how many of them are below each cut, rising, from 0 to m.
        level: (n,) of which of them each question's score is.
    """

    scores: Float64
    places: Int64
    level: Int64

    @classmethod
    def of(cls, scores: Float64, most: int | None = None) -> "Cuts":
        """All cuts, or `most` of them, spread evenly over the questions."""
        distinct, level, counts = np.unique(scores, return_inverse=True, return_counts=True)
        places = np.arange(len(distinct) + 1)
        if most is not None and most < len(places):
            ends = np.concatenate([[0], np.cumsum(counts)])
            targets = np.linspace(0, len(scores), most)
            places = np.unique(np.searchsorted(ends, targets))
        return cls(distinct, places, level)

    def thresholds(self, low: int, high: int) -> Thresholds:
        """Those that cut at places `low` <= `high`: midway between the scores on both sides."""
        return Thresholds(self._border(low, upper=False), self._border(high, upper=True))

    def _border(self, place: int, *, upper: bool) -> float:
        if place == 0:
            return 0.0
        if place == len(self.scores):
            return 1.0
        below, above = float(self.scores[place - 1]), float(self.scores[place])
        middle = below + (above - below) / 2
        # Between neighbouring numbers there is none, and only one of them is on the right side.
        if upper:
            return middle if middle > below else above
        return middle if middle < above else below


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over questions for every pair of cuts: total[i, j] = a[i] + b[j], for i <= j.

    Attributes:
        a: (c,) by the low cut.
        b: (c,) by the high cut.
    """

    a: Float64
    b: Float64

    def table(self) -> Float64:
        """(c, c); entries with i > j mean nothing."""
        result: Float64 = self.a[:, None] + self.b[None, :]
        return result


def sums(cuts: Cuts, values: Float64, counts: Float64 | None = None) -> Sums:
    """Sums of values (n, 3) of the routes, each question counted `counts` (n,) times."""
    weighed = values if counts is None else values * counts[:, None]
    m = len(cuts.scores)
    prefix = np.zeros((m + 1, 3))
    for route in range(3):
        prefix[1:, route] = np.cumsum(np.bincount(cuts.level, weighed[:, route], minlength=m))
    at = prefix[cuts.places]
    return Sums(a=at[:, SIMPLE] - at[:, FUSION], b=at[:, FUSION] + prefix[m, GRAPH] - at[:, GRAPH])


def allowed(
    replay: RouteOutcomes, cuts: Cuts, goal: ThresholdObjective, counts: Float64 | None = None
) -> NDArray[np.bool_]:
    """(c, c) the pairs of cuts, low before high, that keep within the goal's bounds."""
    n = float(len(replay)) if counts is None else float(counts.sum())
    runs_graph = np.tile([0.0, 1.0, 1.0], (len(replay), 1))
    bounds: list[tuple[Float64, float | None]] = [
        (replay.latency_ms, _times(goal.max_mean_ms, n)),
        (runs_graph, _times(goal.max_graph_share, n)),
    ]
    if goal.max_p95_ms is not None:
        bounds.append(((replay.latency_ms > goal.max_p95_ms).astype(float), 0.05 * n))
    bounds += _strangers(replay, goal, counts)
    size = len(cuts.places)
    result = np.triu(np.ones((size, size), np.bool_))
    for values, most in bounds:
        if most is not None:
            result &= sums(cuts, values, counts).table() <= most + SLACK * max(1.0, abs(most))
    return result


def _strangers(
    replay: RouteOutcomes, goal: ThresholdObjective, counts: Float64 | None
) -> list[tuple[Float64, float | None]]:
    """For each dataset that the router has not seen, what other routes lose beside fusion."""
    if replay.strange is None or goal.max_loss is None:
        return []
    lost = replay.quality[:, [FUSION]] - replay.quality
    found: list[tuple[Float64, float | None]] = []
    for dataset in range(1, int(replay.strange.max()) + 1):
        own = replay.strange == dataset
        n = float(own.sum()) if counts is None else float(counts[own].sum())
        found.append((np.where(own[:, None], lost, 0.0), goal.max_loss * n))
    return found


def keeps(found: Outcome, goal: ThresholdObjective) -> bool:
    """Whether what thresholds give keeps within the goal's bounds."""
    bounds = (
        (found.mean_ms, goal.max_mean_ms),
        (found.p95_ms, goal.max_p95_ms),
        (sum(found.shares[1:]), goal.max_graph_share),
    )
    return all(most is None or value <= most + SLACK for value, most in bounds)


def objective(replay: RouteOutcomes, goal: ThresholdObjective) -> Float64:
    """(n, 3) quality - λ · latency of each question by each route."""
    return replay.quality - goal.latency_weight * replay.latency_ms


def _times(bound: float | None, n: float) -> float | None:
    return None if bound is None else bound * n
