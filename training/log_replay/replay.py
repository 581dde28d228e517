"""Replays a request log under other thresholds: routes, latency, and changes of route."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from wye.backends.types import Float64
from wye.router.model_files import read_info, read_policy
from wye.router.policy import Policy, bands, routes
from wye.router.settings import Settings, load_settings
from wye.router.types import Route, Thresholds
from wye.training.errors import FitError, LogError
from wye.training.log_replay.reading import ROUTES, Codes, DecisionLog, read_log
from wye.training.markdown import escape, show, table
from wye.training.thresholds.outcomes import (
    FUSION,
    GRAPH,
    SIMPLE,
    RouteOutcomes,
    ThresholdObjective,
)
from wye.training.thresholds.solve import CUTS, solve


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a policy on the logged requests.

    Attributes:
        shares: Route -> share of the requests, for routes that some request takes.
        mean_ms: Expected mean of the work in milliseconds; NaN if a route's time is not known.
    """

    shares: Mapping[Route, float]
    mean_ms: float


def load(paths: Sequence[Path], settings: Settings, collection: str = "") -> DecisionLog:
    """Read logs, and the policy in use by the settings' router; no model is loaded.

    Raises:
        RequestLogError: A log cannot be read.
        LogError: As `read_log` raises it.
        ModelFileError: The router or its thresholds cannot be read.
    """
    router_options = settings.router
    router = read_info(router_options.folder())
    if router_options.thresholds:
        router = replace(router, policy=read_policy(Path(router_options.thresholds)))
    return read_log(paths, router, collection)


def router_settings(router: str) -> Settings:
    """Settings of the environment, with another router if one is named.

    The environment's thresholds file holds for its own router only, so it is dropped then.

    Args:
        router: "name/version", or a version's folder; "" for the environment's.
    """
    base = load_settings()
    if not router:
        return base
    return base.model_copy(update={"router": replace(base.router, model=router, thresholds="")})


def parse_policy(text: str, now: Policy) -> Policy:
    """A policy of the command line: a thresholds file, or LOW,HIGH instead of those in use.

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
            f"'{text}' is neither a thresholds file nor two numbers; give a file, or two numbers "
            "such as 0.3,0.8."
        ) from None
    return with_pair(now, low, high)


def with_pair(policy: Policy, low: float, high: float) -> Policy:
    """A policy with other thresholds, except for steps."""
    return replace(policy, thresholds=Thresholds(low, high, policy.thresholds.steps))


def decide_again(log: DecisionLog, policy: Policy) -> Codes:
    """(n,) codes of the routes that a policy chooses."""
    codes = _codes(policy)[bands(log.scores, policy.thresholds)]
    if policy.thresholds.steps:  # a log tells of no other request whether it has a plan
        steps = ROUTES.index(Route.STEPS)
        codes[log.routes == steps] = steps
    return codes


def effect(log: DecisionLog, policy: Policy | None) -> Effect:
    """The effect of a policy on the requests; with None, of the routes that were taken.

    If the log has a request's time by its new route, that counts; otherwise the route's mean does.
    """
    codes = log.routes if policy is None else decide_again(log, policy)
    ms = _expected_ms(log, np.nan)[np.arange(len(log)), codes]
    counts = zip(*np.unique(codes, return_counts=True), strict=True)
    shares = {ROUTES[code]: float(count / len(log)) for code, count in counts}
    return Effect(shares, float(ms.mean()))


def mean_times(log: DecisionLog) -> dict[Route, float]:
    """Mean milliseconds of work by each route whose time the log has, taken or not."""
    timed = ~np.isnan(log.times_ms)
    return {
        route: float(log.times_ms[timed[:, code], code].mean(dtype=np.float64))
        for code, route in enumerate(ROUTES)
        if timed[:, code].any()
    }


def changes(log: DecisionLog, policy: Policy | None) -> int:
    """Number of requests that a policy, or None for what was done, routes otherwise than now."""
    codes = log.routes if policy is None else decide_again(log, policy)
    return int((decide_again(log, log.router.policy) != codes).sum())


def keeps(result: Effect, goal: ThresholdObjective) -> bool:
    """Whether an effect keeps the bounds on mean latency and on the graph's share.

    If latency is bounded, no request may take a route of unknown latency.
    """
    graph = sum(result.shares.get(route, 0.0) for route in (Route.GRAPH, Route.FUSION))
    bounds = ((graph, goal.max_graph_share), (result.mean_ms, goal.max_mean_ms))
    # With a tolerance for rounding; NaN, which is unknown, keeps no bound.
    return all(most is None or value <= most + 1e-6 * max(1.0, most) for value, most in bounds)


def within_bounds(log: DecisionLog, goal: ThresholdObjective) -> Policy:
    """The policy that keeps the bounds with the fewest changes of route.

    Without judgements one cannot tell which change would help, so the best change is the smallest.
    Of equally small ones, the one that leaves most to fusion is taken, as the cautious
    `wye.training.thresholds.solve.solve` does. If latency is bounded, no request gets a route whose
    time the log never has.

    Returns:
        The policy in use, if it keeps the bounds.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    now = log.router.policy
    if keeps(effect(log, now), goal):
        return now
    old = now.thresholds
    new = solve(_outcomes(log, goal), goal, errors=0, most=CUTS, cautious=True).thresholds
    # Only some scores have a cut between them, so a threshold that need not move stays as it is.
    pairs = (old.low, new.high), (new.low, old.high), (new.low, new.high)
    tried = [with_pair(now, low, high) for low, high in pairs if low <= high]
    allowed = [policy for policy in tried if keeps(effect(log, policy), goal)]
    if not allowed:
        raise FitError(
            "No thresholds keep the bounds: a score of 1 takes the graph whatever they are. Allow "
            "more latency, or a higher graph share."
        )
    return min(allowed, key=lambda policy: changes(log, policy))


def _outcomes(log: DecisionLog, goal: ThresholdObjective) -> RouteOutcomes:
    """Outcomes with quality 1 where a request keeps its route, and the routes' known latency."""
    now = log.router.policy
    order = _codes(now)
    never = 0.0 if goal.max_mean_ms is None else (goal.max_mean_ms + 1) * (len(log) + 1)
    ms = _expected_ms(log, never)[:, order]
    stays = (decide_again(log, now)[:, None] == order).astype(np.float64)
    # No thresholds reach these: a score of 1 always takes the graph, and one of 0 never fusion.
    ones, zeros = log.scores == 1, log.scores == 0
    for values in (stays, ms):
        values[ones] = values[ones][:, [GRAPH]]
        values[zeros, FUSION] = values[zeros, SIMPLE]
    edge = float(np.finfo(np.float64).eps)  # a score may be rounded to 0 or 1
    return RouteOutcomes(np.clip(log.scores, edge, 1 - edge), stays, ms)


def _expected_ms(log: DecisionLog, unknown: float) -> Float64:
    """(n, len(ROUTES)) times of each request by each route; means stand for those not in the log.

    Args:
        unknown: Stands for routes whose time the log never has.
    """
    means = mean_times(log)
    usual = np.array([means.get(route, unknown) for route in ROUTES])
    return np.where(np.isnan(log.times_ms), usual, log.times_ms)


def _codes(policy: Policy) -> Codes:
    """Codes of a policy's routes, from low to high scores."""
    return np.array([ROUTES.index(route) for route in routes(policy.simple)], np.int8)


def notes(log: DecisionLog, source: str) -> dict[str, Any]:
    """Notes for a file of proposed thresholds, without any question.

    Args:
        source: What the thresholds were chosen on.
    """
    return {
        "from": source,
        "log": {
            "collection": log.collection,
            "router": log.router.name,
            "requests": len(log),
            "questions with marked passages": len(log.marked),
            "period": list(log.period),
        },
        "instead_of": asdict(log.router.policy.thresholds),
    }


def show_replay(console: Console, log: DecisionLog, policies: Mapping[str, Policy]) -> None:
    """Print what was read, and the effect of policies, by name, beside the one in use."""
    times = mean_times(log)
    compared = {"as served": None, "now": log.router.policy, **policies}
    effects = [effect(log, policy) for policy in compared.values()]
    routes = [route for route in ROUTES if any(route in effect.shares for effect in effects)]
    rows = []
    for name in ("low", "high"):
        pairs = (policy and getattr(policy.thresholds, name) for policy in compared.values())
        rows.append([name, *("" if value is None else f"{value:.3f}" for value in pairs)])
    for route in routes:
        shares = (f"{effect.shares.get(route, 0):.1%}" for effect in effects)
        rows.append([f"share of {route}", *shares])
    ms = (effect.mean_ms for effect in effects)
    rows.append(["mean ms", *("unknown" if math.isnan(mean) else f"{mean:.1f}" for mean in ms)])
    moved = (changes(log, policy) for policy in compared.values())
    rows.append(["another route than now", *(f"{count:,}" for count in moved)])
    tenths = np.quantile(log.scores, np.arange(1, 10) / 10)
    texts = [
        escape(
            f"{len(log):,} decisions by {log.router.name} for collection '{log.collection}', "
            f"from {log.period[0]} to {log.period[1]}; {len(log.marked):,} different questions "
            "with passages marked as answers."
        ),
        "\n".join(f"- left out: {n:,} {escape(why)}" for why, n in log.exclusions.items()),
        f"Tenths of the scores end at {', '.join(f'{score:.2f}' for score in tenths)}.",
        table(("", *map(escape, compared)), rows),
        "ms: the work on a request, its share of its batch. Where a request does not tell how long "
        "another route would have taken, it is assumed to take as long as others by that route: "
        f"{', '.join(f'{route} {one:.1f} ms' for route, one in times.items())}.",
    ]
    show("\n\n".join(texts), console)
