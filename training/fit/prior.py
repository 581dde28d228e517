"""Adapts a trained scorer to a user's own questions, by a regularised correction of its logit.

Some fifty judged questions are too few to train a scorer. One that was trained on thousands needs
only a correction,

    logit = logit of the prior + w · x + c,

with x its z-scores and a penalty on (w, c). Cross-validation chooses the penalty. If no correction
is surely better than none, the scorer stays as it is.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from wye.backends.types import Float64, Int64, Mask
from wye.router.scorer import Linear, Scorer
from wye.training.errors import FitError
from wye.training.fit.calibration import losses
from wye.training.fit.trainer import FOLDS, Pool, divide

STRENGTHS = (1000.0, 300.0, 100.0, 30.0)
"""Penalties on the correction, from the strongest; no correction counts as stronger still."""
LEAST = 30
"""With fewer labelled questions, no correction is made."""


def correct(prior: Scorer, pool: Pool, rows: Mask, *, seed: int = 0) -> Scorer:
    """The prior with a correction, or the prior itself if no correction is surely better.

    The strongest penalty within one standard error of the best is taken; no correction counts as
    the strongest.

    Args:
        rows: (n,) which questions of the pool to learn from; those without a label are skipped.
    """
    labelled = rows & (pool.labels >= 0)
    if labelled.sum() < LEAST or len(np.unique(pool.labels[labelled])) < 2:
        return prior
    inputs, logits = prior.inputs(pool.features[labelled]), prior.logits(pool.features[labelled])
    labels = pool.labels[labelled]
    fold = divide(pool, FOLDS, seed)[labelled]
    losses_by_strength = [losses(logits, labels)]
    for strength in STRENGTHS:
        held_out = np.empty(len(labels))
        for number in range(FOLDS):
            learn, test = fold != number, fold == number
            weights = _fit(inputs[learn], logits[learn], labels[learn], strength)
            held_out[test] = logits[test] + _added(inputs[test], weights)
        losses_by_strength.append(losses(held_out, labels))
    best = losses_by_strength[int(np.argmin([loss.mean() for loss in losses_by_strength]))]
    strengths = (math.inf, *STRENGTHS)
    strength = next(
        candidate
        for candidate, loss in zip(strengths, losses_by_strength, strict=True)
        if (loss - best).mean() <= (loss - best).std(ddof=1) / math.sqrt(len(best))
    )
    if strength == math.inf:
        return prior
    return _with(prior, _fit(inputs, logits, labels, strength))


def crossfit_correction(prior: Scorer, pool: Pool, *, seed: int = 0) -> Float64:
    """(n,) each question's logit, by a correction that was not fitted on it."""
    fold = divide(pool, FOLDS, seed)
    logits = np.empty(len(pool.labels))
    for number in range(FOLDS):
        rows = fold == number
        logits[rows] = correct(prior, pool, ~rows, seed=seed).logits(pool.features[rows])
    return logits


def _fit(inputs: Float64, offsets: Float64, labels: Int64, strength: float) -> Float64:
    """(d + 1,) w and c, by regularised logistic regression with fixed offsets."""

    def loss(weights: Float64) -> tuple[float, Float64]:
        logits = offsets + _added(inputs, weights)
        error = expit(logits) - labels
        value = np.logaddexp(0, logits).sum() - (labels * logits).sum()
        slope = np.append(error @ inputs, error.sum()) + strength * weights
        return float(value + strength / 2 * weights @ weights), slope

    result = minimize(loss, np.zeros(inputs.shape[1] + 1), jac=True, method="L-BFGS-B")
    if not result.success:
        raise FitError(f"The correction of the router's logit did not converge: {result.message}.")
    weights: Float64 = result.x
    return weights


def _added(inputs: Float64, weights: Float64) -> Float64:
    result: Float64 = inputs @ weights[:-1] + weights[-1]
    return result


def _with(prior: Scorer, weights: Float64) -> Scorer:
    """Add the correction as a linear member.

    The scorer divides the mean over its members by the temperature, so the weights are scaled by
    both.
    """
    count = len(prior.members)
    scale = prior.temperature * count
    line = Linear({"head.weight": scale * weights[None, :-1], "head.bias": np.zeros(1)})
    return replace(
        prior,
        members=(*prior.members, line),
        temperature=scale / (count + 1),
        bias=prior.bias + float(weights[-1]),
    )
