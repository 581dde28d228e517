"""Outcomes of thresholds on replayed questions: quality, latency and shares of routes."""

from dataclasses import dataclass, replace

import numpy as np

from wye.backends.numerics import logistic
from wye.backends.types import Float64, Int64
from wye.router.policy import bands, routes
from wye.router.types import Route, Thresholds
from wye.training.errors import FitError

SIMPLE, FUSION, GRAPH = 0, 1, 2
"""Codes of routes, in the order in which a rising score takes them; also columns of outcomes."""


_MOST_LOGIT = 30.0
"""Larger logits are clipped, since their scores would round to 0 or 1 in float64."""


def scores_of(logits: Float64) -> Float64:
    """Scores of logits, strictly between 0 and 1, as thresholds need them."""
    return logistic(np.clip(logits, -_MOST_LOGIT, _MOST_LOGIT))


@dataclass(frozen=True, slots=True)
class RouteOutcomes:
    """The outcome of every route for every question, so any thresholds can be evaluated exactly.

    Attributes:
        scores: (n,) the router's scores, above 0 and below 1.
        quality: (n, 3) quality of the simple, fusion and graph route's answer; any measure.
        latency_ms: (n, 3) their latency in milliseconds.
        strange: (n,) 0 if the router was trained on the question's dataset, else the dataset's
            number, from 1. None if all are 0.
    """

    scores: Float64
    quality: Float64
    latency_ms: Float64
    strange: Int64 | None = None

    def __post_init__(self) -> None:
        n = len(self.scores)
        if not n:
            raise FitError("The replay has no question; run the arms on some first.")
        if self.scores.shape != (n,) or {self.quality.shape, self.latency_ms.shape} != {(n, 3)}:
            raise FitError(
                f"Scores, quality and latency have shapes {self.scores.shape}, "
                f"{self.quality.shape} and {self.latency_ms.shape}; they have to be (n,), (n, 3) "
                "and (n, 3)."
            )
        if not ((self.scores > 0) & (self.scores < 1)).all():
            raise FitError("A score is not between 0 and 1; calibrate the router first.")
        if not (np.isfinite(self.quality).all() and np.isfinite(self.latency_ms).all()):
            raise FitError("Quality and latency must be finite; replay the questions that failed.")

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True, slots=True)
class ThresholdObjective:
    """What thresholds are solved for; a bound of None is no bound.

    Attributes:
        latency_weight: Quality given up for one millisecond less mean latency, λ; 0 or more.
        max_mean_ms: Highest mean latency.
        max_graph_share: Highest share of questions for which the graph arm runs, which includes
            fusion.
        steps_weight: Quality given up for one millisecond less that steps take beyond fusion; 0 or
            more. It is separate, since few questions go in steps.
        max_loss: Most mean quality that leaving fusion may lose on any dataset that the router was
            not trained on. It is dropped if no thresholds keep all bounds.
    """

    latency_weight: float = 0.0
    max_mean_ms: float | None = None
    max_graph_share: float | None = None
    steps_weight: float = 0.0
    max_loss: float | None = None

    def __post_init__(self) -> None:
        if not self.latency_weight >= 0:
            raise FitError(f"The weight of latency is {self.latency_weight}; give 0 or more.")
        if not self.steps_weight >= 0:
            raise FitError(f"The weight of steps' time is {self.steps_weight}; give 0 or more.")
        if self.max_graph_share is not None and not 0 <= self.max_graph_share <= 1:
            raise FitError(f"A graph share of {self.max_graph_share} is not from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of thresholds on a replay.

    Attributes:
        p95_ms: Smallest latency that at least 95 % of the questions do not exceed.
        shares: Shares of the simple, fusion and graph route; all 0 for another route.
    """

    quality: float
    mean_ms: float
    p95_ms: float
    shares: tuple[float, float, float]

    def objective(self, goal: ThresholdObjective) -> float:
        """Quality - λ · mean latency."""
        return self.quality - goal.latency_weight * self.mean_ms


def outcome(replay: RouteOutcomes, thresholds: Thresholds) -> Outcome:
    """The outcome of thresholds."""
    return of_routes(replay, bands(replay.scores, thresholds))


def of_routes(replay: RouteOutcomes, codes: Int64) -> Outcome:
    """The outcome of given routes, (n,) codes, such as a baseline's or an oracle's."""
    rows = np.arange(len(replay))
    latency = replay.latency_ms[rows, codes]
    simple, fused, graph = (np.bincount(codes, minlength=3) / len(replay)).tolist()
    outcome = of_other(replay.quality[rows, codes], latency)
    return replace(outcome, shares=(simple, fused, graph))


def of_each_route(replay: RouteOutcomes, simple: Route) -> dict[str, Outcome]:
    """Route -> outcome of always taking it: the simple one, fusion and the graph."""
    return {
        str(route): of_routes(replay, np.full(len(replay), code))
        for code, route in enumerate(routes(simple))
    }


def of_other(quality: Float64, latency_ms: Float64) -> Outcome:
    """The outcome of a route beside the three, from (n,) quality and latency."""
    return Outcome(
        quality=float(quality.mean()),
        mean_ms=float(latency_ms.mean()),
        p95_ms=float(np.quantile(latency_ms, 0.95, method="inverted_cdf")),
        shares=(0.0, 0.0, 0.0),
    )
