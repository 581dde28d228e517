"""Turns a score into a route by two thresholds, or by what the caller asks for. Pure functions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from wye.backends.types import Float64, Int64
from wye.router.errors import PolicyError, QuestionError
from wye.router.types import Route, Thresholds

SCORE = "score"
FORCED = "forced"
"""The reason for a route that the caller named."""
SURE = 0.05
"""Up to this score a question is surely simple, unless its words nest descriptions. The simple
route is then taken without looking for a plan."""
PLAN = "plan: it can be taken apart"
UNFAMILIAR = "unfamiliar: unlike the questions that the router learned from"


@dataclass(frozen=True, slots=True)
class LatencyBudget:
    """How long an answer may take.

    Attributes:
        estimates: Estimated time of each route in ms.
    """

    max_latency_ms: float
    estimates: Mapping[Route, float]

    def __post_init__(self) -> None:
        if not self.max_latency_ms > 0:
            raise PolicyError(
                f"max_latency_ms is {self.max_latency_ms}; give a number of milliseconds above 0."
            )


@dataclass(frozen=True, slots=True)
class Policy:
    """How scores become routes; `wye tune` writes it, a person reviews it.

    Attributes:
        latency_ms: Median time of each route in the replay, in ms. If a route is missing, budgets
            are refused.
        router: Name and version of the router whose scores it is for, "name/v1"; "" if not known.
        points: Operating points: further thresholds by name, for better or for faster answers.
    """

    thresholds: Thresholds
    simple: Route = Route.DENSE
    latency_ms: Mapping[Route, float] = field(default_factory=dict)
    router: str = ""
    points: Mapping[str, Thresholds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        routes(self.simple)

    def at(self, point: str) -> Thresholds:
        """The thresholds of an operating point.

        Raises:
            QuestionError: There is no such point.
        """
        if point not in self.points:
            known = ", ".join(self.points) or "none; `wye train` solves some"
            raise QuestionError(f"There is no operating point '{point}'; this router has {known}.")
        return self.points[point]


@dataclass(frozen=True, slots=True)
class Choice:
    """A route and the reason for it.

    Attributes:
        reason: "score", "plan: …", "unfamiliar: …" or "budget: …" in words.
    """

    route: Route
    reason: str


def decide(
    score: float,
    thresholds: Thresholds,
    *,
    simple: Route = Route.DENSE,
    budget: LatencyBudget | None = None,
) -> Choice:
    """Decide which route a question takes.

    The order is simple route, fusion, graph. The choice never moves down when the score rises, and
    never up when a threshold rises.

    A budget moves the choice to the nearest route in that order which fits. If fusion does not fit
    and both of its neighbours do, scores from the middle of the band upwards go to graph. If
    nothing fits, the fastest route is taken.

    Raises:
        PolicyError: The score is not from 0 to 1, or the budget lacks an estimate.
    """
    if not 0 <= score <= 1:
        raise PolicyError(f"The score is {score}; a score is a number from 0 to 1.")
    order = routes(simple)
    band = int(bands(np.array([score]), thresholds)[0])
    if budget is None:
        return Choice(order[band], SCORE)
    upwards = score >= (thresholds.low + thresholds.high) / 2
    return _within(budget, order, band, upwards=upwards)


def may_take_steps(
    choice: Choice,
    score: float,
    share_at_hand: float,
    thresholds: Thresholds,
    budget: LatencyBudget | None = None,
    *,
    nested: bool = False,
) -> bool:
    """Whether a question goes in steps instead of by its chosen route, if it has a plan.

    If the first passages are about all that the question needs, there is little left to resolve. A
    plan needs a parse, which would cost more than a surely simple question is worth.

    Args:
        choice: The choice by the score, or fusion for an unfamiliar question.
        share_at_hand: See `evidence.share_at_hand`; NaN if not known.
        budget: Steps do not fit a budget that lacks their estimate.
        nested: Whether its words nest descriptions (`featurizer.plan.is_nested`). Few questions to
            learn from do so without a name, so a low score says little about them.
    """
    if choice.reason not in {SCORE, UNFAMILIAR}:
        return False
    if choice.route not in {Route.FUSION, Route.GRAPH} and score <= SURE and not nested:
        return False
    fits = budget is None or budget.estimates.get(Route.STEPS, math.inf) <= budget.max_latency_ms
    return fits and (thresholds.steps == 1 or share_at_hand < thresholds.steps)


def with_plan(reason: str) -> str:
    """The reason for going in steps, given the reason for the route that they replace."""
    return f"{reason}; {PLAN}" if reason == UNFAMILIAR else PLAN


def bands(scores: Float64, thresholds: Thresholds) -> Int64:
    """Index (n,) of each score's route among the `routes`: 0 simple, 1 fusion, 2 graph.

    Source: EA-GraphRAG, equation 2 and algorithm 1. A score at τ_H goes to graph, one at τ_L to the
    simple route. If both are equal, fusion gets nothing, and a score that equals them goes to
    graph, since the algorithm looks at τ_H first.
    """
    indices = np.ones(len(scores), np.int64)
    indices[scores <= thresholds.low] = 0
    indices[scores >= thresholds.high] = 2
    return indices


def routes(simple: Route) -> tuple[Route, Route, Route]:
    """The three routes, from low to high scores.

    Raises:
        PolicyError: The simple route is graph or fusion.
    """
    if simple in {Route.GRAPH, Route.FUSION}:
        raise PolicyError(f"The simple route is '{simple}'; use one that does not run the graph.")
    return simple, Route.FUSION, Route.GRAPH


def _within(
    budget: LatencyBudget, order: tuple[Route, Route, Route], band: int, *, upwards: bool
) -> Choice:
    missing = [route for route in order if route not in budget.estimates]
    if missing:
        raise PolicyError(
            f"The latency is unknown for {', '.join(missing)}; leave max_latency_ms out, or use a "
            "router whose thresholds file has it."
        )
    times = [budget.estimates[route] for route in order]
    limit = budget.max_latency_ms
    wanted = f"{order[band]} takes about {times[band]:g} ms"
    if times[band] <= limit:
        return Choice(order[band], SCORE)
    fits = [other for other in range(3) if times[other] <= limit]
    if not fits:
        fastest = min(range(3), key=lambda other: (times[other], other))
        return Choice(order[fastest], f"budget: no route fits {limit:g} ms, this is the fastest")
    nearest = min(fits, key=lambda other: (abs(other - band), -other if upwards else other))
    return Choice(order[nearest], f"budget: {wanted}, {limit:g} ms are allowed")
