"""Trains a router's scorer: selects features, fits the scorer, and calibrates it.

Every question is scored by members that did not learn from it, or not from its dataset; calibration
and thresholds are chosen on those scores, since a router's scores of what it learned from are too
good. So no question is set aside: the final scorer learns from train and dev alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.feature_selection import mutual_info_classif

from wye.backends.types import Float64, Int64, Mask, Progress, Silent
from wye.router.scorer import AttentionMlp, Familiarity, Scorer, Standard
from wye.training.errors import FitError
from wye.training.fit.calibration import calibrate
from wye.training.fit.scorers import (
    LearningData,
    RouterRecipe,
    fit_network,
    taught,
    tree_scores,
)

FOLDS = 5
MANY = 1000  # from so many questions on, starting processes takes less time than they save
LEVELS = 20  # integer features with at most so many values count as discrete in mutual information
RIDGE = 0.1
"""Added to each variance of z-scores, so that directions absent in training do not dominate."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Questions of the training splits, including those on which both arms agree.

    Attributes:
        labels: (n,) from 0, where the simple arm is enough, to 1; -1 where nothing is learned.
        keys: (n,) equal for one question asked of two indexes; such rows are never split between
            training and validation.
    """

    features: Float64  # (n, width) float64, all features of the build, finite
    labels: Float64
    groups: NDArray[np.str_]  # (n,) name of each question's dataset
    stakes: Float64  # (n,) each question's weight
    keys: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.labels)

    def labelled(self, rows: Mask) -> "Pool":
        """The questions to learn from among some rows, (n,) bool."""
        mask = rows & (self.labels >= 0)
        return Pool(*(getattr(self, each.name)[mask] for each in fields(self)))

    @property
    def one_sided(self) -> bool:
        """Whether all labels are the same, so nothing can be learned."""
        return len(np.unique(self.labels)) < 2

    def without(self, group: str) -> Mask:
        """(n,) which questions are not of a dataset, nor repeat one of its questions."""
        others: Mask = self.groups != group
        return others & ~np.isin(self.keys, self.keys[~others])


def select(examples: Pool, names: Sequence[str], recipe: RouterRecipe) -> Int64:
    """(d,) columns of the features with the highest mutual information with the label, rising.

    Constant features and duplicates of another one (equal z-scores, up to sign) are left out first.
    Of features with equal information the first is kept.

    Source: EA-GraphRAG, section 3.2.5; the estimate is that of Ross (PLoS ONE 2014) with 3
    neighbours for continuous features.

    Args:
        examples: Labelled questions, whose labels differ.
        recipe: Says how many features may be kept, and which.

    Raises:
        FitError: No feature varies.
    """
    # By rounding, a constant column can have a deviation of some 1e-17.
    varies = np.ptp(examples.features, axis=0) > 0
    first: dict[bytes, int] = {}
    for column in np.flatnonzero(varies).tolist():
        if recipe.among is None or names[column] in recipe.among:
            first.setdefault(_fingerprint(examples.features[:, column]), column)
    if not first:
        raise FitError("No feature varies over the training questions; nothing can be learned.")
    columns = np.array(list(first.values()), np.int64)
    values = examples.features[:, columns]
    classes = np.unique(examples.labels, return_inverse=True)[1]
    information = mutual_info_classif(
        values, classes, discrete_features=_countable(values), random_state=0
    )
    selected: Int64 = columns[np.sort(np.argsort(-information, kind="stable")[: recipe.features])]
    return selected


def _fingerprint(values: Float64) -> bytes:
    """A key that is equal for columns with equal z-scores, up to sign and the ninth digit."""
    z = (values - values.mean()) / values.std()
    z *= np.sign(z[np.argmax(np.abs(z) > 1e-6)])
    rounded: Float64 = np.round(z, 9)
    rounded += 0.0  # -0.0 has other bytes
    return rounded.tobytes()


def _countable(features: Float64) -> Mask:
    """(d,) which columns are integers with few values."""
    few = [len(np.unique(column)) <= LEVELS for column in features.T]
    result: Mask = (features == np.round(features)).all(axis=0) & few
    return result


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What the members of one scorer learn from."""

    columns: Int64  # (d,) the selected features
    standard: Standard
    labels: LearningData  # the data before trees taught anything
    data: LearningData

    def inputs(self, features: Float64) -> Float64:
        return np.ascontiguousarray(self.standard(features[:, self.columns]))


def _prepare(pool: Pool, rows: Mask, names: Sequence[str], recipe: RouterRecipe) -> _Prepared:
    """Select features, standardise them, and let trees teach, of some rows (n,) bool.

    Raises:
        FitError: All labels are the same.
    """
    examples = pool.labelled(rows)
    if examples.one_sided:
        raise FitError(
            f"On all {len(examples)} questions to learn from the same arm wins; add questions that "
            "the other one answers better."
        )
    columns = select(examples, names, recipe)
    selected = examples.features[:, columns]
    standard = Standard(selected.mean(axis=0), selected.std(axis=0), recipe.clip)
    weights = examples.stakes / examples.stakes.mean()
    known = LearningData(standard(selected), examples.labels, weights)
    fold = divide(pool, FOLDS, seed=1)[rows & (pool.labels >= 0)]
    data = taught(known, fold, recipe) if recipe.taught else known
    return _Prepared(columns, standard, known, data)


def fit_scorer(pool: Pool, names: Sequence[str], recipe: RouterRecipe) -> Scorer:
    """Fit a scorer on all questions of a pool, not yet calibrated; see `crossfit`.

    Raises:
        FitError: All labels are the same, or a fit fails.
    """
    prepared = _prepare(pool, np.ones(len(pool.labels), np.bool_), names, recipe)
    (members,) = _members([prepared], recipe, None)
    share = recipe.unfamiliar
    return Scorer(
        tuple(names[column] for column in prepared.columns),
        prepared.columns,
        prepared.standard,
        members,
        1.0,
        0.0,
        _familiarity(prepared.data.inputs, share) if share else None,
    )


def _members(
    prepared: Sequence[_Prepared], recipe: RouterRecipe, progress: Progress | None
) -> list[tuple[AttentionMlp, ...]]:
    """The members of each scorer; one job for each fold and seed."""
    seeds = recipe.seeds
    many = max(len(part.data.targets) for part in prepared) >= MANY
    jobs = Parallel(-1 if many else 1, return_as="generator")
    progress = progress or Silent()
    progress.start(len(prepared) * len(seeds), f"training {AttentionMlp.kind}")
    members = []
    for tensors in jobs(
        delayed(fit_network)(part.data, recipe, seed) for part in prepared for seed in seeds
    ):
        progress.advance(1)
        members.append(AttentionMlp(tensors))
    progress.close()
    return [tuple(members[at : at + len(seeds)]) for at in range(0, len(members), len(seeds))]


def _familiarity(inputs: Float64, share: float) -> Familiarity:
    """Fit the familiarity, with the limit that a share of the questions exceeds."""
    covariance = np.cov(inputs, rowvar=False).reshape(2 * (inputs.shape[1],))
    ridge = RIDGE * np.eye(len(covariance))
    precision = np.linalg.inv(covariance + ridge).astype(np.float64)
    familiarity = Familiarity(precision, np.inf)
    limit = np.quantile(familiarity.distances(inputs), 1 - share, method="higher")
    return replace(familiarity, limit=float(limit))


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Scores of questions by scorers that did not learn from them.

    Attributes:
        trees: (n,) logits of the teacher alone, calibrated likewise; None without one.
    """

    logits: Float64  # (n,) calibrated
    temperature: float  # temperature and bias of the calibration, for all folds
    bias: float
    trees: Float64 | None = None


def crossfit(
    pool: Pool, names: Sequence[str], recipe: RouterRecipe, progress: Progress | None = None
) -> CrossFit:
    """Score each question by a scorer that learned from the other folds, and calibrate the scores.

    Datasets and labels are spread evenly over the folds.

    Source: Chernozhukov et al. (The Econometrics Journal 2018), section 1, for cross-fitting.

    Args:
        pool: Questions of train and dev, never of test.

    Raises:
        FitError: A scorer would see labels of one kind only.
    """
    fold = divide(pool, FOLDS, seed=0)
    held = [fold == number for number in range(FOLDS)]
    labelled = pool.labels >= 0

    def calibrated(logits: Float64) -> tuple[Float64, float, float]:
        temperature, bias = calibrate(logits[labelled], pool.labels[labelled])
        return logits / temperature + bias, temperature, bias

    learned = [~rows for rows in held]
    raw, parts = _score_held(pool, held, learned, names, recipe, progress=progress)
    logits, temperature, bias = calibrated(raw)
    if not recipe.taught:
        return CrossFit(logits, temperature, bias)
    trees = np.empty(len(fold))
    for rows, part in zip(held, parts, strict=True):
        trees[rows] = tree_scores(part.labels, part.inputs(pool.features[rows]), recipe)
    teacher, *_ = calibrated(logit(np.clip(trees, 0.002, 0.998)))
    return CrossFit(logits, temperature, bias, teacher)


def leave_datasets_out(
    pool: Pool, names: Sequence[str], recipe: RouterRecipe, crossfitted: CrossFit
) -> Float64:
    """(n,) logits, for each dataset of a scorer that learned from the other ones alone.

    A router recognises its training datasets by their style of questions, so its quality elsewhere
    shows only on a dataset that it has not seen. Where the others teach nothing, it is NaN.

    Args:
        pool: Questions of train and dev, never of test.
        crossfitted: Its calibration is used.
    """
    others = {group: pool.without(group) for group in np.unique(pool.groups).tolist()}
    others = {name: rows for name, rows in others.items() if not pool.labelled(rows).one_sided}
    held = [pool.groups == group for group in others]
    raw, _ = _score_held(pool, held, [*others.values()], names, recipe)
    return raw / crossfitted.temperature + crossfitted.bias


def _score_held(
    pool: Pool,
    held: Sequence[Mask],
    learned: Sequence[Mask],
    names: Sequence[str],
    recipe: RouterRecipe,
    *,
    progress: Progress | None = None,
) -> tuple[Float64, list[_Prepared]]:
    """(n,) mean logits of each part's held rows, NaN for others, and what its members learned."""
    parts = [_prepare(pool, rows, names, recipe) for rows in learned]
    logits = np.full(len(pool), np.nan)
    for rows, part, members in zip(held, parts, _members(parts, recipe, progress), strict=True):
        inputs = part.inputs(pool.features[rows])
        logits[rows] = [np.mean([member.logit(row) for member in members]) for row in inputs]
    return logits, parts


def divide(pool: Pool, folds: int, seed: int) -> Int64:
    """(n,) the fold of each question, drawn at random within each dataset and label.

    All rows of one question are in the same fold; its first row decides the label and dataset.
    """
    _, first, row_of = np.unique(pool.keys, return_index=True, return_inverse=True)
    order = first[np.random.default_rng(seed).permutation(len(first))]
    kinds = np.lexsort((pool.labels[order], pool.groups[order]))
    fold = np.empty(len(pool), np.int64)
    fold[order[kinds]] = np.arange(len(first)) % folds
    return fold[first][row_of]
