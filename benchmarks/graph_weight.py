"""Fitting how much the graph's list weighs: a logistic model with few and monotone weights."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from backends.types import Float64
from router.fusion import GraphWeightModel
from router.scorer import sigmoid
from training.errors import FitError

SHRINKAGE = 1e-3
"""Weight of the squared weights, of signals scaled to unit deviation, beside the mean loss."""


@dataclass(frozen=True, slots=True)
class Gains:
    """What the graph is worth on questions that it and the text arms answer differently.

    Attributes:
        signals: (n, m) float64 in the order of `GRAPH_WEIGHT_SIGNALS`.
        gains: (n,) measure of the graph's answer minus that of the text arms'; 0 says nothing.
    """

    signals: Float64
    gains: Float64


def fit_graph_weight(found: Gains, *, shrinkage: float = SHRINKAGE) -> GraphWeightModel:
    """The weights under which t is likeliest to say which of the two is better.

    Each question counts by how much is at stake, |gain|. The questions that speak for the graph
    and those that speak against it count the same in sum, whatever their number: which arm wins
    how often is a fact about the training questions, and the next corpus has others. No weight is
    below 0, so that no signal is read against its meaning where the data are few.

    Args:
        found: Questions.
        shrinkage: L2 penalty, above 0.

    Raises:
        FitError: The gains are all of one sign, so that there is nothing to tell apart.
    """
    told = found.gains != 0
    for_graph = found.gains[told] > 0
    if for_graph.all() or not for_graph.any():
        raise FitError(
            "On every question the same arm is the better one, or there is no difference; "
            "the graph weight needs questions of both kinds. Add a dataset on which the other "
            "arm wins."
        )
    columns = found.signals[told]
    scale = np.maximum(columns.std(axis=0), 1e-9)
    weights = _balanced(np.abs(found.gains[told]), for_graph)
    fitted = _fit(columns / scale, for_graph, weights, shrinkage)
    return GraphWeightModel(*map(float, [fitted[0], *(fitted[1:] / scale)]))


def _balanced(stakes: Float64, for_graph: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Float64:
    """Weights that add up to one half on either side."""
    weights: Float64 = np.where(
        for_graph, stakes / stakes[for_graph].sum(), stakes / stakes[~for_graph].sum()
    )
    return weights / 2


def _fit(
    columns: Float64,
    for_graph: np.ndarray[tuple[int], np.dtype[np.bool_]],
    weights: Float64,
    shrinkage: float,
) -> Float64:
    """Bias and non-negative weights that minimise the weighted log loss plus L2."""
    sign = np.where(for_graph, 1.0, -1.0)

    def loss(parameters: Float64) -> tuple[float, Float64]:
        margin = sign * (parameters[0] + columns @ parameters[1:])
        slope = -sign * sigmoid(-margin) * weights
        value = weights @ np.logaddexp(0, -margin) + shrinkage * parameters[1:] @ parameters[1:]
        gradient = columns.T @ slope + 2 * shrinkage * parameters[1:]
        return float(value), np.concatenate([[slope.sum()], gradient])

    bounds = [(None, None), *[(0.0, None)] * columns.shape[1]]
    start = np.zeros(columns.shape[1] + 1)
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    result: Float64 = np.asarray(found.x, np.float64)
    return result
