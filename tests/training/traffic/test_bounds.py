import math
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from router.policy import Policy
from router.types import Route, Thresholds
from training.errors import FitError
from training.thresholds.outcomes import ThresholdObjective
from training.traffic.bounds import keeps, within
from training.traffic.redecide import effect, redecide
from training.traffic.requests import Requests
from training.traffic.stages import ROUTES

NOW = Policy(
    Thresholds(0.3, 0.7),
    latency_ms={Route.DENSE: 10.0, Route.FUSION: 30.0, Route.GRAPH: 20.0},
)
MEAN_MS = {Route.DENSE: 10.0, Route.FUSION: 30.0, Route.GRAPH: 20.0}


def served(
    n: int,
    seed: int,
    policy: Policy = NOW,
    *,
    budget: float = math.nan,
    ties: bool = False,
    told: bool = True,
) -> Requests:
    """Requests as a policy serves them, a third of them with a budget of their own."""
    draw = np.random.default_rng(seed)
    scores = draw.random(n).round(1 if ties else 6)
    budgets = np.where(draw.random(n) < 1 / 3, budget, math.nan)
    times = np.full((n, len(ROUTES)), math.nan, np.float32)
    asked = Requests(scores, np.zeros(n, np.int8), times, np.zeros(n), budgets)
    routes = redecide(asked, policy)
    for row, code in enumerate(routes.tolist()):
        # What fusion takes tells of the others.
        for route in MEAN_MS if ROUTES[code] == Route.FUSION and told else [ROUTES[code]]:
            times[row, ROUTES.index(route)] = MEAN_MS[route] * draw.uniform(0.5, 1.5)
    return replace(asked, routes=routes)


def moved(asked: Requests, policy: Policy) -> int:
    return int((effect(asked, policy).routes != effect(asked, NOW).routes).sum())


def fewest(asked: Requests, goal: ThresholdObjective) -> int | None:
    """Slow and obvious: try every pair of cuts."""
    levels = np.unique(asked.scores)
    cuts = [0.0, *((levels[1:] + levels[:-1]) / 2).tolist(), 1.0]
    found = [
        moved(asked, policy)
        for low, high in combinations_with_replacement(cuts, 2)
        for policy in [replace(NOW, thresholds=Thresholds(low, high))]
        if keeps(effect(asked, policy), goal)
    ]
    return min(found, default=None)


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
        asked = served(30, seed, ties=ties)
        if fewest(asked, goal) is None:
            with pytest.raises(FitError, match="No thresholds keep the bounds"):
                within(asked, NOW, goal)
            continue
        policy = within(asked, NOW, goal)
        assert keeps(effect(asked, policy), goal)
        assert moved(asked, policy) == fewest(asked, goal)


def test_what_keeps_the_bounds_stays() -> None:
    asked = served(50, 1)
    assert within(asked, NOW, ThresholdObjective(max_mean_ms=100)) is NOW
    assert within(asked, NOW, ThresholdObjective()) is NOW


def test_a_threshold_that_need_not_move_does_not() -> None:
    asked = served(3000, 2)
    policy = within(asked, NOW, ThresholdObjective(max_graph_share=0.6))
    assert policy.thresholds.low > 0.3
    assert policy.thresholds.high == 0.7
    assert policy.latency_ms == NOW.latency_ms


@pytest.mark.parametrize("budget", [25, 15, 5])
def test_bounds_hold_with_the_requests_own_budgets(budget: float) -> None:
    goal = ThresholdObjective(max_mean_ms=15, max_graph_share=0.4)
    for seed in range(5):
        asked = served(60, seed, budget=budget)
        assert keeps(effect(asked, within(asked, NOW, goal)), goal)


def test_a_route_of_unknown_latency_gets_nothing() -> None:
    without_graph = Policy(Thresholds(0.3, 1))
    asked = served(200, 3, without_graph, told=False)
    goal = ThresholdObjective(max_mean_ms=20)
    policy = within(asked, without_graph, goal)
    found = effect(asked, policy)
    assert keeps(found, goal)
    assert found.unknown == ()
    assert found.shares.keys() == {Route.DENSE, Route.FUSION}
    assert not keeps(effect(asked, Policy(Thresholds(0, 0))), goal)
    assert keeps(effect(asked, Policy(Thresholds(0, 0))), ThresholdObjective(max_graph_share=1))


def test_bounds_that_nothing_keeps() -> None:
    with pytest.raises(FitError, match="No thresholds keep the bounds"):
        within(served(50, 4), NOW, ThresholdObjective(max_mean_ms=1))


def test_scores_that_were_rounded_to_the_ends_are_taken() -> None:
    asked = served(50, 5)
    asked = replace(asked, scores=np.where(asked.scores > 0.7, 1.0, asked.scores))
    assert keeps(
        effect(asked, within(asked, NOW, ThresholdObjective(max_mean_ms=15))),
        ThresholdObjective(max_mean_ms=15),
    )
