"""Logistic regression with an elastic net, its strength chosen on dev."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from router.scorer import Floats
from training.errors import FitError
from training.fit.calibration import nll
from training.fit.network import Part
from training.fit.recipe import Recipe

_ROUNDS = 5_000


@dataclass(frozen=True, slots=True)
class Path:
    """What each strength of the penalty gives.

    Attributes:
        strengths: As in the recipe.
        dev_nll: Of each, before calibration.
        dev_auc: Of each.
        used: Features with a weight that is not 0, for each.
        best: Which was kept.
    """

    strengths: tuple[float, ...]
    dev_nll: tuple[float, ...]
    dev_auc: tuple[float, ...]
    used: tuple[int, ...]
    best: int


def fit_linear(
    train: Part, dev: Part, recipe: Recipe, advance: Callable[[int], None]
) -> tuple[dict[str, Floats], Path]:
    """Fit one regression for each strength and keep the best on dev by the recipe's criterion.

    Args:
        train: To learn from.
        dev: To choose the strength on; both labels must be there.
        recipe: Hyper-parameters.
        advance: Told of each strength done.

    Returns:
        "head.weight" and "head.bias", and the path.

    Raises:
        FitError: The solver does not converge.
    """
    fitted = []
    found: list[tuple[float, float, int]] = []
    for strength in recipe.strengths:
        model = _fit(train, recipe, strength)
        logits = model.decision_function(dev.inputs)
        auc = float(roc_auc_score(dev.labels, logits))
        found.append((nll(logits, dev.labels), auc, int((model.coef_ != 0).sum())))
        fitted.append(model)
        advance(1)
    losses, areas, used = zip(*found, strict=True)
    best = int(np.argmin(losses) if recipe.criterion == "nll" else np.argmax(areas))
    tensors = {"head.weight": fitted[best].coef_, "head.bias": fitted[best].intercept_}
    return tensors, Path(recipe.strengths, losses, areas, used, best)


def _fit(train: Part, recipe: Recipe, strength: float) -> LogisticRegression:
    model = LogisticRegression(
        C=1 / strength,
        l1_ratio=recipe.l1_ratio,
        solver="saga",
        max_iter=_ROUNDS,
        random_state=recipe.seeds[0],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return model.fit(train.inputs, train.labels, sample_weight=train.weights)
        except ConvergenceWarning:
            raise FitError(
                f"Logistic regression of strength {strength:g} does not converge in {_ROUNDS} "
                "rounds; take higher strengths."
            ) from None
