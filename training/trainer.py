"""Trains a router: selects features, fits members, averages and calibrates them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from backends.progress import Progress, Silent
from router.linear import Linear
from router.network import AttentionMlp
from router.scorer import Member, Scorer, Standard
from training.calibration import Reliability, calibrate, reliability
from training.errors import FitError
from training.examples import Examples, Float64, balanced_weights
from training.linear_fit import Path, fit_linear
from training.network_fit import Curve, Part, fit_network
from training.recipe import Recipe
from training.selection import Selection, select


@dataclass(frozen=True, slots=True)
class Trained:
    """A router and how it came about.

    Attributes:
        scorer: Calibrated; the very object that serves.
        recipe: Hyper-parameters.
        selection: The features.
        fits: How training went: a curve for each network, or a path over strengths.
        dev_auc: Area under the ROC curve on dev.
        dev: Calibration on dev, on which it was fitted too.
    """

    scorer: Scorer
    recipe: Recipe
    selection: Selection
    fits: tuple[Curve | Path, ...]
    dev_auc: float
    dev: Reliability


def train(
    examples: Examples,
    dev: Examples,
    names: Sequence[str],
    recipe: Recipe | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a router on one split and make every choice on another.

    Features, means and deviations come from `examples`; epoch, strength and calibration from `dev`.

    Args:
        examples: Of the training split.
        dev: Of the dev split.
        names: Of the feature columns.
        recipe: Hyper-parameters; None for the default ones.
        progress: Told of epochs, or of strengths.

    Raises:
        FitError: A split in which one arm always wins, or features that do not fit.
    """
    recipe = recipe or Recipe()
    progress = progress or Silent()
    for split, part in (("training", examples), ("dev", dev)):
        if part.one_sided:
            raise FitError(
                f"On all {len(part)} disagreements of the {split} split the same arm wins; add "
                "questions that the other one answers better, or another success metric."
            )
    if dev.features.shape[1] != examples.features.shape[1]:
        raise FitError("Training and dev questions have different numbers of features.")
    selection = select(examples, names, k=recipe.features)
    standard = _standard(examples.features[:, selection.columns], recipe.clip)
    weights = _weights(examples, recipe)
    parts = [
        Part(standard(part.features[:, selection.columns]), part.labels, of_part)
        for part, of_part in ((examples, weights), (dev, np.ones(len(dev))))
    ]
    members, fits = _fit(parts[0], parts[1], recipe, progress)
    scorer = Scorer(selection.names, selection.columns, len(names), standard, members)
    raw = scorer.logits(dev.features)
    found = calibrate(raw, dev.labels, bias=True)
    scorer = scorer.with_calibration(found.temperature, found.bias)
    logits = scorer.logits(dev.features)
    return Trained(
        scorer=scorer,
        recipe=recipe,
        selection=selection,
        fits=fits,
        dev_auc=float(roc_auc_score(dev.labels, logits)),
        dev=reliability(logits, dev.labels),
    )


def _standard(features: Float64, clip: float) -> Standard:
    return Standard(features.mean(axis=0), features.std(axis=0), clip)


def _weights(examples: Examples, recipe: Recipe) -> Float64:
    if recipe.balance == "none":
        return np.ones(len(examples))
    groups = examples.groups if recipe.balance == "group" else None
    return balanced_weights(examples.labels, groups)


def _fit(
    examples: Part, dev: Part, recipe: Recipe, progress: Progress
) -> tuple[tuple[Member, ...], tuple[Curve | Path, ...]]:
    if recipe.linear:
        progress.start(len(recipe.strengths), "fitting")
        tensors, path = fit_linear(examples, dev, recipe, progress.advance)
        progress.close()
        return (Linear(tensors),), (path,)
    progress.start(len(recipe.seeds) * recipe.epochs, "training")
    members: list[Member] = []
    curves: list[Curve | Path] = []
    for seed in recipe.seeds:
        weights, curve = fit_network(examples, dev, recipe, seed, progress.advance)
        members.append(AttentionMlp(weights))
        curves.append(curve)
    progress.close()
    return tuple(members), tuple(curves)
