"""Thresholds within bounds, where nobody has judged an answer: as few changes as possible."""

import math
from dataclasses import replace

import numpy as np

from backends.types import Float64
from router.policy import Budget, Policy, decide
from router.types import Route, Thresholds
from training.errors import FitError
from training.thresholds.outcomes import FUSION, GRAPH, SIMPLE, RouteOutcomes, ThresholdObjective
from training.thresholds.solve import solve
from training.thresholds.sweep import CUTS
from training.traffic.redecide import Effect, effect, times_of
from training.traffic.requests import Requests
from training.traffic.stages import ROUTES

_PLACES = (Thresholds(1, 1), Thresholds(0, 1), Thresholds(0, 0))
"""Under which every score takes the simple route, fusion, or the graph."""
_SCORES = (0.25, 0.75)
"""One of each half of the band of `_PLACES`, since a budget may send them different ways."""


def keeps(found: Effect, goal: ThresholdObjective) -> bool:
    """Whether the expected mean latency and the share of requests that walk the graph are allowed.

    Where latency is bounded, a route whose latency is not known may not be taken.
    """
    graph = sum(found.shares.get(route, 0.0) for route in (Route.GRAPH, Route.FUSION))
    return _is_at_most(graph, goal.max_graph_share) and _is_at_most(found.mean_ms, goal.max_mean_ms)


def within(requests: Requests, now: Policy, goal: ThresholdObjective) -> Policy:
    """The policy that keeps the bounds while the fewest requests leave the route they take now.

    Without judgements no other aim is honest: one cannot tell which change would do good, so the
    best change is the smallest. Among equally small ones it is the one that leaves most to fusion,
    as `training.thresholds.solve.solve` does when it is cautious. Where latency is bounded, a
    route of
    which the log never tells how long it takes gets nothing.

    Args:
        requests: That the bounds are to hold for.
        now: What serves.
        goal: Bounds on the mean of the expected latency, and on the share that walks the graph.

    Returns:
        The present policy where it keeps the bounds.

    Raises:
        FitError: No thresholds keep the bounds.
        PolicyError: A request has a budget, and the policy knows no latencies.
    """
    present = effect(requests, now)
    if keeps(present, goal):
        return now
    replay = _outcomes(requests, now, present, goal)
    found = solve(replay, goal, errors=0, most=CUTS, cautious=True).thresholds
    # Cuts lie between some of the scores; where a threshold need not move, it does not.
    tried = [
        replace(now, thresholds=Thresholds(low, high))
        for low, high in (
            (now.thresholds.low, found.high),
            (found.low, now.thresholds.high),
            (found.low, found.high),
        )
        if low <= high
    ]
    effects = [effect(requests, policy) for policy in tried]
    moved = [int((one.routes != present.routes).sum()) for one in effects]
    allowed = [at for at, one in enumerate(effects) if keeps(one, goal)]
    if not allowed:
        raise FitError(
            "No thresholds keep the bounds: a score of 1 takes the graph whatever they are. Allow "
            "more latency, or a higher graph share."
        )
    return tried[min(allowed, key=lambda at: (moved[at], at))]


def _outcomes(
    requests: Requests, now: Policy, present: Effect, goal: ThresholdObjective
) -> RouteOutcomes:
    """Quality 1 where a request stays on its route; latency as each route has had it."""
    times = _times(requests, goal)
    stays = np.empty((len(requests), 3))
    ms = np.empty((len(requests), 3))
    for budget in np.unique(requests.budgets).tolist():
        rows = np.isnan(requests.budgets) if math.isnan(budget) else requests.budgets == budget
        for place, taken in enumerate(_taken(now, budget)):
            stays[rows, place] = np.isin(present.routes[rows], taken)
            ms[rows, place] = times[rows][:, taken].max(axis=1)
    # No thresholds reach these: a score of 1 always takes the graph, and one of 0 never fusion.
    ones, zeros = requests.scores == 1, requests.scores == 0
    for values in (stays, ms):
        values[ones] = values[ones][:, [GRAPH]]
        values[zeros, FUSION] = values[zeros, SIMPLE]
    edge = float(np.finfo(np.float64).eps)  # a score may be rounded to 0 or 1
    return RouteOutcomes(np.clip(requests.scores, edge, 1 - edge), stays, ms)


def _times(requests: Requests, goal: ThresholdObjective) -> Float64:
    """(n, len(ROUTES)) expected milliseconds, as `training.traffic.redecide` expects them."""
    seen = times_of(requests)
    never = 0.0 if goal.max_mean_ms is None else (goal.max_mean_ms + 1) * (len(requests) + 1)
    means = np.array([seen[route].mean_ms if route in seen else never for route in ROUTES])
    return np.where(np.isnan(requests.times_ms), means, requests.times_ms)


def _is_at_most(value: float, bound: float | None) -> bool:
    """Met, but for the rounding of sums; what is not known is not met."""
    return bound is None or value <= bound + 1e-6 * max(1.0, bound)


def _taken(now: Policy, budget: float) -> list[list[int]]:
    """Codes of the routes that the three places lead to, within a request's own budget."""
    most = None if math.isnan(budget) else Budget(budget, now.latency_ms)
    return [
        sorted(
            {
                ROUTES.index(decide(score, pair, simple=now.simple, budget=most).route)
                for score in _SCORES
            }
        )
        for pair in _PLACES
    ]
