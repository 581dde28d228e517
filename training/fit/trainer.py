"""Training a router: features that say most about the label, a scorer, and its calibration."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from backends.progress import Progress, Silent
from backends.types import Float64, Int64
from router.scorer import AttentionMlp, Floats, Linear, Member, Scorer, Standard
from training.data.examples import Examples, balanced_weights
from training.errors import FitError
from training.fit.calibration import Reliability, calibrate, reliability
from training.fit.network import SplitData, dev_loss, fit_network
from training.fit.recipe import RouterRecipe

_ROUNDS = 5_000
LEVELS = 20
"""A feature of whole numbers with at most so many values is counted, not estimated by distance."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The features that are kept.

    Attributes:
        columns: (d,) of the feature matrix, rising.
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
        dev_auc: Area under the ROC curve on dev.
        dev: Calibration on dev, on which it was fitted too.
    """

    scorer: Scorer
    recipe: RouterRecipe
    selection: Selection
    dev_auc: float
    dev: Reliability


def train(
    examples: Examples,
    dev: Examples,
    names: Sequence[str],
    recipe: RouterRecipe | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a router on one split and make every choice on another.

    Features, means and deviations come from `examples`; epoch, strength and calibration from `dev`.

    Args:
        recipe: Hyper-parameters; None for the default ones.
        progress: Told of epochs, or of strengths.

    Raises:
        FitError: A split in which one arm always wins, or features that do not fit.
    """
    recipe = recipe or RouterRecipe()
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
        SplitData(standard(part.features[:, selection.columns]), part.labels, of_part)
        for part, of_part in ((examples, weights), (dev, np.ones(len(dev))))
    ]
    members = _fit(parts[0], parts[1], recipe, progress)
    scorer = Scorer(selection.names, selection.columns, len(names), standard, members)
    raw = scorer.logits(dev.features)
    found = calibrate(raw, dev.labels, bias=True)
    scorer = scorer.with_calibration(found.temperature, found.bias)
    logits = scorer.logits(dev.features)
    return Trained(
        scorer=scorer,
        recipe=recipe,
        selection=selection,
        dev_auc=float(roc_auc_score(dev.labels, logits)),
        dev=reliability(logits, dev.labels),
    )


def _standard(features: Float64, clip: float) -> Standard:
    return Standard(features.mean(axis=0), features.std(axis=0), clip)


def _weights(examples: Examples, recipe: RouterRecipe) -> Float64:
    if recipe.balance == "none":
        return np.ones(len(examples))
    groups = examples.groups if recipe.balance == "group" else None
    return balanced_weights(examples.labels, groups)


def _fit(
    examples: SplitData, dev: SplitData, recipe: RouterRecipe, progress: Progress
) -> tuple[Member, ...]:
    if recipe.linear:
        progress.start(len(recipe.strengths), "fitting")
        members: list[Member] = [Linear(_fit_linear(examples, dev, recipe, progress.advance))]
    else:
        progress.start(len(recipe.seeds) * recipe.epochs, "training")
        members = [
            AttentionMlp(fit_network(examples, dev, recipe, seed, progress.advance))
            for seed in recipe.seeds
        ]
    progress.close()
    return tuple(members)


def _fit_linear(
    train: SplitData, dev: SplitData, recipe: RouterRecipe, advance: Callable[[int], None]
) -> dict[str, Floats]:
    """Logistic regression with an elastic net, of the strength that is best on dev.

    Raises:
        FitError: The solver does not converge.
    """
    fitted, losses = [], []
    for strength in recipe.strengths:
        fitted.append(_regression(train, recipe, strength))
        losses.append(dev_loss(fitted[-1].decision_function(dev.inputs), dev.labels, recipe))
        advance(1)
    best = fitted[int(np.argmin(losses))]
    return {"head.weight": best.coef_, "head.bias": best.intercept_}


def _regression(train: SplitData, recipe: RouterRecipe, strength: float) -> LogisticRegression:
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
