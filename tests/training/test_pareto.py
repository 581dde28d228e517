import numpy as np
import pytest

from router.types import Thresholds
from training.thresholds.outcomes import RouteOutcomes, ThresholdObjective, outcome
from training.thresholds.solve import front


def replay(n: int, seed: int) -> RouteOutcomes:
    draw = np.random.default_rng(seed)
    return RouteOutcomes(draw.uniform(0.01, 0.99, n), draw.random((n, 3)), draw.random((n, 3)))


@pytest.mark.parametrize("seed", range(5))
def test_the_front_is_what_nothing_beats(seed: int) -> None:
    found = replay(12, seed)
    result = front(found, most=None)
    scores = np.sort(found.scores)
    edges = [0.0, *((scores[1:] + scores[:-1]) / 2).tolist(), 1.0]
    all_pairs = [
        outcome(found, Thresholds(low, high)) for low in edges for high in edges if low <= high
    ]
    for pair, quality, latency in zip(
        result.thresholds, result.quality, result.mean_ms, strict=True
    ):
        given = outcome(found, pair)
        assert given.quality == pytest.approx(quality)
        assert given.mean_ms == pytest.approx(latency)
        assert not any(
            (other.quality > quality + 1e-9 and other.mean_ms <= latency + 1e-9)
            or (other.quality >= quality - 1e-9 and other.mean_ms < latency - 1e-9)
            for other in all_pairs
        )
    assert result.quality[-1] == pytest.approx(max(other.quality for other in all_pairs))
    assert result.mean_ms[0] == pytest.approx(min(other.mean_ms for other in all_pairs))
    assert (np.diff(result.quality) > 0).all()
    assert (np.diff(result.mean_ms) > 0).all()


def test_the_front_within_bounds() -> None:
    found = replay(50, 9)
    result = front(found, ThresholdObjective(max_graph_share=0.4))
    for pair in result.thresholds:
        shares = outcome(found, pair).shares
        assert shares[1] + shares[2] <= 0.4
