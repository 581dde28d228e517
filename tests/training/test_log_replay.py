import io
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.training.made import HAND, logged, rated
from wye.router.policy import Policy, bands
from wye.router.types import Thresholds
from wye.training.errors import FitError
from wye.training.log_replay import DecisionLog, read_log, show_replay, within_bounds
from wye.training.thresholds import FUSION, GRAPH, ThresholdObjective, keeps, outcome

KNOWN = np.array([10.0, 30.0, 20.0])
"""Milliseconds of the simple route, fusion and the graph."""
NOW = Thresholds(0.3, 0.7)


def requests(
    scores: list[float], taken: list[int], ms: list[float] | None = None, now: Thresholds = NOW
) -> DecisionLog:
    times = np.full((len(scores), 3), math.nan)
    times[np.arange(len(scores)), taken] = ms or 10.0
    router = replace(HAND, policy=Policy(now))
    return DecisionLog(router, "default", np.array(scores), times, {}, {})


def test_scores_are_decided_as_thresholds_say() -> None:
    scores = np.random.default_rng(0).uniform(0.005, 0.995, 500).round(2)
    log = requests(scores.tolist(), [0] * 500)
    replay = log.outcomes()
    for pair in (Thresholds(0.2, 0.8), Thresholds(0.5, 0.5), Thresholds(0, 1), Thresholds(1, 1)):
        codes = bands(scores, pair)
        now = outcome(replay, pair)
        assert [*now.shares] == (np.bincount(codes, minlength=3) / 500).tolist()
        assert now.quality == (codes == bands(scores, NOW)).mean()


def test_a_request_says_how_long_its_own_route_took_and_else_others_do() -> None:
    log = requests([0.1, 0.2, 0.5, 0.9], [0, 0, 1, 2], [10, 20, 40, 30])
    assert outcome(log.outcomes(), NOW).mean_ms == 25
    cheap = outcome(log.outcomes(), Thresholds(0.5, 0.8))
    assert [*cheap.shares] == [0.75, 0, 0.25]
    assert cheap.mean_ms == pytest.approx((10 + 20 + 15 + 30) / 4)


def test_what_fusion_tells_of_the_graph_counts() -> None:
    log = requests([0.1, 0.5, 0.9], [0, 1, 1], [10, 40, 44])
    log.times_ms[[1, 2], GRAPH] = 30, 34
    replay = log.outcomes()
    assert outcome(replay, Thresholds(0.2, 0.8)).mean_ms == pytest.approx((10 + 40 + 34) / 3)
    # Of the first nothing but dense is known: by graph it takes as long as the others do.
    assert outcome(replay, Thresholds(0, 0)).mean_ms == 32


def served(
    n: int, seed: int, now: Thresholds = NOW, *, ties: bool = False, told: bool = True
) -> DecisionLog:
    """Requests as thresholds serve them."""
    draw = np.random.default_rng(seed)
    scores = draw.uniform(0.05, 0.95, n).round(1 if ties else 6)
    codes = bands(scores, now)
    log = requests(scores.tolist(), codes.tolist(), now=now)
    for row, code in enumerate(codes.tolist()):
        # What fusion takes tells of the graph.
        for route in {code, GRAPH} if code == FUSION and told else {code}:
            log.times_ms[row, route] = KNOWN[route] * draw.uniform(0.5, 1.5)
    return log


def most_kept(log: DecisionLog, goal: ThresholdObjective) -> float | None:
    """Slow and obvious: try every pair of cuts."""
    levels = np.unique(log.scores)
    cuts = [0.0, *((levels[1:] + levels[:-1]) / 2).tolist(), 1.0]
    pairs = [Thresholds(low, high) for low, high in combinations_with_replacement(cuts, 2)]
    results = [outcome(log.outcomes(1e6), pair) for pair in pairs]
    return max((one.quality for one in results if keeps(one, goal)), default=None)


@pytest.mark.parametrize(
    "goal",
    [
        ThresholdObjective(max_mean_ms=17),
        ThresholdObjective(max_mean_ms=12),
        ThresholdObjective(max_graph_share=0.5),
        ThresholdObjective(max_graph_share=0.0),
        ThresholdObjective(max_mean_ms=18, max_graph_share=0.6),
    ],
)
@pytest.mark.parametrize("ties", [False, True])
def test_no_other_pair_keeps_the_bounds_with_fewer_changes(
    goal: ThresholdObjective, ties: bool
) -> None:
    for seed in range(3):
        log = served(30, seed, ties=ties)
        most = most_kept(log, goal)
        if most is None:
            with pytest.raises(FitError, match="No thresholds keep the bounds"):
                within_bounds(log, goal)
            continue
        result = outcome(log.outcomes(), within_bounds(log, goal))
        assert keeps(result, goal)
        assert result.quality == pytest.approx(most)


def test_what_keeps_the_bounds_stays() -> None:
    log = served(50, 1)
    assert within_bounds(log, ThresholdObjective(max_mean_ms=100)) is NOW
    assert within_bounds(log, ThresholdObjective()) is NOW


def test_a_threshold_that_need_not_move_does_not() -> None:
    log = served(3000, 2, Thresholds(0.3, 0.7, 0.4))
    pair = within_bounds(log, ThresholdObjective(max_graph_share=0.6))
    assert pair.low > 0.3
    assert (pair.high, pair.steps) == (0.7, 0.4)


def test_a_route_of_unknown_latency_gets_nothing() -> None:
    log = served(200, 3, Thresholds(0.3, 1), told=False)
    goal = ThresholdObjective(max_mean_ms=20)
    result = outcome(log.outcomes(), within_bounds(log, goal))
    assert keeps(result, goal)
    assert result.shares[GRAPH] == 0 < result.shares[FUSION]


def test_scores_that_were_rounded_to_the_ends_are_taken(write_log: Callable[..., Path]) -> None:
    scores = (0.0, 0.2, 0.8, 1.0)
    lines = [logged(str(at), one, "dense", ms=10) for at, one in enumerate(scores)]
    log = read_log([write_log(*lines)], HAND)
    assert 0 < log.scores.min() < log.scores.max() < 1
    assert outcome(log.outcomes(), Thresholds(0.4, 0.6)).shares == (0.5, 0, 0.5)


@pytest.fixture
def log(write_log: Callable[..., Path]) -> DecisionLog:
    lines = [logged(str(n), n / 20, "dense" if n <= 8 else "fusion", ms=n) for n in range(1, 20)]
    forced = logged("x", asked="graph", score=None)
    path = write_log(*lines, forced, rated("1", "a"), rated("lost", "a"))
    return read_log([path], replace(HAND, policy=Policy(Thresholds(0.4, 1.0))))


def shown(log: DecisionLog, proposed: Thresholds | None = None) -> str:
    """What is printed, with single spaces."""
    console = Console(width=130, file=io.StringIO(), record=True)
    show_replay(console, log, proposed)
    return " ".join(console.export_text().split())


def test_what_was_read_is_told(log: DecisionLog) -> None:
    text = shown(log)
    assert "19 decisions by hand/v1 for collection 'default'; 1 different questions with" in text
    assert "left out: 1 route named by the caller" in text
    assert "left out: 1 feedback on an unknown request, or on that of another key" in text
    assert "proposed" not in text
    assert "No request tells" not in text


def test_thresholds_stand_side_by_side(log: DecisionLog) -> None:
    text = shown(log, Thresholds(0.2, 1))
    assert "now proposed" in text
    assert "low 0.400 0.200" in text
    assert "share of fusion 57.9% 78.9%" in text
    assert "mean ms 10.0 11.6" in text
    assert "same route as now 1.0000 0.7895" in text


def test_a_time_that_no_request_tells_is_named(write_log: Callable[..., Path]) -> None:
    text = shown(read_log([write_log(logged("1", 0.1, "dense"))], HAND), Thresholds(0, 0))
    assert "No request tells the time of graph, which counts as 0 here." in text
