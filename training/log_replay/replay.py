"""Replays a request log under other thresholds: routes, latency, and changes of route."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from backends.types import Float64
from router.model_files import read_info, read_policy, save_policy
from router.policy import LatencyBudget, Policy, bands, decide, routes
from router.settings import Settings, load_settings
from router.types import Route, Thresholds
from training.errors import FitError, LogError
from training.log_replay.reading import ROUTES, Codes, DecisionLog, Requests, read_log
from training.thresholds.outcomes import FUSION, GRAPH, SIMPLE, RouteOutcomes, ThresholdObjective
from training.thresholds.solve import solve
from training.thresholds.sweep import CUTS

TAIL = 0.95
_PLACES = (Thresholds(1, 1), Thresholds(0, 1), Thresholds(0, 0))
"""Thresholds under which every score takes the simple route, fusion, or the graph."""
_SCORES = (0.25, 0.75)
"""A score from each half of the range, since a budget may choose different routes for them."""


@dataclass(frozen=True, slots=True)
class RouteTimes:
    """How long one route takes.

    Attributes:
        count: Number of requests that took the route.
        known: Number of requests whose time by this route the log has, taken or not.
        mean_ms: Mean of `Requests.times_ms` over these.
        p50_ms: Median of the same.
        p95_ms: 95th percentile of the same.
        waited_p50_ms: Median of `Requests.waited_ms` over requests that took it; NaN for none.
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
    """The effect of a policy on the logged requests.

    Attributes:
        policy: The policy; None for the routes that were taken.
        routes: (n,) codes of the requests' routes.
        shares: Route -> share of the requests, for routes that some request takes.
        unknown: Such routes whose time the log never has.
        mean_ms: Expected mean of the work in milliseconds; NaN if some route is unknown.
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


@dataclass(frozen=True)
class LogReplay:
    """A request log, and the policy in use."""

    log: DecisionLog
    now: Policy

    @classmethod
    def load(cls, paths: Sequence[Path], settings: Settings, collection: str = "") -> "LogReplay":
        """Read logs and the policy of the settings' router; no model is loaded.

        Raises:
            RequestLogError: A log cannot be read.
            LogError: As `read_log` raises it.
            ModelFileError: The router or its thresholds cannot be read.
        """
        own = settings.router
        router = read_info(own.folder())
        policy = read_policy(Path(own.thresholds)) if own.thresholds else router.policy
        return cls(read_log(paths, router, collection), policy)

    @cached_property
    def served(self) -> Effect:
        """The routes that were taken, with their times."""
        return self.effect(None)

    @cached_property
    def present(self) -> Effect:
        """The effect of the policy in use on the same requests."""
        return self.effect(self.now)

    def effect(self, policy: Policy | None) -> Effect:
        """See `effect`."""
        return effect(self.log.requests, policy)

    def candidate(self, text: str) -> Policy:
        """Parse a policy of the command line: a thresholds file, or LOW,HIGH.

        Raises:
            ModelFileError: The file cannot be read, or is not a thresholds file.
            PolicyError: The numbers are not in order, or not from 0 to 1.
            LogError: The text is not two numbers.
        """
        if "," not in text or Path(text).exists():
            return read_policy(Path(text))
        try:
            low, high = map(float, text.split(","))
        except ValueError:
            raise LogError(
                f"'{text}' is neither a thresholds file nor two numbers; give a file, or two "
                "numbers such as 0.3,0.8."
            ) from None
        return replace(self.now, thresholds=Thresholds(low, high, self.now.thresholds.steps))

    def notes(self) -> dict[str, Any]:
        """Notes for the thresholds file on the log, without any question."""
        log = self.log
        return {
            "collection": log.collection,
            "router": log.model,
            "requests": len(log.requests),
            "questions": log.questions,
            "questions with marked passages": len(log.feedback.questions),
            "first": log.first.isoformat(timespec="seconds"),
            "last": log.last.isoformat(timespec="seconds"),
            "index versions": list(log.versions),
        }

    def save(self, path: Path, policy: Policy, notes: Mapping[str, Any]) -> None:
        """Write a thresholds file for review; it says that no answer was judged."""
        found = self.effect(policy)
        said = {
            "from": "a request log; no answer was judged",
            "log": self.notes(),
            "expected mean_ms": found.mean_ms if not found.unknown else None,
            "shares": {str(route): share for route, share in found.shares.items()},
            "requests that change route": sum(changes(self.present, found).values()),
            "instead_of": asdict(self.now.thresholds),
        }
        save_policy(path, replace(policy, router=self.log.model), {**said, **notes})


def router_settings(router: str) -> Settings:
    """Settings of the environment, with another router if one is named.

    The environment's thresholds file holds for its own router only, so it is dropped then.

    Args:
        router: "name/version", or a version's folder; "" for the environment's.
    """
    own = load_settings()
    if not router:
        return own
    return own.model_copy(update={"router": replace(own.router, model=router, thresholds="")})


def decide_again(requests: Requests, policy: Policy) -> Codes:
    """(n,) codes of the routes that a policy chooses, within each request's latency budget.

    Raises:
        PolicyError: A request has a budget, and the policy knows no latencies.
    """
    order = np.array([ROUTES.index(route) for route in routes(policy.simple)], np.int8)
    places = bands(requests.scores, policy.thresholds)
    codes = order[places]
    if policy.thresholds.steps:  # a log tells of no other request whether it has a plan
        steps = ROUTES.index(Route.STEPS)
        codes[requests.routes == steps] = steps
    for row in np.flatnonzero(~np.isnan(requests.budgets)).tolist():
        budget = LatencyBudget(float(requests.budgets[row]), policy.latency_ms)
        score = float(requests.scores[row])
        choice = decide(score, policy.thresholds, simple=policy.simple, budget=budget)
        codes[row] = ROUTES.index(choice.route)
    return codes


def effect(requests: Requests, policy: Policy | None) -> Effect:
    """The effect of a policy on the requests; with None, of the routes that were taken.

    Times are expectations. If the log has a request's time by its new route, that counts; otherwise
    all known times of that route are equally likely.

    Raises:
        PolicyError: A request has a budget, and the policy knows no latencies.
    """
    codes = requests.routes if policy is None else decide_again(requests, policy)
    n = len(requests)
    shares, unknown = {}, []
    values, weights = [], []
    for code, route in enumerate(ROUTES):
        rows = np.flatnonzero(codes == code)
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
        return Effect(policy, codes, shares, tuple(unknown), math.nan, math.nan, math.nan)
    times, counts = np.concatenate(values), np.concatenate(weights)
    mean = float((times * counts).sum() / n)
    p50, p95 = _quantile(times, 0.5, counts), _quantile(times, TAIL, counts)
    return Effect(policy, codes, shares, (), mean, p50, p95)


def changes(before: Effect, after: Effect) -> dict[tuple[Route, Route], int]:
    """(from, to) -> number of requests that change route, the most frequent change first."""
    moved = before.routes != after.routes
    pairs = Counter(zip(before.routes[moved].tolist(), after.routes[moved].tolist(), strict=True))
    return {(ROUTES[old], ROUTES[new]): count for (old, new), count in pairs.most_common()}


def times_of(requests: Requests) -> dict[Route, RouteTimes]:
    """Times by route, in the order of `Route`; routes without known times are left out."""
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


def keeps(found: Effect, goal: ThresholdObjective) -> bool:
    """Whether an effect keeps the bounds on mean latency and on the graph's share.

    If latency is bounded, no request may take a route of unknown latency.
    """
    graph = sum(found.shares.get(route, 0.0) for route in (Route.GRAPH, Route.FUSION))
    bounds = ((graph, goal.max_graph_share), (found.mean_ms, goal.max_mean_ms))
    # With a tolerance for rounding; NaN, which is unknown, keeps no bound.
    return all(most is None or value <= most + 1e-6 * max(1.0, most) for value, most in bounds)


def within_bounds(requests: Requests, now: Policy, goal: ThresholdObjective) -> Policy:
    """The policy that keeps the bounds with the fewest changes of route.

    Without judgements one cannot tell which change would help, so the best change is the smallest.
    Of equally small ones, the one that leaves most to fusion is taken, as the cautious
    `training.thresholds.solve.solve` does. If latency is bounded, no request gets a route whose
    time the log never has.

    Args:
        goal: Bounds on the expected mean latency, and on the share that walks the graph.

    Returns:
        The policy in use, if it keeps the bounds.

    Raises:
        FitError: No thresholds keep the bounds.
        PolicyError: A request has a budget, and the policy knows no latencies.
    """
    present = effect(requests, now)
    if keeps(present, goal):
        return now
    outcomes = _outcomes(requests, now, present, goal)
    found = solve(outcomes, goal, errors=0, most=CUTS, cautious=True).thresholds
    # Only some scores have a cut between them, so a threshold that need not move stays as it is.
    tried = [
        replace(now, thresholds=Thresholds(low, high, now.thresholds.steps))
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
    """Outcomes with quality 1 where a request keeps its route, and the routes' known latency."""
    seen = times_of(requests)
    never = 0.0 if goal.max_mean_ms is None else (goal.max_mean_ms + 1) * (len(requests) + 1)
    means = np.array([seen[route].mean_ms if route in seen else never for route in ROUTES])
    times = np.where(np.isnan(requests.times_ms), means, requests.times_ms)
    stays = np.empty((len(requests), 3))
    ms = np.empty((len(requests), 3))
    for budget in np.unique(requests.budgets).tolist():
        rows = np.isnan(requests.budgets) if math.isnan(budget) else requests.budgets == budget
        for place, codes in enumerate(_routes_within(now, budget)):
            stays[rows, place] = np.isin(present.routes[rows], codes)
            ms[rows, place] = times[rows][:, codes].max(axis=1)
    # No thresholds reach these: a score of 1 always takes the graph, and one of 0 never fusion.
    ones, zeros = requests.scores == 1, requests.scores == 0
    for values in (stays, ms):
        values[ones] = values[ones][:, [GRAPH]]
        values[zeros, FUSION] = values[zeros, SIMPLE]
    edge = float(np.finfo(np.float64).eps)  # a score may be rounded to 0 or 1
    return RouteOutcomes(np.clip(requests.scores, edge, 1 - edge), stays, ms)


def _routes_within(now: Policy, budget: float) -> list[list[int]]:
    """For each of `_PLACES`, codes of the routes that it leads to within a budget."""
    most = None if math.isnan(budget) else LatencyBudget(budget, now.latency_ms)
    choices = [
        {decide(score, pair, simple=now.simple, budget=most).route for score in _SCORES}
        for pair in _PLACES
    ]
    return [sorted(map(ROUTES.index, chosen)) for chosen in choices]


def _known(requests: Requests, code: int) -> Float64:
    """All known times of a route, in milliseconds."""
    times = requests.times_ms[:, code].astype(np.float64)
    return times[~np.isnan(times)]


def _quantile(values: Float64, share: float, weights: Float64 | None = None) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))
