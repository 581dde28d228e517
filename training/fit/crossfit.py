"""Scores of questions by routers that have not seen them, so that more than dev can be used.

A dev split of some hundred questions is too small to choose thresholds on, and a router's scores of
its own training questions are too good. Cross-fitting gives every question of train and dev an
honest score: of a router that was trained on other questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.progress import Progress
from backends.types import Float64, Int64
from training.data.examples import Examples
from training.errors import FitError
from training.fit.recipe import Recipe
from training.fit.trainer import Trained, train


@dataclass(frozen=True, slots=True)
class Pool:
    """All questions that may be learned from, those on which both arms agree too.

    Attributes:
        features: (n, width) float64.
        labels: (n,) 1 where only the graph arm succeeds, 0 where only the simple one does, and -1
            where both do or neither, of which nothing is learned.
        groups: (n,) name of the dataset of each question.
        keys: (n,) what makes two rows the same question, asked of two indexes; they are never
            divided between training and judging. None where every row is a question of its own.
    """

    features: Float64
    labels: Int64
    groups: NDArray[np.str_]
    keys: NDArray[np.str_] | None = None

    def examples(self, rows: NDArray[np.bool_]) -> Examples:
        """The disagreements among some rows, (n,) bool."""
        found = rows & (self.labels >= 0)
        return Examples(self.features[found], self.labels[found], self.groups[found])


@dataclass(frozen=True, slots=True)
class Crossfit:
    """Every question as one router that has not seen it scores it.

    Attributes:
        logits: (n,) calibrated.
        fold: (n,) which router that was.
        routers: One for each fold.
    """

    logits: Float64
    fold: Int64
    routers: tuple[Trained, ...]


def crossfit(
    pool: Pool,
    names: Sequence[str],
    recipe: Recipe | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> Crossfit:
    """Train one router for each fold, and score the fold with it.

    Of the other folds the next one serves as dev split, for epoch and calibration. Datasets and
    labels are spread evenly over the folds.

    Source: Chernozhukov et al. (The Econometrics Journal 2018), section 1, for cross-fitting.

    Args:
        pool: Questions of the training and dev splits, never of test.
        names: Of the feature columns.
        recipe: Hyper-parameters; None for the default ones.
        folds: At least 3.
        seed: Of the division.
        progress: Told of each router's training in turn.

    Raises:
        FitError: Fewer than 3 folds, or one without disagreements for either arm.
    """
    if folds < 3:
        raise FitError(f"{folds} folds leave none to train on; one is held out and one is dev.")
    fold = divide(pool, folds, seed)
    logits = np.empty(len(pool.labels))
    routers = []
    for held in range(folds):
        dev = fold == (held + 1) % folds
        others = (fold != held) & ~dev
        trained = train(pool.examples(others), pool.examples(dev), names, recipe, progress)
        logits[fold == held] = trained.scorer.logits(pool.features[fold == held])
        routers.append(trained)
    return Crossfit(logits, fold, tuple(routers))


@dataclass(frozen=True, slots=True)
class Unseen:
    """Questions as routers score them that have not seen their dataset at all.

    Attributes:
        rows: (r,) places of the questions in the pool, rising.
        logits: (r,) calibrated on the other datasets.
        untried: Dataset -> why the others teach nothing that could be tried on it.
    """

    rows: Int64
    logits: Float64
    untried: dict[str, str]


def leave_datasets_out(
    pool: Pool,
    names: Sequence[str],
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Unseen:
    """Score every dataset with a router that learned from the other ones alone.

    A router recognises the datasets that it was trained on, by their way of asking. What its scores
    are worth elsewhere shows only where it has not been.

    Args:
        pool: Questions of the training and dev splits, never of test.
        names: Of the feature columns.
        recipe: Hyper-parameters; None for the default ones.
        seed: Of the division into training and dev questions.
        progress: Told of each router's training in turn.
    """
    dev = divide(pool, 5, seed) == 0
    logits = np.full(len(pool.labels), np.nan)
    untried = {}
    for left_out in np.unique(pool.groups).tolist():
        others = pool.groups != left_out
        learn = others
        if pool.keys is not None:  # another dataset may ask a question of this one
            learn = others & ~np.isin(pool.keys, pool.keys[~others])
        try:
            trained = train(
                pool.examples(learn & ~dev), pool.examples(learn & dev), names, recipe, progress
            )
        except FitError as error:
            untried[left_out] = str(error)
            continue
        logits[~others] = trained.scorer.logits(pool.features[~others])
    rows = np.flatnonzero(~np.isnan(logits))
    return Unseen(rows, logits[rows], untried)


def divide(pool: Pool, folds: int, seed: int) -> Int64:
    """(n,) fold of each question, each dataset and label spread evenly, at random otherwise.

    A question that is there several times is spread by its first row.
    """
    n = len(pool.labels)
    first, row_of = np.arange(n), np.arange(n)
    if pool.keys is not None:
        _, first, row_of = np.unique(pool.keys, return_index=True, return_inverse=True)
    generator = np.random.default_rng(seed)
    order = first[generator.permutation(len(first))]
    kinds = np.lexsort((pool.labels[order], pool.groups[order]))
    fold = np.empty(n, np.int64)
    fold[order[kinds]] = np.arange(len(first)) % folds
    return fold[first][row_of]
