"""How far chosen thresholds would have moved with other questions, and how sure their worth is."""

from dataclasses import dataclass

import numpy as np

from router.types import Thresholds
from training.bootstrap import Interval, interval, resampled_means
from training.errors import FitError
from training.examples import Float64
from training.routing import Goal, Outcomes, taken
from training.sweep import Cuts, objective
from training.thresholds import search


@dataclass(frozen=True, slots=True)
class Stability:
    """95 % bootstrap intervals over questions.

    Attributes:
        quality: Of the chosen thresholds.
        mean_ms: Of the chosen thresholds.
        objective: Of the chosen thresholds.
        low: Of the low threshold, chosen again on each resample.
        high: Of the high threshold, chosen again on each resample.
        draws: (r, 2) these thresholds.
        impossible: Share of resamples on which no pair keeps the bounds.
    """

    quality: Interval
    mean_ms: Interval
    objective: Interval
    low: Interval
    high: Interval
    draws: Float64
    impossible: float


def stability(
    replay: Outcomes,
    thresholds: Thresholds,
    goal: Goal | None = None,
    *,
    resamples: int = 200,
    errors: float = 1.0,
    most: int | None = 200,
    cautious: bool = False,
    seed: int = 0,
) -> Stability:
    """Resample the questions, and solve again on each resample.

    The intervals of quality, latency and objective hold the thresholds fixed; they do not count
    that these were chosen on the same questions.

    Args:
        replay: On which the thresholds were chosen.
        thresholds: That were chosen.
        goal: For which they were chosen.
        resamples: How often to solve again.
        errors: As in `thresholds.solve`.
        most: Cuts to consider in each resample.
        cautious: As in `thresholds.solve`.
        seed: Of the generator.

    Raises:
        FitError: No resample has a pair that keeps the bounds.
    """
    goal = goal or Goal()
    rows, codes = np.arange(len(replay)), taken(replay.scores, thresholds)
    worth = np.stack(
        [
            values[rows, codes]
            for values in (replay.quality, replay.latency_ms, objective(replay, goal))
        ],
        axis=1,
    )
    means = resampled_means(worth, seed=seed)
    draws = _solved_again(
        replay, goal, resamples, errors=errors, most=most, cautious=cautious, seed=seed
    )
    if not len(draws):
        raise FitError("No resample of the questions has thresholds that keep the bounds.")
    quality, mean_ms, worth_it = (interval(worth[:, at], means[:, at]) for at in range(3))
    return Stability(
        quality=quality,
        mean_ms=mean_ms,
        objective=worth_it,
        low=interval(draws[:, 0], draws[:, 0]),
        high=interval(draws[:, 1], draws[:, 1]),
        draws=draws,
        impossible=1 - len(draws) / resamples,
    )


def _solved_again(
    replay: Outcomes,
    goal: Goal,
    resamples: int,
    *,
    errors: float,
    most: int | None,
    cautious: bool,
    seed: int,
) -> Float64:
    generator = np.random.default_rng(seed)
    cuts = Cuts.of(replay.scores, most)
    n = len(replay)
    found = []
    for _ in range(resamples):
        counts = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        try:
            low, high, _, _ = search(
                replay, cuts, goal, errors=errors, counts=counts, cautious=cautious
            )
        except FitError:
            continue
        pair = cuts.thresholds(low, high)
        found.append((pair.low, pair.high))
    return np.array(found, np.float64).reshape(-1, 2)
