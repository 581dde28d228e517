"""Solves thresholds exactly on a replay, and prefers the cheapest of nearly equal pairs."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wye.backends.types import Float64
from wye.router.policy import bands
from wye.router.types import Thresholds
from wye.training.errors import FitError
from wye.training.evaluation.bootstrap import Interval, interval, resampled_means
from wye.training.thresholds.outcomes import Outcome, RouteOutcomes, ThresholdObjective, outcome
from wye.training.thresholds.sweep import CUTS, SLACK, Cuts, allowed, objective, sums

Table = NDArray[np.bool_]


POINTS = {"quality": 0.0, "balanced": 1.0, "fast": 2.0}
"""Operating point -> factor on the latency weight."""
MAX_LOSS = 0.005
"""Most quality that leaving fusion may lose on a dataset that the router was not trained on; twice
that at an operating point where latency counts twice."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Thresholds to review.

    Attributes:
        thresholds: The cheapest pair of the plateau.
        best: The pair with the highest objective.
        best_outcome: That pair's outcome, which overfits these questions.
        plateau: Share of the allowed pairs that these questions cannot tell from the best.
    """

    thresholds: Thresholds
    outcome: Outcome
    best: Thresholds
    best_outcome: Outcome
    plateau: float


def standard_errors(*, cautious: bool) -> float:
    """Within how many standard errors thresholds count as equally good.

    One is right for questions like these; leaving fusion for unlike questions needs more evidence.
    """
    return 2.0 if cautious else 1.0


def solve(
    replay: RouteOutcomes,
    goal: ThresholdObjective | None = None,
    *,
    errors: float | None = None,
    most: int | None = None,
    cautious: bool = False,
) -> Solution:
    """Find thresholds for a goal among all pairs.

    The best pair overfits the noise of the questions. So this considers all pairs whose objective
    is at most `errors` standard errors of the paired difference below the best, which the questions
    cannot tell from it, and returns the cheapest: a cost without a visible gain is not paid. Only
    pairs that keep all bounds are considered.

    Args:
        replay: Outcomes of the split to choose on; never of test.
        goal: The goal; None for quality alone.
        errors: Standard errors below the best that count as equal; 0 returns a best pair, None
            stands for `standard_errors`.
        most: How many cuts to consider, spread evenly over the questions; None for all. Memory is
            about 50 bytes for each pair of cuts, some 450 MB for 3,000 questions.
        cautious: Take the highest of the high thresholds, then the cheapest pair that has it. Where
            the questions cannot tell graph from fusion, fusion is safer for questions unlike
            these: it walks the graph as well, and uses the other arms.

    Raises:
        FitError: No pair keeps the bounds.
    """
    goal = goal or ThresholdObjective()
    if errors is None:
        errors = standard_errors(cautious=cautious)
    cuts = Cuts.of(replay.scores, most)
    low, high, plateau, best = search(replay, cuts, goal, errors=errors, cautious=cautious)
    chosen, top = cuts.thresholds(low, high), cuts.thresholds(*best)
    return Solution(chosen, outcome(replay, chosen), top, outcome(replay, top), plateau)


def solve_points(
    replay: RouteOutcomes, goal: ThresholdObjective, *, cautious: bool
) -> dict[str, Thresholds]:
    """Solve each operating point's thresholds; arguments and errors as for `solve`."""
    points = {}
    for name, by in POINTS.items():
        loss = None if goal.max_loss is None else max(1.0, by) * goal.max_loss
        point_goal = replace(goal, latency_weight=by * goal.latency_weight, max_loss=loss)
        points[name] = solve(replay, point_goal, most=CUTS, cautious=cautious).thresholds
    return points


def search(
    replay: RouteOutcomes,
    cuts: Cuts,
    goal: ThresholdObjective,
    *,
    errors: float,
    counts: Float64 | None = None,
    cautious: bool = False,
) -> tuple[int, int, float, tuple[int, int]]:
    """The search of `solve`, with each question counted `counts` (n,) times.

    Returns:
        Positions of the low and the high cut, the plateau's share, and positions of the best pair.

    Raises:
        FitError: No pair keeps the bounds.
    """
    fits = allowed(replay, cuts, goal, counts)
    if not fits.any():  # the user's bounds come before `max_loss`
        fits = allowed(replay, cuts, replace(goal, max_loss=None), counts)
    if not fits.any():
        fastest = float(replay.latency_ms.mean(axis=0).min())
        raise FitError(
            "No thresholds keep the bounds: on this replay even the fastest route takes "
            f"{fastest:.1f} ms on average. Allow more latency, or a higher graph share."
        )
    values = objective(replay, goal)
    table = np.where(fits, sums(cuts, values, counts), -np.inf)
    best = np.unravel_index(np.argmax(table), table.shape)
    i, j = int(best[0]), int(best[1])
    top = int(cuts.positions[i]), int(cuts.positions[j])
    equal = fits & _close(replay, cuts, values, top, errors=errors, counts=counts)
    equal[i, j] = True
    low, high = _cheapest(equal, sums(cuts, replay.latency_ms, counts), cautious=cautious)
    share = float(equal.sum() / fits.sum())
    return int(cuts.positions[low]), int(cuts.positions[high]), share, top


def _close(
    replay: RouteOutcomes,
    cuts: Cuts,
    values: Float64,
    best: tuple[int, int],
    *,
    errors: float,
    counts: Float64 | None,
) -> Table:
    """(c, c) whether a pair's paired difference to the best is within some standard errors."""
    n = float(len(replay)) if counts is None else float(counts.sum())
    routes = bands(replay.scores, cuts.thresholds(*best))
    behind = values[np.arange(len(replay)), routes][:, None] - values
    mean = sums(cuts, behind, counts) / n
    square = sums(cuts, behind**2, counts) / n
    error = np.sqrt(np.maximum(square - mean**2, 0) / n)
    slack = SLACK * max(1.0, float(np.abs(values).max()))
    result: Table = mean <= errors * error + slack
    return result


def _cheapest(equal: Table, cost: Float64, *, cautious: bool) -> tuple[int, int]:
    """The cheapest pair in `equal`, the first if several are."""
    if cautious:
        equal = equal & (np.arange(len(equal)) == np.flatnonzero(equal.any(axis=0)).max())
    cost = np.where(equal, cost, np.inf)
    # Questions in steps take the same time on either route, but sums differ in their last bits.
    cheapest = cost <= cost.min() * (1 + SLACK)
    low, high = np.unravel_index(np.argmax(cheapest), cost.shape)
    return int(low), int(high)


@dataclass(frozen=True, slots=True)
class Stability:
    """95 % bootstrap intervals over questions.

    Attributes:
        low: Interval of the low threshold, solved again on each resample.
        high: Interval of the high threshold, likewise.
        impossible: Share of resamples on which no pair keeps the bounds.
    """

    quality: Interval
    mean_ms: Interval
    objective: Interval
    low: Interval
    high: Interval
    impossible: float


def stability(
    replay: RouteOutcomes,
    thresholds: Thresholds,
    goal: ThresholdObjective | None = None,
    *,
    resamples: int = 200,
    most: int | None = 200,
    cautious: bool = False,
    seed: int = 0,
) -> Stability:
    """Resample the questions, and solve again on each resample.

    The intervals of quality, latency and objective are for fixed thresholds, and ignore that these
    were chosen on the same questions.

    Raises:
        FitError: No resample has a pair that keeps the bounds.
    """
    goal = goal or ThresholdObjective()
    n = len(replay)
    rows, codes = np.arange(n), bands(replay.scores, thresholds)
    values = (replay.quality, replay.latency_ms, objective(replay, goal))
    chosen = np.stack([each[rows, codes] for each in values], axis=1)
    means = resampled_means(chosen, seed=seed)
    generator = np.random.default_rng(seed)
    cuts, errors = Cuts.of(replay.scores, most), standard_errors(cautious=cautious)
    pairs = []
    for _ in range(resamples):
        counts = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        try:
            low, high, _, _ = search(
                replay, cuts, goal, errors=errors, counts=counts, cautious=cautious
            )
        except FitError:
            continue
        pair = cuts.thresholds(low, high)
        pairs.append((pair.low, pair.high))
    if not pairs:
        raise FitError("No resample of the questions has thresholds that keep the bounds.")
    lows, highs = np.array(pairs, np.float64).T
    quality, mean_ms, worth = (interval(chosen[:, at], means[:, at]) for at in range(3))
    return Stability(
        quality=quality,
        mean_ms=mean_ms,
        objective=worth,
        low=interval(lows, lows),
        high=interval(highs, highs),
        impossible=1 - len(pairs) / resamples,
    )


@dataclass(frozen=True, slots=True)
class Front:
    """Pairs of thresholds, by rising latency and rising quality."""

    thresholds: tuple[Thresholds, ...]
    quality: Float64
    mean_ms: Float64


def front(
    replay: RouteOutcomes, bounds: ThresholdObjective | None = None, *, most: int | None = 400
) -> Front:
    """The Pareto front over pairs of thresholds.

    Args:
        bounds: Bounds that the pairs must keep, whose latency weight is ignored; None for none.
        most: How many cuts to consider, spread evenly over the questions; None for all.

    Returns:
        At least one point, unless no pair keeps the bounds.
    """
    cuts = Cuts.of(replay.scores, most)
    rows, columns = np.nonzero(allowed(replay, cuts, bounds or ThresholdObjective()))
    quality, latency = (
        sums(cuts, values)[rows, columns] / len(replay)
        for values in (replay.quality, replay.latency_ms)
    )
    # Sort by latency, then keep each pair whose quality exceeds that of all faster ones.
    order = np.lexsort((-quality, latency))
    best = np.maximum.accumulate(quality[order])
    record = np.ones(len(order), np.bool_)
    record[1:] = best[1:] > best[:-1] + 1e-12
    best_rows = order[record]
    positions = cuts.positions
    return Front(
        thresholds=tuple(
            cuts.thresholds(int(positions[low]), int(positions[high]))
            for low, high in zip(rows[best_rows], columns[best_rows], strict=True)
        ),
        quality=quality[best_rows],
        mean_ms=latency[best_rows],
    )
