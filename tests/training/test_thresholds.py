import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wye.router.policy import decide, routes
from wye.router.types import Route, Thresholds
from wye.training.errors import FitError
from wye.training.thresholds import Cuts, RouteOutcomes, ThresholdObjective, front, outcome, solve

LEVELS = [0.1, 0.25, 0.5, math.nextafter(0.5, 1), 0.9]
CODES = {route: code for code, route in enumerate(routes(Route.DENSE))}


@st.composite
def replays(draw: st.DrawFn) -> RouteOutcomes:
    n = draw(st.integers(1, 9))
    score = st.sampled_from(LEVELS) if draw(st.booleans()) else st.floats(0.01, 0.99)
    scores = draw(st.lists(score, min_size=n, max_size=n))
    whole = st.lists(st.integers(0, 4), min_size=3, max_size=3)
    quality = draw(st.lists(whole, min_size=n, max_size=n))
    latency = draw(st.lists(whole, min_size=n, max_size=n))
    return RouteOutcomes(np.array(scores), np.array(quality, float), np.array(latency, float) * 10)


@st.composite
def goals(draw: st.DrawFn) -> ThresholdObjective:
    def perhaps(top: float) -> float | None:
        return draw(st.one_of(st.none(), st.sampled_from([top * step / 4 for step in range(5)])))

    return ThresholdObjective(draw(st.sampled_from([0.0, 0.05, 1.0])), perhaps(40), perhaps(1))


def pairs(replay: RouteOutcomes) -> list[Thresholds]:
    """One pair of thresholds for every way in which thresholds can divide these scores."""
    scores = sorted(set(replay.scores.tolist()))
    # Between neighbouring floats there is no third, and their mean is one of them.
    lows, highs = [0.0], [0.0]
    for one, other in itertools.pairwise(scores):
        middle = (one + other) / 2
        apart = one < middle < other
        lows.append(middle if apart else one)
        highs.append(middle if apart else other)
    lows, highs = [*lows, 1.0], [*highs, 1.0]
    places = itertools.combinations_with_replacement(range(len(lows)), 2)
    return [Thresholds(lows[i], highs[j]) for i, j in places]


def routed(replay: RouteOutcomes, thresholds: Thresholds) -> list[int]:
    return [CODES[decide(score, thresholds)] for score in replay.scores.tolist()]


def keeps(replay: RouteOutcomes, thresholds: Thresholds, goal: ThresholdObjective) -> bool:
    codes = routed(replay, thresholds)
    times = [replay.latency_ms[row, code] for row, code in enumerate(codes)]
    n = len(codes)
    late = goal.max_mean_ms is not None and sum(times) / n > goal.max_mean_ms + 1e-9
    graph = sum(code > 0 for code in codes) / n
    much = goal.max_graph_share is not None and graph > goal.max_graph_share + 1e-9
    return not (late or much)


def worth(replay: RouteOutcomes, thresholds: Thresholds, goal: ThresholdObjective) -> np.ndarray:
    codes = routed(replay, thresholds)
    rows = range(len(codes))
    return np.array(
        [
            replay.quality[row, code] - goal.latency_weight * replay.latency_ms[row, code]
            for row, code in zip(rows, codes, strict=True)
        ]
    )


@settings(max_examples=300)
@given(replays(), goals())
def test_the_best_is_the_best_of_all_pairs(replay: RouteOutcomes, goal: ThresholdObjective) -> None:
    possible = [pair for pair in pairs(replay) if keeps(replay, pair, goal)]
    if not possible:
        with pytest.raises(FitError, match=r"No thresholds keep the bounds: .* takes \d+\.\d ms"):
            solve(replay, goal)
        return
    top = max(worth(replay, pair, goal).mean() for pair in possible)
    found = solve(replay, goal, errors=0)
    for pair in (found.best, found.thresholds):
        assert worth(replay, pair, goal).mean() == pytest.approx(top)
        assert outcome(replay, pair).objective(goal) == pytest.approx(top)
        assert keeps(replay, pair, goal)
    assert found.outcome == outcome(replay, found.thresholds)


def counts(replay: RouteOutcomes, pair: Thresholds) -> tuple[int, int]:
    return int((replay.scores <= pair.low).sum()), int((replay.scores < pair.high).sum())


@settings(max_examples=300)
@given(replays(), goals(), st.sampled_from([0.5, 1.0, 2.0]))
def test_of_the_pairs_that_cannot_be_told_from_the_best_the_cheapest_is_chosen(
    replay: RouteOutcomes, goal: ThresholdObjective, errors: float
) -> None:
    possible = [pair for pair in pairs(replay) if keeps(replay, pair, goal)]
    if not possible:
        return
    cheapest, cautious = (
        solve(replay, goal, errors=errors, cautious=cautious) for cautious in (False, True)
    )
    best = worth(replay, cheapest.best, goal)
    plateau = []
    for pair in possible:
        behind = best - worth(replay, pair, goal)
        if behind.mean() <= errors * behind.std() / np.sqrt(len(behind)) + 1e-9:
            plateau.append(pair)
    assert cheapest.plateau == pytest.approx(len(plateau) / len(possible))
    costs = [outcome(replay, pair).mean_ms for pair in plateau]
    assert cheapest.outcome.mean_ms == pytest.approx(min(costs))
    # Caution asks for the highest high threshold first.
    assert cautious.best == cheapest.best
    highest = max(counts(replay, pair)[1] for pair in plateau)
    assert counts(replay, cautious.thresholds)[1] == highest
    priced = zip(plateau, costs, strict=True)
    of_these = [cost for pair, cost in priced if counts(replay, pair)[1] == highest]
    assert cautious.outcome.mean_ms == pytest.approx(min(of_these))
    for found in (cheapest, cautious):
        assert keeps(replay, found.thresholds, goal)


def random_replay(n: int, seed: int) -> RouteOutcomes:
    draw = np.random.default_rng(seed)
    return RouteOutcomes(draw.uniform(0.01, 0.99, n), draw.random((n, 3)), draw.random((n, 3)))


@pytest.mark.parametrize("seed", range(5))
def test_the_front_is_what_nothing_beats(seed: int) -> None:
    found = random_replay(12, seed)
    result = front(found)
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
    found = random_replay(50, 9)
    result = front(found, ThresholdObjective(max_graph_share=0.4))
    for pair in result.thresholds:
        shares = outcome(found, pair).shares
        assert shares[1] + shares[2] <= 0.4


def test_each_route_has_its_least_share() -> None:
    replay = random_replay(50, 3)
    assert 0 in solve(replay, errors=0).outcome.shares
    goal = ThresholdObjective(least_share=0.2)
    assert min(solve(replay, goal, errors=0).outcome.shares) >= 0.2


def test_no_dataset_that_was_not_seen_loses_more_than_allowed_by_leaving_fusion() -> None:
    scores = np.linspace(0.1, 0.8, 8)
    quality = np.zeros((8, 3))
    quality[:, 0] = 0.1  # at home and for most the simple route is as good and cheaper
    quality[:, 1:] = 0.1
    quality[1, 1:] = 0.5  # one question of the second stranger loses .4 by it
    latency = np.tile([1.0, 2.0, 2.0], (8, 1))
    unseen_dataset = np.array([1, 2, 0, 0, 1, 2, 2, 2])
    replay = RouteOutcomes(scores, quality, latency, unseen_dataset)
    goal = ThresholdObjective(latency_weight=1.0)
    assert solve(replay, goal, errors=0).thresholds.low == 1
    for allowed, low in ((0.2, 1), (0.05, 0.15)):
        found = solve(replay, replace(goal, max_loss=allowed), errors=0).thresholds
        assert found.low == pytest.approx(low)
        for dataset in (1, 2):
            rows = unseen_dataset == dataset
            own = RouteOutcomes(scores[rows], quality[rows], latency[rows])
            lost = outcome(own, Thresholds(0, 1)).quality - outcome(own, found).quality
            assert lost <= allowed
    bound = replace(goal, max_loss=0.05, max_graph_share=0.0)
    assert solve(replay, bound, errors=0).thresholds.low == 1  # what was asked for goes first


@given(
    st.lists(st.sampled_from(LEVELS) | st.floats(0.01, 0.99), min_size=1, max_size=30),
    st.integers(2, 10),
)
def test_cuts_reach_from_nothing_to_everything(scores: list[float], most: int) -> None:
    for cuts in (Cuts.of(np.array(scores)), Cuts.of(np.array(scores), most)):
        assert cuts.positions[0] == 0
        assert cuts.positions[-1] == len(set(scores))
        assert (np.diff(cuts.positions) > 0).all()
    assert len(Cuts.of(np.array(scores), most).positions) <= most
