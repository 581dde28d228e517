"""Which features a router looks at: those that say most about the label, by mutual information."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import roc_auc_score

from backends.progress import Progress, Silent
from backends.types import Float64, Int64
from router.scorer import AttentionMlp, Linear, Member, Scorer, Standard
from training.data.examples import Examples, balanced_weights
from training.errors import FitError
from training.fit.calibration import Reliability, calibrate, reliability
from training.fit.linear import Path, fit_linear
from training.fit.network import Curve, Part, fit_network
from training.fit.recipe import Recipe

LEVELS = 20
"""A feature of whole numbers with at most so many values is counted, not estimated by distance."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The features that are kept.

    Attributes:
        columns: (d,) of the feature matrix, rising.
        names: Of these columns.
        information: (d,) mutual information with the label, in nats.
        constants: Names of features left out because training has one value of them.
        duplicates: Feature left out -> feature kept that says the same.
    """

    columns: Int64
    names: tuple[str, ...]
    information: Float64
    constants: tuple[str, ...]
    duplicates: dict[str, str]


def select(examples: Examples, names: Sequence[str], *, k: int = 85, seed: int = 0) -> Selection:
    """Keep the k features with the highest mutual information with the label.

    Constant features and repetitions of another one (the same z-scores, or their opposite) are
    left out first. Equal information keeps the feature that comes first.

    Source: EA-GraphRAG, section 3.2.5; the estimate is that of Ross (PLoS ONE 2014) with 3
    neighbours for continuous features.

    Args:
        examples: Of the training split, and of no other.
        names: Of the columns.
        k: Most features to keep, at least 1.
        seed: Of the noise that the estimate adds to continuous features.

    Raises:
        FitError: Names that do not fit, labels all the same, or no feature that varies.
    """
    if len(names) != examples.features.shape[1] or k < 1:
        raise FitError(
            f"{len(names)} names for {examples.features.shape[1]} features, k = {k}; "
            "give one name a column and keep at least 1."
        )
    if examples.one_sided:
        raise FitError("All labels are the same, so that no feature can tell them apart.")
    scale = examples.features.std(axis=0)
    # A column of one value can have a deviation of some 1e-17 by rounding.
    varies = np.ptp(examples.features, axis=0) > 0
    constants = tuple(name for name, moves in zip(names, varies, strict=True) if not moves)
    first: dict[bytes, int] = {}
    duplicates: dict[str, str] = {}
    for column in np.flatnonzero(varies).tolist():
        original = first.setdefault(_print(examples.features[:, column], scale[column]), column)
        if original != column:
            duplicates[names[column]] = names[original]
    if not first:
        raise FitError("No feature varies over the training questions; nothing can be learned.")
    columns = np.array(list(first.values()), np.int64)
    kept = examples.features[:, columns]
    information = mutual_info_classif(
        kept, examples.labels, discrete_features=_countable(kept), random_state=seed
    )
    best = np.sort(np.argsort(-information, kind="stable")[:k])
    return Selection(
        columns=columns[best],
        names=tuple(names[column] for column in columns[best]),
        information=information[best],
        constants=constants,
        duplicates=duplicates,
    )


def _print(values: Float64, scale: float) -> bytes:
    """The same for columns with the same z-scores, up to sign and the ninth digit."""
    z = (values - values.mean()) / scale
    z *= np.sign(z[np.argmax(np.abs(z) > 1e-6)])
    rounded: Float64 = np.round(z, 9)
    rounded += 0.0  # -0.0 has other bytes
    return rounded.tobytes()


def _countable(features: Float64) -> NDArray[np.bool_]:
    """Which columns are of whole numbers with few values."""
    whole = (features == np.round(features)).all(axis=0)
    few = [len(np.unique(column)) <= LEVELS for column in features.T]
    result: NDArray[np.bool_] = np.logical_and(whole, few)
    return result


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
