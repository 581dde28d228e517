"""What thresholds make of logged scores, decided by the code that serves."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backends.types import Float64
from router.policy import Budget, Policy, decide
from router.types import Route
from training.traffic.requests import Codes, Requests
from training.traffic.stages import ROUTES

TAIL = 0.95


@dataclass(frozen=True, slots=True)
class RouteTimes:
    """How long one route takes.

    Attributes:
        count: Requests that it answered.
        known: Requests of which the log tells how long it took, or would have taken.
        mean_ms: Mean of `Requests.times_ms` over these.
        p50_ms: Median of the same.
        p95_ms: 95th percentile of the same.
        waited_p50_ms: Median of `Requests.waited_ms` over those that it answered; NaN for none.
        waited_p95_ms: 95th percentile of the same.
    """

    count: int
    known: int
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
        unknown: Routes that some request takes, of which the log never tells how long they last.
        mean_ms: Expected mean of the work in milliseconds; NaN where some route is unknown.
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
    """By route, in the order of `Route`; those of which nothing is known are left out."""
    found = {}
    for code, route in enumerate(ROUTES):
        times = _known(requests, code)
        if len(times):
            waited = requests.waited_ms[requests.routes == code]
            found[route] = RouteTimes(
                len(waited),
                len(times),
                float(times.mean()),
                _quantile(times, 0.5),
                _quantile(times, TAIL),
                _quantile(waited, 0.5) if len(waited) else math.nan,
                _quantile(waited, TAIL) if len(waited) else math.nan,
            )
    return found


def as_served(requests: Requests) -> Effect:
    """The routes that were taken, and the times that this took."""
    return _effect(requests, None, requests.routes)


def effect(requests: Requests, policy: Policy) -> Effect:
    """What a policy makes of the requests.

    Times are expected ones. Where the log tells how long a request would have taken by its new
    route, it is that; otherwise any time that is known of that route is equally likely.

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
    shares, unknown = {}, []
    values, weights = [], []
    for code, route in enumerate(ROUTES):
        rows = np.flatnonzero(routes == code)
        if not len(rows):
            continue
        shares[route] = len(rows) / n
        own = requests.times_ms[rows, code].astype(np.float64)
        told = ~np.isnan(own)
        values.append(own[told])
        weights.append(np.ones(int(told.sum())))
        if told.all():
            continue
        pool = _known(requests, code)
        if not len(pool):
            unknown.append(route)
            continue
        values.append(pool)
        weights.append(np.full(len(pool), int((~told).sum()) / len(pool)))
    if unknown:
        return Effect(policy, routes, shares, tuple(unknown), math.nan, math.nan, math.nan)
    times, counts = np.concatenate(values), np.concatenate(weights)
    return Effect(
        policy,
        routes,
        shares,
        (),
        float((times * counts).sum() / n),
        _quantile(times, 0.5, counts),
        _quantile(times, TAIL, counts),
    )


def _known(requests: Requests, code: int) -> Float64:
    """Every time that is known of a route."""
    times = requests.times_ms[:, code].astype(np.float64)
    return times[~np.isnan(times)]


def _quantile(values: Float64, share: float, weights: Float64 | None = None) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))
