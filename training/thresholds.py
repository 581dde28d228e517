"""Finds the best pair of thresholds by trying all of them, on questions with known outcomes.

A router gives each question a score from 0 to 1. Up to the low threshold, the question takes the
simple route; from the high one on, the graph; between them, fusion. Only the order of the scores
matters, so there is one pair to try for each two gaps ("cuts") between neighbouring scores.

All pairs are evaluated at once. A pair of cuts (i, j), i <= j, sends the i lowest of m distinct
scores to the simple route, those from the j-th on to the graph, and the rest to fusion. The sum
over all questions of a value that depends on the route, such as its quality or its time, is then

    S[i] + (F[j] - F[i]) + (G[m] - G[j]) = (S[i] - F[i]) + (F[j] + G[m] - G[j])

with S, F, G the prefix sums of the value under each route. The first part depends on i alone and
the second on j alone, so adding a column to a row gives the table of all pairs. Mean quality, mean
latency, the share of questions that walk the graph, and the mean and variance of the difference to
a given pair are such sums.

The best pair of some hundred questions owes much to chance, so `solve` takes the cheapest of those
that the questions cannot tell from it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wye.backends.numerics import logistic
from wye.backends.types import Float64, Int64
from wye.router.policy import bands
from wye.router.types import Thresholds
from wye.training.errors import FitError

SIMPLE, FUSION, GRAPH = 0, 1, 2
"""Codes of routes, in the order in which a rising score takes them; also columns of outcomes."""
_MOST_LOGIT = 30.0  # larger logits are clipped, since their scores would round to 0 or 1 in float64
BoolTable = NDArray[np.bool_]

CUTS, FRONT_CUTS = 1000, 400
"""Most cuts to consider: a table of all pairs of 1,000 cuts takes 8 MB, of 30,000 it takes 7 GB."""
SLACK = 1e-9
"""Tolerance of comparisons, since the order in which numbers are added changes their last bits."""
MAX_LOSS = 0.005
"""How much mean quality thresholds may lose against always taking fusion, on any dataset that the
router was not trained on."""


def scores_of(logits: Float64) -> Float64:
    """Scores of logits, strictly between 0 and 1, as thresholds need them."""
    return logistic(np.clip(logits, -_MOST_LOGIT, _MOST_LOGIT))


@dataclass(frozen=True, slots=True)
class RouteOutcomes:
    """The outcome of every route for every question, so any thresholds can be evaluated exactly.

    Attributes:
        unseen_dataset: (n,) the number, from 1, of a question's dataset if the router that gave the
            score was not trained on that; else 0. None if all are 0.
    """

    scores: Float64  # (n,) the router's scores, above 0 and below 1
    quality: Float64  # (n, 3) quality of the simple, fusion and graph route's answer; any measure
    latency_ms: Float64  # (n, 3) their latency in milliseconds
    unseen_dataset: Int64 | None = None

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True, slots=True)
class ThresholdObjective:
    """What thresholds are solved for; a bound of None is no bound.

    Attributes:
        latency_weight: Quality given up for one millisecond less mean latency, λ; 0 or more.
        max_graph_share: Highest share of questions for which the graph arm runs, which includes
            fusion.
        least_share: Share of the questions that each of the three routes must have at least.
        max_loss: Most mean quality that may be lost against always taking fusion, on any dataset
            that the router was not trained on. It is dropped if no thresholds keep all bounds.
    """

    latency_weight: float = 0.0
    max_mean_ms: float | None = None  # highest mean latency
    max_graph_share: float | None = None
    max_loss: float | None = None
    least_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of thresholds on a replay."""

    quality: float
    mean_ms: float
    p95_ms: float  # smallest latency that at least 95 % of the questions do not exceed
    shares: tuple[float, ...]  # shares of the simple, fusion and graph route; the rest is steps

    def objective(self, goal: ThresholdObjective) -> float:
        """Quality - λ · mean latency."""
        return self.quality - goal.latency_weight * self.mean_ms


def outcome(replay: RouteOutcomes, thresholds: Thresholds) -> Outcome:
    """The outcome of thresholds."""
    rows, codes = np.arange(len(replay)), bands(replay.scores, thresholds)
    return outcome_of(replay.quality[rows, codes], replay.latency_ms[rows, codes], codes)


def outcome_of(quality: Float64, latency_ms: Float64, codes: Int64) -> Outcome:
    """The outcome of routes taken, from the quality, latency and code of each, (n,); 3 is steps."""
    return Outcome(
        quality=float(quality.mean()),
        mean_ms=float(latency_ms.mean()),
        p95_ms=float(np.quantile(latency_ms, 0.95, method="inverted_cdf")),
        shares=tuple((np.bincount(codes, minlength=3) / len(codes)).tolist()[:3]),
    )


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a threshold can lie: below, between or above the scores of the questions."""

    scores: Float64  # (m,) distinct scores, rising
    positions: Int64  # (c,) number of them below each cut, rising, from 0 to m
    level: Int64  # (n,) index of each question's score among them

    @classmethod
    def of(cls, scores: Float64, most: int = CUTS) -> "Cuts":
        """All cuts, or at most `most`, spread evenly over the questions."""
        distinct, level, counts = np.unique(scores, return_inverse=True, return_counts=True)
        positions = np.arange(len(distinct) + 1)
        if most < len(positions):
            ends = np.concatenate([[0], np.cumsum(counts)])
            positions = np.unique(np.searchsorted(ends, np.linspace(0, len(scores), most)))
        return cls(distinct, positions, level)

    def pair(self, low: int, high: int) -> Thresholds:
        """Thresholds at the cuts `low` <= `high`, midway between the scores on either side."""
        return Thresholds(self._border(low, upper=False), self._border(high, upper=True))

    def _border(self, cut: int, *, upper: bool) -> float:
        position = int(self.positions[cut])
        if position in {0, len(self.scores)}:
            return float(position > 0)
        below, above = map(float, self.scores[position - 1 : position + 1])
        middle = below + (above - below) / 2
        if below < middle < above:
            return middle
        return above if upper else below  # adjacent floats have no middle


def sums(cuts: Cuts, values: Float64) -> Float64:
    """(c, c) sums over all questions for each pair of a low cut (row) and a high one (column).

    Where the high cut is below the low one they are meaningless.

    Args:
        values: (n, 3) what is summed: a value of each question for each route it may take.
    """
    m = len(cuts.scores)
    prefix = np.zeros((m + 1, 3))
    for route in range(3):
        prefix[1:, route] = np.cumsum(np.bincount(cuts.level, values[:, route], minlength=m))
    at = prefix[cuts.positions]
    low, high = at[:, SIMPLE] - at[:, FUSION], at[:, FUSION] + prefix[m, GRAPH] - at[:, GRAPH]
    result: Float64 = low[:, None] + high
    return result


def allowed(replay: RouteOutcomes, cuts: Cuts, goal: ThresholdObjective) -> BoolTable:
    """(c, c) mask of the pairs of cuts, low <= high, that keep the goal's bounds."""
    n = len(replay)
    bounds: list[tuple[Float64, float | None, int]] = [
        (replay.latency_ms, goal.max_mean_ms, n),
        (np.tile([0.0, 1.0, 1.0], (n, 1)), goal.max_graph_share, n),
    ]
    if goal.least_share:
        bounds += [(np.tile(-row, (n, 1)), -goal.least_share, n) for row in np.eye(3)]
    if replay.unseen_dataset is not None:
        loss = replay.quality[:, [FUSION]] - replay.quality
        for dataset in range(1, int(replay.unseen_dataset.max()) + 1):
            rows = replay.unseen_dataset == dataset
            bounds.append((np.where(rows[:, None], loss, 0.0), goal.max_loss, int(rows.sum())))
    size = len(cuts.positions)
    result = np.triu(np.ones((size, size), np.bool_))
    for values, mean, count in bounds:
        if mean is not None:
            result &= sums(cuts, values) <= mean * count + SLACK * max(1.0, abs(mean * count))
    return result


@dataclass(frozen=True, slots=True)
class Solution:
    """Thresholds to review.

    Attributes:
        thresholds: The cheapest of the pairs that these questions cannot tell from the best one.
        best: The pair with the highest objective on these questions: quality less weighted latency.
    """

    thresholds: Thresholds
    outcome: Outcome
    best: Thresholds
    plateau: float  # share of the allowed pairs that these questions cannot tell from the best


def solve(
    replay: RouteOutcomes,
    goal: ThresholdObjective | None = None,
    *,
    errors: float | None = None,
    cautious: bool = False,
) -> Solution:
    """Find thresholds for a goal among the pairs of at most `CUTS` cuts that keep all bounds.

    The best pair overfits the noise of the questions. So this considers all pairs whose objective
    is at most `errors` standard errors of the paired difference below the best, which the questions
    cannot tell from it, and returns the cheapest: a cost without a visible gain is not paid.

    Args:
        replay: Outcomes of the split to choose on; never of test.
        goal: The goal; None for quality alone.
        errors: Standard errors below the best that count as equal; 0 returns a best pair. None
            stands for 1, which is right for questions like these, or for 2 if cautious.
        cautious: Take the highest of the high thresholds, then the cheapest pair that has it. Where
            the questions cannot tell graph from fusion, fusion is safer for questions unlike
            these: it walks the graph as well, and uses the other arms.

    Raises:
        FitError: No pair keeps the bounds.
    """
    goal = goal or ThresholdObjective()
    errors = (2.0 if cautious else 1.0) if errors is None else errors
    cuts = Cuts.of(replay.scores)
    fits = allowed(replay, cuts, goal)
    if not fits.any():  # the user's bounds come before `max_loss`
        fits = allowed(replay, cuts, replace(goal, max_loss=None))
    if not fits.any():
        fastest = float(replay.latency_ms.mean(axis=0).min())
        raise FitError(
            "No thresholds keep the bounds: on this replay even the fastest route takes "
            f"{fastest:.1f} ms on average. Allow more latency, or a higher graph share."
        )
    values = replay.quality - goal.latency_weight * replay.latency_ms
    best = _position(np.where(fits, sums(cuts, values), -np.inf))
    top = cuts.pair(*best)
    equal = fits & _close(replay, cuts, values, top, errors)
    equal[best] = True
    plateau = float(equal.sum() / fits.sum())
    if cautious:
        equal &= np.arange(len(equal)) == np.flatnonzero(equal.any(axis=0)).max()
    cost = np.where(equal, sums(cuts, replay.latency_ms), np.inf)
    # Questions in steps take the same time on either route, but sums differ in their last bits.
    chosen = cuts.pair(*_position(cost <= cost.min() * (1 + SLACK)))
    return Solution(chosen, outcome(replay, chosen), top, plateau)


def _position(table: NDArray[np.generic]) -> tuple[int, int]:
    """Row and column of the highest value, the first if several are."""
    row, column = np.unravel_index(np.argmax(table), table.shape)
    return int(row), int(column)


def _close(
    replay: RouteOutcomes, cuts: Cuts, values: Float64, best: Thresholds, errors: float
) -> BoolTable:
    """(c, c) whether a pair is at most so many standard errors below the best one.

    The standard error is that of the mean, over questions, of the difference between the two pairs.
    """
    n = len(replay)
    behind = values[np.arange(n), bands(replay.scores, best)][:, None] - values
    mean, square = sums(cuts, behind) / n, sums(cuts, behind**2) / n
    error = np.sqrt(np.maximum(square - mean**2, 0) / n)
    result: BoolTable = mean <= errors * error + SLACK * max(1.0, float(np.abs(values).max()))
    return result


@dataclass(frozen=True, slots=True)
class Front:
    """Pairs of thresholds that no other pair beats in quality and latency, the fastest first."""

    thresholds: tuple[Thresholds, ...]
    quality: Float64
    mean_ms: Float64


def front(replay: RouteOutcomes, bounds: ThresholdObjective | None = None) -> Front:
    """The Pareto front: each pair of thresholds that is better than all faster ones.

    Args:
        bounds: Bounds that the pairs must keep, whose latency weight is ignored; None for none.

    Returns:
        At least one point, unless no pair keeps the bounds.
    """
    cuts = Cuts.of(replay.scores, FRONT_CUTS)
    rows, columns = np.nonzero(allowed(replay, cuts, bounds or ThresholdObjective()))
    quality, latency = (
        sums(cuts, values)[rows, columns] / len(replay)
        for values in (replay.quality, replay.latency_ms)
    )
    # Sort by latency, then keep each pair whose quality exceeds that of all faster ones.
    order = np.lexsort((-quality, latency))
    best = np.maximum.accumulate(quality[order])
    rising = order[np.diff(best, prepend=-math.inf) > 1e-12]
    pairs = zip(rows[rising].tolist(), columns[rising].tolist(), strict=True)
    return Front(tuple(cuts.pair(*pair) for pair in pairs), quality[rising], latency[rising])
