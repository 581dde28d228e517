import numpy as np
import pytest

from router.types import Thresholds
from training.errors import FitError
from training.thresholds.outcomes import RouteOutcomes, ThresholdObjective, outcome
from training.thresholds.solve import solve, stability


def replay(n: int) -> RouteOutcomes:
    draw = np.random.default_rng(0)
    scores = draw.uniform(0.01, 0.99, n)
    chance = np.stack([1 - scores, np.full(n, 0.6), scores], axis=1)
    quality = (draw.random((n, 3)) < chance).astype(float)
    return RouteOutcomes(scores, quality, np.tile([1.0, 30.0, 20.0], (n, 1)))


def test_intervals_hold_what_they_are_about_and_shrink() -> None:
    widths = []
    for n in (100, 2000):
        found = replay(n)
        chosen = solve(found, most=100).thresholds
        result = stability(found, chosen, resamples=50, most=50)
        given = outcome(found, chosen)
        for interval, value in ((result.quality, given.quality), (result.mean_ms, given.mean_ms)):
            assert interval.mean == pytest.approx(value)
            assert interval.low <= value <= interval.high
        assert result.low.mean <= result.high.mean
        assert result.impossible == 0
        widths.append([part.high - part.low for part in (result.quality, result.low, result.high)])
    assert (np.array(widths[1]) < np.array(widths[0])).all()


def test_the_same_seed_gives_the_same_draws() -> None:
    found = replay(60)
    one, same, other = (
        stability(found, Thresholds(0.3, 0.7), resamples=10, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert (one.low, one.high) != (other.low, other.high)


def test_resamples_on_which_nothing_keeps_the_bounds_are_counted() -> None:
    found = replay(60)
    latency = found.latency_ms.copy()
    latency[:, 0] = np.linspace(0, 2, 60)
    uneven = RouteOutcomes(found.scores, found.quality, latency)
    result = stability(uneven, Thresholds(1, 1), ThresholdObjective(max_mean_ms=1), resamples=40)
    assert 0.2 < result.impossible < 0.8
    with pytest.raises(FitError, match="No resample"):
        stability(uneven, Thresholds(1, 1), ThresholdObjective(max_mean_ms=0.1), resamples=10)
