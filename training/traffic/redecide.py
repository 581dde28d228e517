"""What thresholds make of logged scores, decided by the code that serves."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from router.policy import Budget, Policy, decide
from router.types import Route
from training.examples import Float64
from training.traffic.requests import ROUTES, Codes, Requests

TAIL = 0.95


@dataclass(frozen=True, slots=True)
class RouteTimes:
    """Requests that one route answered.

    Attributes:
        count: How many.
        mean_ms: Mean of `Requests.worked_ms`.
        p50_ms: Median of the same.
        p95_ms: 95th percentile of the same.
        waited_p50_ms: Median of `Requests.waited_ms`.
        waited_p95_ms: 95th percentile of the same.
    """

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    waited_p50_ms: float
    waited_p95_ms: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What a policy makes of the requests.

    Attributes:
        policy: Thresholds and what goes with them; None for the routes that were taken.
        routes: (n,) codes of routes.
        shares: Of each route that some request takes.
        unknown: Routes that some request takes and none was answered by, so that nobody knows how
            long they last.
        mean_ms: Expected mean of `Requests.worked_ms`; NaN where some route is unknown.
        p50_ms: Expected median, likewise.
        p95_ms: Expected 95th percentile, likewise.
    """

    policy: Policy | None
    routes: Codes
    shares: Mapping[Route, float]
    unknown: tuple[Route, ...]
    mean_ms: float
    p50_ms: float
    p95_ms: float


def redecide(requests: Requests, policy: Policy) -> Codes:
    """(n,) codes of the routes that a policy gives, each with the request's own budget.

    Raises:
        PolicyError: A request has a budget, and the policy knows no latencies.
    """
    code = {route: place for place, route in enumerate(ROUTES)}
    budgets = {
        ms: Budget(ms, policy.latency_ms)
        for ms in np.unique(requests.budgets).tolist()
        if not math.isnan(ms)
    }
    thresholds, simple = policy.thresholds, policy.simple
    pairs = zip(requests.scores.tolist(), requests.budgets.tolist(), strict=True)
    chosen = (
        code[decide(score, thresholds, simple=simple, budget=budgets.get(ms)).route]
        for score, ms in pairs
    )
    return np.fromiter(chosen, np.int8, len(requests))


def times_of(requests: Requests) -> dict[Route, RouteTimes]:
    """By the route that answered, in the order of `Route`."""
    found = {}
    for code, route in enumerate(ROUTES):
        rows = requests.routes == code
        if rows.any():
            worked, waited = requests.worked_ms[rows], requests.waited_ms[rows]
            found[route] = RouteTimes(
                int(rows.sum()),
                float(worked.mean()),
                *(_quantile(values, q) for values in (worked, waited) for q in (0.5, TAIL)),
            )
    return found


def as_served(requests: Requests) -> Effect:
    """The routes that were taken, and the times that this took."""
    return _effect(requests, None, requests.routes)


def effect(requests: Requests, policy: Policy) -> Effect:
    """What a policy makes of the requests.

    Times are expected ones: a route's questions are taken to last as those that it answered, so a
    request that changes its route is as likely to take any time that was seen on the new one.

    Raises:
        PolicyError: As of `redecide`.
    """
    return _effect(requests, policy, redecide(requests, policy))


def flips(before: Codes, after: Codes) -> dict[tuple[Route, Route], int]:
    """(from, to) -> requests that change their route, the most frequent change first."""
    changed = before != after
    pairs = Counter(zip(before[changed].tolist(), after[changed].tolist(), strict=True))
    return {(ROUTES[old], ROUTES[new]): count for (old, new), count in pairs.most_common()}


def _effect(requests: Requests, policy: Policy | None, routes: Codes) -> Effect:
    n = len(requests)
    wanted = np.bincount(routes, minlength=len(ROUTES))
    seen = np.bincount(requests.routes, minlength=len(ROUTES))
    shares = {route: float(wanted[code] / n) for code, route in enumerate(ROUTES) if wanted[code]}
    unknown = tuple(ROUTES[code] for code in np.flatnonzero((seen == 0) & (wanted > 0)))
    if unknown:
        return Effect(policy, routes, shares, unknown, math.nan, math.nan, math.nan)
    weights = (wanted / np.maximum(seen, 1))[requests.routes]
    worked = requests.worked_ms
    return Effect(
        policy,
        routes,
        shares,
        (),
        float((worked * weights).sum() / n),
        _quantile(worked, 0.5, weights),
        _quantile(worked, TAIL, weights),
    )


def _quantile(values: Float64, share: float, weights: Float64 | None = None) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))
