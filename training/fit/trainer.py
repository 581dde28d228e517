"""Trains a router's scorer: selects features, fits the scorer, and calibrates it.

Cross-fitting scores every question with a router that was not trained on it. A dev split of some
hundred questions is too small to choose thresholds on, and a router's scores of its own training
questions are too good.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import roc_auc_score

from wye.backends.types import Float64, Int64, Mask, Progress, Silent
from wye.router.scorer import AttentionMlp, Familiarity, Linear, Scorer, Standard, Trees
from wye.training.errors import FitError
from wye.training.fit.calibration import Reliability, calibrate, losses, reliability
from wye.training.fit.scorers import RouterRecipe, SplitData, fit_members, grow
from wye.training.measures import Interval, mean_interval

FOLDS = 5
MANY = 1000
"""From so many questions on, starting processes takes less time than they save."""
LEVELS = 20
"""Integer features with at most so many values count as discrete in mutual information."""
RIDGE = 0.1
"""Added to each variance of z-scores, so that directions absent in training do not dominate."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled questions.

    Attributes:
        features: (n, width) float64, all features of the build, finite.
        labels: (n,) 1 where the graph is needed, 0 where the simple arm is enough.
        stakes: (n,) each question's weight; None for equal weights.
    """

    features: Float64
    labels: Int64
    stakes: Float64 | None = None

    def __post_init__(self) -> None:
        n = len(self.labels)
        stakes = n if self.stakes is None else len(self.stakes)
        if self.features.ndim != 2 or {len(self.features), stakes} != {n}:
            raise FitError(
                f"{self.features.shape} features, {n} labels and {stakes} weights do not match; "
                "give one of each per question."
            )
        if not np.isin(self.labels, (0, 1)).all():
            raise FitError("A label is neither 0 nor 1; 1 means that the graph arm succeeds.")
        if not np.isfinite(self.features).all():
            row, column = np.argwhere(~np.isfinite(self.features))[0]
            raise FitError(
                f"Feature {column} of question {row} is {self.features[row, column]}; "
                "features must be finite numbers."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def one_sided(self) -> bool:
        """Whether all labels are the same, so nothing can be learned."""
        return len(np.unique(self.labels)) < 2


@dataclass(frozen=True, slots=True)
class Pool:
    """All questions of the training splits, including those on which both arms agree.

    Attributes:
        features: (n, width) float64.
        labels: (n,) 1 or 0 as in `Examples`, -1 where nothing is learned.
        groups: (n,) name of each question's dataset.
        keys: (n,) equal for one question asked of two indexes; such rows are never split between
            training and validation. None if every row is a question of its own.
        stakes: (n,) each question's weight; None for equal weights.
    """

    features: Float64
    labels: Int64
    groups: NDArray[np.str_]
    keys: NDArray[np.str_] | None = None
    stakes: Float64 | None = None

    def examples(self, rows: Mask) -> Examples:
        """The labelled questions among some rows, (n,) bool."""
        mask = rows & (self.labels >= 0)
        stakes = None if self.stakes is None else self.stakes[mask]
        return Examples(self.features[mask], self.labels[mask], stakes)

    def without(self, group: str) -> Mask:
        """(n,) which questions are not of a dataset, nor repeat one of its questions."""
        others: Mask = self.groups != group
        return others if self.keys is None else others & ~np.isin(self.keys, self.keys[~others])


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
    dev_auc: float
    dev: Reliability


def select(
    examples: Examples,
    names: Sequence[str],
    *,
    k: int = 85,
    among: Sequence[str] | None = None,
    seed: int = 0,
) -> Int64:
    """(d,) columns of the k features with the highest mutual information with the label, rising.

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
    # By rounding, a constant column can have a deviation of some 1e-17.
    varies = np.ptp(examples.features, axis=0) > 0
    first: dict[bytes, int] = {}
    for column in np.flatnonzero(varies).tolist():
        if among is None or names[column] in among:
            first.setdefault(_print(examples.features[:, column]), column)
    if not first:
        raise FitError("No feature varies over the training questions; nothing can be learned.")
    columns = np.array(list(first.values()), np.int64)
    values = examples.features[:, columns]
    information = mutual_info_classif(
        values, examples.labels, discrete_features=_countable(values), random_state=seed
    )
    best = np.sort(np.argsort(-information, kind="stable")[:k])
    selected: Int64 = columns[best]
    return selected


def _print(values: Float64) -> bytes:
    """A key that is equal for columns with equal z-scores, up to sign and the ninth digit."""
    z = (values - values.mean()) / values.std()
    z *= np.sign(z[np.argmax(np.abs(z) > 1e-6)])
    rounded: Float64 = np.round(z, 9)
    rounded += 0.0  # -0.0 has other bytes
    return rounded.tobytes()


def _countable(features: Float64) -> Mask:
    """(d,) which columns are integers with few values."""
    whole = (features == np.round(features)).all(axis=0)
    few = [len(np.unique(column)) <= LEVELS for column in features.T]
    result: Mask = np.logical_and(whole, few)
    return result


def train(
    examples: Examples,
    dev: Examples,
    names: Sequence[str],
    recipe: RouterRecipe | None = None,
) -> Trained:
    """Train a scorer on one split and make its choices on another.

    Features, means and deviations come from `examples`; epoch, strength and calibration from `dev`.

    Raises:
        FitError: One arm always wins in a split, or the splits' features differ.
    """
    recipe = recipe or RouterRecipe()
    for split, data in (("training", examples), ("dev", dev)):
        if data.one_sided:
            raise FitError(
                f"On all {len(data)} questions to learn from of the {split} split the same arm "
                "wins; add questions that the other one answers better, or another success metric."
            )
    if dev.features.shape[1] != examples.features.shape[1]:
        raise FitError("Training and dev questions have different numbers of features.")
    columns = select(examples, names, k=recipe.features, among=recipe.among)
    selected = examples.features[:, columns]
    standard = Standard(selected.mean(axis=0), selected.std(axis=0), recipe.clip)

    def split_of(data: Examples) -> SplitData:
        stakes = np.ones(len(data)) if data.stakes is None else data.stakes
        inputs = standard(data.features[:, columns])
        return SplitData(inputs, data.labels, stakes / stakes.mean())

    learned, held = split_of(examples), split_of(dev)
    members = fit_members(learned, held, recipe)
    kept = tuple(names[column] for column in columns)
    scorer = Scorer(kept, columns, len(names), standard, members)
    temperature, bias = calibrate(scorer.logits(dev.features), dev.labels)
    scorer = replace(scorer, temperature=temperature, bias=bias)
    logits = scorer.logits(dev.features)
    honest = float(roc_auc_score(dev.labels, logits)), reliability(logits, dev.labels)
    if recipe.kind == Trees.kind:  # they choose nothing on dev, so the final ones learn from it too
        scorer = replace(scorer, members=(Trees(grow(_joined(learned, held), recipe)),))
    if recipe.unfamiliar:
        scorer = replace(scorer, familiarity=_familiarity(learned, held, recipe.unfamiliar))
    return Trained(scorer, recipe, *honest)


def _joined(train: SplitData, dev: SplitData) -> SplitData:
    return SplitData(
        np.concatenate([train.inputs, dev.inputs]),
        np.concatenate([train.labels, dev.labels]),
        np.concatenate([train.weights, dev.weights]),
    )


def _familiarity(train: SplitData, dev: SplitData, share: float) -> Familiarity:
    """Fit the familiarity, with the limit that a share of the dev questions exceeds."""
    covariance = np.cov(train.inputs, rowvar=False).reshape(2 * (train.inputs.shape[1],))
    ridge = RIDGE * np.eye(len(covariance))
    precision = np.linalg.inv(covariance + ridge).astype(np.float64)
    familiarity = Familiarity(precision, np.inf)
    limit = np.quantile(familiarity.distances(dev.inputs), 1 - share, method="higher")
    return replace(familiarity, limit=float(limit))


def crossfit(
    pool: Pool,
    names: Sequence[str],
    recipe: RouterRecipe | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Float64:
    """(n,) each question's calibrated logit, from a router that was not trained on it.

    One router is trained for each fold, on the others; the next fold is its dev split, for epoch
    and calibration. Datasets and labels are spread evenly over the folds.

    Source: Chernozhukov et al. (The Econometrics Journal 2018), section 1, for cross-fitting.

    Args:
        pool: Questions of train and dev, never of test.

    Raises:
        FitError: A router would see labels of one kind only.
    """
    fold = divide(pool, FOLDS, seed)
    parts = []
    for number in range(FOLDS):
        held, dev = fold == number, fold == (number + 1) % FOLDS
        parts.append(Part(~held & ~dev, dev, held))
    logits = np.empty(len(pool.labels))
    for part, scored in zip(parts, _scored(pool, names, recipe, parts, progress), strict=True):
        if isinstance(scored, FitError):
            raise scored
        logits[part.held] = scored
    return logits


def leave_datasets_out(
    pool: Pool,
    names: Sequence[str],
    recipe: RouterRecipe | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Float64:
    """(n,) calibrated logits, for each dataset of a router that was trained on the other ones.

    A router recognises its training datasets by their style of questions, so its quality elsewhere
    shows only on a dataset that it has not seen. Where the others teach nothing, it is NaN.

    Args:
        pool: Questions of train and dev, never of test.
    """
    dev = divide(pool, FOLDS, seed) == 0
    parts = []
    for group in np.unique(pool.groups).tolist():
        learn = pool.without(group)
        parts.append(Part(learn & ~dev, learn & dev, pool.groups == group))
    logits = np.full(len(pool.labels), np.nan)
    for part, scored in zip(parts, _scored(pool, names, recipe, parts, progress), strict=True):
        if not isinstance(scored, FitError):
            logits[part.held] = scored
    return logits


@dataclass(frozen=True, slots=True)
class Part:
    """(n,) masks of the questions to learn from, to calibrate on, and to score."""

    learn: Mask
    dev: Mask
    held: Mask


def _scored(
    pool: Pool,
    names: Sequence[str],
    recipe: RouterRecipe | None,
    parts: Sequence[Part],
    progress: Progress | None,
) -> Iterator[Float64 | FitError]:
    """Yield each part's logits in order, or why nothing can be learned.

    Networks for many questions are trained in processes beside this one; the bits are the same.
    """
    recipe, progress = recipe or RouterRecipe(), progress or Silent()
    many = recipe.kind == AttentionMlp.kind and len(pool.labels) >= MANY
    jobs = Parallel(-1 if many else 1, return_as="generator")
    progress.start(len(parts), f"training {recipe.kind}")
    for scored in jobs(delayed(_score)(pool, names, recipe, part) for part in parts):
        progress.advance(1)
        yield scored
    progress.close()


def _score(
    pool: Pool, names: Sequence[str], recipe: RouterRecipe, part: Part
) -> Float64 | FitError:
    try:
        trained = train(pool.examples(part.learn), pool.examples(part.dev), names, recipe)
    except FitError as error:
        return error
    return trained.scorer.logits(pool.features[part.held])


def divide(pool: Pool, folds: int, seed: int) -> Int64:
    """(n,) the fold of each question, drawn at random within each dataset and label.

    All rows of one question are in the same fold; its first row decides the label and dataset.
    """
    n = len(pool.labels)
    first = row_of = np.arange(n)
    if pool.keys is not None:
        _, first, row_of = np.unique(pool.keys, return_index=True, return_inverse=True)
    generator = np.random.default_rng(seed)
    order = first[generator.permutation(len(first))]
    kinds = np.lexsort((pool.labels[order], pool.groups[order]))
    fold = np.empty(n, np.int64)
    fold[order[kinds]] = np.arange(len(first)) % folds
    return fold[first][row_of]


@dataclass(frozen=True, slots=True)
class ScorerComparison:
    """Two routers compared on the same questions.

    Attributes:
        gain: How much lower the clever one's negative log likelihood is, in nats a question, with
            its paired bootstrap interval.
        error: Standard error of the gain.
        clever: Whether to keep the clever one.
        kinds: Kinds of both scorers, the simple one first.
    """

    gain: Interval
    error: float
    clever: bool
    kinds: tuple[str, str]


def compare(
    simple: Float64,
    clever: Float64,
    labels: Int64,
    *,
    seed: int = 0,
    kinds: tuple[str, str] = (Linear.kind, AttentionMlp.kind),
) -> ScorerComparison:
    """Keep the clever router only if its gain exceeds one standard error.

    This is the one-standard-error rule: keep the simplest of those that the data cannot tell apart.
    It compares likelihood, not AUC, since thresholds and fusion weights use the score's value.

    Source: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 7.10.

    Args:
        simple: (n,) calibrated logits, usually of logistic regression.
        clever: (n,) calibrated logits, usually of the attention-MLP.
        labels: (n,) 0 or 1, of dev or, for a surer decision, of all cross-fitted questions.

    Raises:
        FitError: There are fewer than 2 questions.
    """
    if len(labels) < 2:
        raise FitError(f"{len(labels)} questions cannot tell two routers apart; give more.")
    gains = losses(simple, labels) - losses(clever, labels)
    error = float(gains.std(ddof=1) / np.sqrt(len(gains)))
    gain = mean_interval(gains, seed)
    return ScorerComparison(gain, error, gain.mean > error, kinds)
