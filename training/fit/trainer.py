"""Trains a router's scorer: selects features, fits the scorer, and calibrates it."""

import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from wye.backends.progress import Progress, Silent
from wye.backends.types import Float32, Float64, Int64
from wye.router.scorer import (
    AttentionMlp,
    Familiarity,
    Floats,
    Linear,
    Member,
    Scorer,
    Standard,
    Trees,
)
from wye.training.data.examples import Examples
from wye.training.errors import FitError
from wye.training.fit.calibration import Reliability, calibrate, nll, reliability
from wye.training.fit.network import SplitData, fit_network
from wye.training.fit.recipe import RouterRecipe

_ROUNDS = 5_000
LEVELS = 20
"""Integer features with at most so many values count as discrete in mutual information."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected features.

    Attributes:
        columns: (d,) columns of the feature matrix, rising.
        information: (d,) mutual information with the label, in nats.
        constants: Names of features left out because they are constant in training.
        duplicates: Feature left out -> the feature kept that equals it.
    """

    columns: Int64
    names: tuple[str, ...]
    information: Float64
    constants: tuple[str, ...]
    duplicates: dict[str, str]


def select(
    examples: Examples,
    names: Sequence[str],
    *,
    k: int = 85,
    among: Container[str] | None = None,
    seed: int = 0,
) -> Selection:
    """Keep the k features with the highest mutual information with the label.

    Constant features and duplicates of another one (equal z-scores, up to sign) are left out first.
    Of features with equal information the first is kept.

    Source: EA-GraphRAG, section 3.2.5; the estimate is that of Ross (PLoS ONE 2014) with 3
    neighbours for continuous features.

    Args:
        examples: Examples of the training split only.
        k: Most features to keep, at least 1.
        among: Names of features that may be kept; None for all.
        seed: Seed of the noise that the estimate adds to continuous features.

    Raises:
        FitError: The number of names is wrong, all labels are the same, or no feature varies.
    """
    if len(names) != examples.features.shape[1] or k < 1:
        raise FitError(
            f"{len(names)} names for {examples.features.shape[1]} features, k = {k}; "
            "give one name a column and keep at least 1."
        )
    if examples.one_sided:
        raise FitError("All labels are the same, so no feature can tell them apart.")
    scale = examples.features.std(axis=0)
    # By rounding, a constant column can have a deviation of some 1e-17.
    varies = np.ptp(examples.features, axis=0) > 0
    constants = tuple(
        name
        for name, moves in zip(names, varies, strict=True)
        if not moves and (among is None or name in among)
    )
    first: dict[bytes, int] = {}
    duplicates: dict[str, str] = {}
    for column in np.flatnonzero(varies).tolist():
        if among is not None and names[column] not in among:
            continue
        original = first.setdefault(_print(examples.features[:, column], scale[column]), column)
        if original != column:
            duplicates[names[column]] = names[original]
    if not first:
        raise FitError("No feature varies over the training questions; nothing can be learned.")
    columns = np.array(list(first.values()), np.int64)
    values = examples.features[:, columns]
    information = mutual_info_classif(
        values, examples.labels, discrete_features=_countable(values), random_state=seed
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
    """A key that is equal for columns with equal z-scores, up to sign and the ninth digit."""
    z = (values - values.mean()) / scale
    z *= np.sign(z[np.argmax(np.abs(z) > 1e-6)])
    rounded: Float64 = np.round(z, 9)
    rounded += 0.0  # -0.0 has other bytes
    return rounded.tobytes()


def _countable(features: Float64) -> NDArray[np.bool_]:
    """(d,) which columns are integers with few values."""
    whole = (features == np.round(features)).all(axis=0)
    few = [len(np.unique(column)) <= LEVELS for column in features.T]
    result: NDArray[np.bool_] = np.logical_and(whole, few)
    return result


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained scorer with its recipe and its quality on dev.

    Attributes:
        dev_auc: Area under the ROC curve on dev.
        dev: Calibration on dev, where it was also fitted. Both are of the scorer before trees are
            grown again with dev added.
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
    """Train a scorer on one split and make its choices on another.

    Features, means and deviations come from `examples`; epoch, strength and calibration from `dev`.

    Raises:
        FitError: One arm always wins in a split, or the splits' features differ.
    """
    recipe = recipe or RouterRecipe()
    progress = progress or Silent()
    for split, data in (("training", examples), ("dev", dev)):
        if data.one_sided:
            raise FitError(
                f"On all {len(data)} questions to learn from of the {split} split the same arm "
                "wins; add questions that the other one answers better, or another success metric."
            )
    if dev.features.shape[1] != examples.features.shape[1]:
        raise FitError("Training and dev questions have different numbers of features.")
    selection = select(examples, names, k=recipe.features, among=recipe.among)
    selected = examples.features[:, selection.columns]
    standard = Standard(selected.mean(axis=0), selected.std(axis=0), recipe.clip)
    splits = [
        SplitData(
            standard(data.features[:, selection.columns]),
            data.labels,
            data.stakes / data.stakes.mean(),
        )
        for data in (examples, dev)
    ]
    members = _fit(splits[0], splits[1], recipe, progress)
    scorer = Scorer(selection.names, selection.columns, len(names), standard, members)
    raw = scorer.logits(dev.features)
    temperature, bias = calibrate(raw, dev.labels)
    scorer = replace(scorer, temperature=temperature, bias=bias)
    logits = scorer.logits(dev.features)
    honest = float(roc_auc_score(dev.labels, logits)), reliability(logits, dev.labels)
    if (
        recipe.kind == Trees.kind
    ):  # trees choose nothing on dev, so the final ones may learn from it
        scorer = replace(scorer, members=(Trees(_grow(_joined(*splits), recipe)),))
    if recipe.unfamiliar:
        scorer = replace(scorer, familiarity=_familiarity(splits[0], splits[1], recipe.unfamiliar))
    return Trained(scorer, recipe, selection, *honest)


def _joined(train: SplitData, dev: SplitData) -> SplitData:
    return SplitData(
        np.concatenate([train.inputs, dev.inputs]),
        np.concatenate([train.labels, dev.labels]),
        np.concatenate([train.weights, dev.weights]),
    )


RIDGE = 0.1
"""Added to each variance of z-scores, so that directions absent in training do not dominate."""


def _familiarity(train: SplitData, dev: SplitData, share: float) -> Familiarity:
    """Fit the familiarity, with the limit that a share of the dev questions exceeds."""
    covariance = np.cov(train.inputs, rowvar=False).reshape(2 * (train.inputs.shape[1],))
    ridge = RIDGE * np.eye(len(covariance))
    precision = np.linalg.inv(covariance + ridge).astype(np.float64)
    familiarity = Familiarity(precision, np.inf)
    limit = np.quantile(familiarity.distances(dev.inputs), 1 - share, method="higher")
    return replace(familiarity, limit=float(limit))


def _fit(
    examples: SplitData, dev: SplitData, recipe: RouterRecipe, progress: Progress
) -> tuple[Member, ...]:
    if recipe.kind == Trees.kind:
        progress.start(1, "growing trees")
        members: list[Member] = [Trees(_grow(examples, recipe))]
        progress.advance(1)
    elif recipe.kind == Linear.kind:
        progress.start(len(recipe.strengths), "fitting")
        members = [Linear(_fit_linear(examples, dev, recipe, progress.advance))]
    else:
        progress.start(len(recipe.seeds) * recipe.epochs, "training")
        members = [
            AttentionMlp(fit_network(examples, dev, recipe, seed, progress.advance))
            for seed in recipe.seeds
        ]
    progress.close()
    return tuple(members)


def _grow(train: SplitData, recipe: RouterRecipe) -> dict[str, Floats]:
    """Grow extremely randomised trees, as padded arrays for `wye.router.scorer.Trees`."""
    forest = ExtraTreesClassifier(
        recipe.trees,
        max_leaf_nodes=recipe.leaves,
        min_samples_leaf=recipe.leaf,
        max_features=recipe.tried,
        random_state=recipe.seeds[0],
    ).fit(train.inputs, train.labels, sample_weight=train.weights)
    grown = [tree.tree_ for tree in forest.estimators_]
    shape = len(grown), max(tree.node_count for tree in grown)
    node_ids = np.broadcast_to(np.arange(shape[1]), shape)
    left, right = node_ids.astype(np.int16), node_ids.astype(np.int16)
    feature, value = np.zeros(shape, np.int16), np.zeros(shape, np.float32)
    threshold = np.zeros(shape, np.float32)
    for row, tree in enumerate(grown):
        splits = np.flatnonzero(tree.children_left >= 0)
        left[row, splits] = tree.children_left[splits]
        right[row, splits] = tree.children_right[splits]
        feature[row, splits] = tree.feature[splits]
        threshold[row, splits] = _floor(tree.threshold[splits])
        shares = tree.value[:, 0, :]
        value[row, : tree.node_count] = shares[:, 1] / shares.sum(axis=1)
    return {
        "feature": feature,
        "threshold": threshold,
        "left": left,
        "right": right,
        "value": value,
    }


def _floor(values: Float64) -> Float32:
    """Round down to float32; a float32 compares with the result as with the original."""
    rounded = values.astype(np.float32)
    below: Float32 = np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return below


def _fit_linear(
    train: SplitData, dev: SplitData, recipe: RouterRecipe, advance: Callable[[int], None]
) -> dict[str, Floats]:
    """Logistic regression with an elastic net, with the strength that is best on dev."""
    fitted, losses = [], []
    for strength in recipe.strengths:
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
                model.fit(train.inputs, train.labels, sample_weight=train.weights)
            except ConvergenceWarning:
                raise FitError(
                    f"Logistic regression of strength {strength:g} does not converge in {_ROUNDS} "
                    "rounds; use higher strengths."
                ) from None
        fitted.append(model)
        losses.append(nll(model.decision_function(dev.inputs), dev.labels))
        advance(1)
    best = fitted[int(np.argmin(losses))]
    return {"head.weight": best.coef_, "head.bias": best.intercept_}
