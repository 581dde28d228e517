"""Cross-fitting: scores every question with a router that was not trained on it.

A dev split of some hundred questions is too small to choose thresholds on, and a router's scores of
its own training questions are too good. Cross-fitting gives every question of train and dev an
unbiased score, from a router that was trained on other questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wye.backends.progress import Progress
from wye.backends.types import Float64, Int64
from wye.router.scorer import AttentionMlp, Linear
from wye.training.data.examples import Pool
from wye.training.errors import FitError
from wye.training.evaluation.bootstrap import Interval, interval, resampled_means
from wye.training.fit.calibration import losses
from wye.training.fit.recipe import RouterRecipe
from wye.training.fit.trainer import train

FOLDS = 5


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
    logits = np.empty(len(pool.labels))
    for number in range(FOLDS):
        dev = fold == (number + 1) % FOLDS
        others = (fold != number) & ~dev
        trained = train(pool.examples(others), pool.examples(dev), names, recipe, progress)
        logits[fold == number] = trained.scorer.logits(pool.features[fold == number])
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
    logits = np.full(len(pool.labels), np.nan)
    for group in np.unique(pool.groups).tolist():
        others = pool.groups != group
        learn = others
        if pool.keys is not None:  # other datasets may have questions of this one
            learn = others & ~np.isin(pool.keys, pool.keys[~others])
        try:
            trained = train(
                pool.examples(learn & ~dev), pool.examples(learn & dev), names, recipe, progress
            )
        except FitError:  # nothing can be learned from the others
            continue
        logits[~others] = trained.scorer.logits(pool.features[~others])
    return logits


def divide(pool: Pool, folds: int, seed: int) -> Int64:
    """(n,) the fold of each question, drawn at random within each dataset and label.

    All rows of one question are in the same fold; its first row decides the label and dataset.
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
    kinds: tuple[str, str] = (Linear.kind, AttentionMlp.kind)


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
    gain = interval(gains, resampled_means(gains[:, None], seed=seed)[:, 0])
    return ScorerComparison(gain, error, gain.mean > error, kinds)
