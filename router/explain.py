"""Why a score is what it is, and what would change the route."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from backends.types import Float64
from router.policy import decide
from router.scorer import Floats, Scorer
from router.types import BASELINE, Change, Contribution, Route, Thresholds

POINTS = 8
"""Of the Gauss-Legendre rule; exact for polynomials of degree 15 along the path."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(POINTS)
_PATH = ((_NODES + 1) / 2).astype(np.float32)[:, None]
_SHARES = (_WEIGHTS / 2).astype(np.float32)


class Scored(Protocol):
    """What can be explained: a function of z-scores with a gradient."""

    def raw(self, inputs: Float64) -> Float64:
        """(n, d) z-scores to (n,) uncalibrated logits."""
        ...

    def calibrated(self, raw: Float64) -> Float64:
        """Uncalibrated logits to calibrated ones."""
        ...

    def gradients(self, inputs: Floats) -> Floats:
        """Gradients of the calibrated logit at (p, d) points."""
        ...


@dataclass(frozen=True, slots=True)
class Attribution:
    """A logit in parts: baseline + Σ values = logit.

    Attributes:
        baseline: Calibrated logit of a question with every feature at its training mean.
        values: (d,) what each feature adds.
        residual: How far the integral missed the logit before it was shared out among `values`.
    """

    baseline: float
    values: Float64
    residual: float


class Explainer:
    """Attributes the logits of one scorer to its features."""

    def __init__(self, scorer: Scored, width: int) -> None:
        """Score the baseline once.

        Args:
            width: How many features it takes, d.
        """
        self._scorer = scorer
        self._baseline = float(scorer.calibrated(scorer.raw(np.zeros((1, width))))[0])

    @classmethod
    def of(cls, scorer: Scorer) -> "Explainer":
        """For a scorer."""
        return cls(scorer, len(scorer.names))

    def attribute(self, inputs: Float64, logit: float) -> Attribution:
        """Integrated gradients from the training mean to a question.

        value_i = x_i · ∫ ∂logit/∂x_i(tx) dt over t from 0 to 1, with x the z-scores, so that the
        mean is the origin. The integral is a Gauss-Legendre sum in single precision. What it misses
        of logit - baseline is returned as `residual` and shared out in proportion to |value_i|, so
        that a feature that says nothing is still given nothing.

        Source: Sundararajan, Taly and Yan (ICML 2017), equation 1; completeness is their
        proposition 1.

        Args:
            inputs: (d,) z-scores.
            logit: Calibrated, as the scorer gives it for these inputs.
        """
        points = _PATH * inputs.astype(np.float32)
        slopes = _SHARES @ self._scorer.gradients(points)
        values: Float64 = inputs * slopes
        residual = logit - self._baseline - math.fsum(values)
        sizes = np.abs(values)
        total = float(sizes.sum())
        if total > 0:
            values += residual * (sizes / total)
            return Attribution(self._baseline, values, residual)
        # No feature moves the logit, so what is left is rounding.
        return Attribution(self._baseline + residual, values, residual)


def contributions(
    attribution: Attribution, names: tuple[str, ...], features: Float64
) -> tuple[Contribution, ...]:
    """An attribution in words.

    Args:
        features: (d,) their values, as extracted.

    Returns:
        The baseline, then every feature by falling |logit|, equal ones by name.
    """
    parts = [
        Contribution(name, logit, value)
        for name, logit, value in zip(
            names, attribution.values.tolist(), features.tolist(), strict=True
        )
    ]
    parts.sort(key=lambda part: (-abs(part.logit), part.name))
    return Contribution(BASELINE, attribution.baseline), *parts


def nearest_change(
    score: float, thresholds: Thresholds, simple: Route = Route.DENSE
) -> Change | None:
    """The smallest move of the score that changes the route which the score asks for.

    Scores of 0 and 1 are out of reach, as no logit gives them.

    Returns:
        The nearer of the borders below and above, the one above if they are equally near; None
        when every score takes the same route.
    """
    here = decide(score, thresholds, simple=simple).route
    found: list[Change] = []
    for threshold in (thresholds.high, thresholds.low):
        for reached in _past(threshold, score):
            route = decide(min(1.0, max(0.0, reached)), thresholds, simple=simple).route
            if 0 < reached < 1 and route != here:
                logits = _logit(threshold) - _logit(score)
                found.append(Change(route, threshold, threshold - score, logits))
                break
    return min(found, key=lambda change: (abs(change.score), -change.score), default=None)


def _past(threshold: float, score: float) -> list[float]:
    """Where a move to a threshold ends: on it, or right behind it where it belongs to this side."""
    above, below = math.nextafter(threshold, math.inf), math.nextafter(threshold, -math.inf)
    if threshold == score:
        return [above, below]
    return [threshold, above if threshold > score else below]


def _logit(score: float) -> float:
    if score <= 0:
        return -math.inf
    return math.log(score) - math.log1p(-score) if score < 1 else math.inf
