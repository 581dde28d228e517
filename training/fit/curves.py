"""Fits sums of monotone curves to outcomes, for the probabilities of `wye.router.relevance`."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from wye.backends.types import Float64
from wye.router.relevance import Curve, CurveSum
from wye.training.errors import FitError

PIECES = 4
"""Pieces of a curve, each with about as many examples."""
RIDGE = 1e-3
"""Penalty on the rise of each piece, so that rare evidence gets no extreme weight."""
TAILS = 0.002
"""Share of the examples beyond each end of a curve, where it is flat."""


def fit_curves(
    evidence: Float64, outcomes: Float64, weights: Float64, names: Sequence[str]
) -> CurveSum:
    """Fit by maximum likelihood: a logistic regression on pieces with slopes of at least 0.

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
    knots = np.unique(np.round(np.quantile(values, quantiles), 4))
    return knots if len(knots) > 1 else np.array([knots[0], knots[0] + 1])


def _pieces(column: Float64, knots: Float64) -> Float64:
    """(n, pieces) how much of each piece lies below the evidence, 0 to 1; the mean if missing."""
    low, high = knots[:-1], knots[1:]
    shares = (np.clip(column[:, None], low, high) - low) / (high - low)
    unknown = np.isnan(column)
    shares[unknown] = shares[~unknown].mean(axis=0) if (~unknown).any() else 0.0
    return np.asarray(shares, np.float64)
