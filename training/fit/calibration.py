"""Fits temperatures of scores and monotone curves, and measures how well these are calibrated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from wye.backends.types import Float64, Int64
from wye.router.relevance import Curve, CurveSum
from wye.training.errors import FitError

Labels = Float64 | Int64

BINS = 15
PIECES = 4  # pieces of a curve, each with about as many examples
RIDGE = 1e-3  # penalty on the rise of each piece, so that rare evidence gets no extreme weight
TAILS = 0.002  # share of the examples beyond each end of a curve, where it is flat


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well scores match outcomes, over b bins of equal weight that are not empty."""

    score: Float64  # (b,) mean score of each bin, rising
    outcome: Float64  # (b,) mean label in each
    count: Int64 | Float64  # (b,) number of questions in each, or the sum of their weights
    ece: float  # expected calibration error: mean |outcome - score| over questions


def losses(logits: Float64, labels: Labels) -> Float64:
    """(n,) negative log likelihood of each label from 0 to 1, in nats."""
    result: Float64 = np.logaddexp(0, logits) - labels * logits
    return result


def calibrate(logits: Float64, labels: Labels) -> tuple[float, float]:
    """Fit temperature and bias of logit / temperature + bias by maximum likelihood.

    The problem is solved in 1 / temperature and bias, in which it is convex. The temperature stays
    between 0.05 and 20: for scores that separate the labels, or are independent of them, the
    likelihood has no maximum.

    Source: Guo et al. (ICML 2017), section 4.2; with the bias it is Platt scaling.

    Args:
        logits: (n,) logits of questions that were not learned from.
        labels: (n,) from 0 to 1.

    Raises:
        FitError: There is no question.
    """
    if not len(labels):
        raise FitError("There is no question to calibrate on; give some.")

    def loss(parameters: Float64) -> tuple[float, Float64]:
        moved = logits * parameters[0] + parameters[1]
        off = expit(moved) - labels
        return float(losses(moved, labels).mean()), np.array([(off * logits).mean(), off.mean()])

    solution = minimize(
        loss,
        np.array([1.0, 0.0]),
        jac=True,
        bounds=[(1 / 20, 20), (-10, 10)],
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    return 1 / float(solution.x[0]), float(solution.x[1])


def reliability(
    logits: Float64, labels: Labels, bins: int = BINS, weights: Float64 | None = None
) -> Reliability:
    """Measure calibrated logits (n,) against labels (n,).

    Source: Nguyen and O'Connor (EMNLP 2015) for bins of equal size.

    Args:
        logits: (n,) of at least one question.
        weights: (n,) weights above 0; by default 1.
    """
    masses = np.ones(len(logits)) if weights is None else weights
    # Equal scores share a bin; else the order of their labels would change the error.
    scores, level = np.unique(expit(logits), return_inverse=True)
    at_score = np.bincount(level, masses)
    before = np.cumsum(at_score) - at_score
    bin_of = np.minimum(before * bins / masses.sum(), bins - 1).astype(np.int64)[level]
    mass = np.bincount(bin_of, masses)
    used = mass > 0
    score = np.bincount(bin_of, masses * scores[level])[used] / mass[used]
    outcome = np.bincount(bin_of, masses * labels)[used] / mass[used]
    ece = float(np.average(np.abs(outcome - score), weights=mass[used]))
    return Reliability(score, outcome, mass[used], ece)


def fit_curves(
    evidence: Float64, outcomes: Float64, weights: Float64, names: Sequence[str]
) -> CurveSum:
    """Fit a sum of curves that never fall, for the probabilities of `wye.router.relevance`.

    By maximum likelihood: a logistic regression on pieces of each column with slopes of 0 or more.

    Args:
        evidence: (n, d) float64, NaN where it is missing.
        outcomes: (n,) 0 or 1.
        weights: (n,) weights of the examples, at least 0.
        names: (d,) names of the columns.

    Raises:
        FitError: All outcomes are the same.
    """
    if outcomes.min() == outcomes.max():
        raise FitError("All outcomes are the same, so there is nothing to fit.")
    knots = [_knots(column) for column in evidence.T]
    blocks = [_pieces(column, ends) for column, ends in zip(evidence.T, knots, strict=True)]
    pieces, shares = np.hstack(blocks), weights / weights.sum()

    def loss(free: Float64) -> tuple[float, Float64]:
        bias, rises = free[0], free[1:]
        logits = pieces @ rises + bias
        value = shares @ (np.logaddexp(0, logits) - outcomes * logits)
        slope = shares * (expit(logits) - outcomes)
        gradient = np.concatenate([[slope.sum()], pieces.T @ slope + RIDGE * rises])
        return float(value + RIDGE * rises @ rises / 2), gradient

    start = np.full(pieces.shape[1] + 1, 0.1)
    bounds = [(None, None)] + [(0, None)] * pieces.shape[1]
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    free = np.round(solution.x, 4)  # further digits are noise
    curves, offset = {}, 1
    for name, ends, block in zip(names, knots, blocks, strict=True):
        rises = free[offset : offset + block.shape[1]]
        offset += block.shape[1]
        values = np.round(np.concatenate([[0.0], np.cumsum(rises)]), 4)
        missing = np.round(np.average(block @ rises, weights=shares), 4)
        curves[name] = Curve(ends, values, float(missing))
    return CurveSum(float(free[0]), curves)


def _knots(column: Float64) -> Float64:
    """(pieces + 1,) the ends of the pieces, rising."""
    values = column[~np.isnan(column)]
    if not len(values):
        return np.array([0.0, 1.0])
    quantiles = np.linspace(TAILS, 1 - TAILS, PIECES + 1)
    # Each value counts once, since most hops are 0 and many titles 1.
    distinct = np.unique(np.round(values, 4))
    knots = np.unique(np.round(np.quantile(distinct, quantiles), 4))
    return knots if len(knots) > 1 else np.array([knots[0], knots[0] + 1])


def _pieces(column: Float64, knots: Float64) -> Float64:
    """(n, pieces) how much of each piece lies below the evidence, 0 to 1; the mean if missing."""
    low, high = knots[:-1], knots[1:]
    shares = (np.clip(column[:, None], low, high) - low) / (high - low)
    unknown = np.isnan(column)
    shares[unknown] = shares[~unknown].mean(axis=0) if (~unknown).any() else 0.0
    return np.asarray(shares, np.float64)
