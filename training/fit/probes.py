"""Probes of a scorer: ablations of its columns, and a learning curve."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from backends.types import Float64, Int64, Mask
from featurizer.registry import FEATURE_NAMES
from router.query_performance import DENSE_SIGNALS, SEED_SIGNALS
from router.text_evidence import LIST_SIGNALS, NAME_SIGNALS, QUESTION_SIGNALS, WORD_SIGNALS
from training.data.examples import Pool
from training.errors import FitError
from training.fit.crossfit import FOLDS, crossfit, divide
from training.fit.recipe import RouterRecipe
from training.fit.trainer import train

GROUPS: Mapping[str, frozenset[str]] = {
    "lists": LIST_SIGNALS | {*DENSE_SIGNALS},
    "words": WORD_SIGNALS,
    "names": NAME_SIGNALS,
    "the question's own words": QUESTION_SIGNALS,
    "seeds": frozenset(SEED_SIGNALS),
    "syntax": frozenset(FEATURE_NAMES),
}
"""Columns by topic."""
SIZES = (50, 100, 200, 400, 800, 1600)
"""Numbers of training questions on the learning curve."""


@dataclass(frozen=True, slots=True)
class Probe:
    """How well one variant of a scorer separates unseen questions.

    Attributes:
        auc: Area under the ROC curve over all labelled questions.
        within: Dataset -> the same within it; without datasets that have one label only.
    """

    name: str
    auc: float
    within: Mapping[str, float]

    @property
    def mean_within(self) -> float:
        """Mean over datasets, which does not reward telling datasets apart; NaN without any."""
        return float(np.mean([*self.within.values()])) if self.within else float("nan")


def probe(name: str, labels: Int64, logits: Float64, groups: NDArray[np.str_]) -> Probe:
    """Areas under the ROC curve of (n,) logits; NaN and labels of -1 are left out."""
    known = (labels >= 0) & ~np.isnan(logits)
    parts = {group: known & (groups == group) for group in np.unique(groups[known]).tolist()}
    within = {group: _auc(labels, logits, rows) for group, rows in parts.items()}
    mixed = {group: auc for group, auc in within.items() if not np.isnan(auc)}
    return Probe(name, _auc(labels, logits, known), mixed)


def _auc(labels: Int64, logits: Float64, rows: Mask) -> float:
    both = len(np.unique(labels[rows])) == 2
    return float(roc_auc_score(labels[rows], logits[rows])) if both else float("nan")


def ablation(
    pool: Pool, names: Sequence[str], recipe: RouterRecipe, *, seed: int = 0
) -> Iterator[Probe]:
    """Cross-fit scorers without each group of columns, with syntax added, and on syntax alone."""
    own = frozenset(names if recipe.among is None else recipe.among)
    syntax = GROUPS["syntax"] & frozenset(names)
    tried = {f"without {name}": own - group for name, group in GROUPS.items() if group & own}
    tried |= {"with syntax too": own | syntax, "syntax alone": syntax}
    for name, among in tried.items():
        if not among or among == own:
            continue
        other = replace(recipe, among=tuple(one for one in names if one in among))
        try:
            logits = crossfit(pool, names, other, seed=seed)
        except FitError:  # no column varies
            continue
        yield probe(name, pool.labels, logits, pool.groups)


def learning_curve(
    pool: Pool, names: Sequence[str], recipe: RouterRecipe, *, seed: int = 0
) -> Iterator[Probe]:
    """Train scorers on growing numbers of questions, in one random order.

    All are tested on the same fifth of the questions. Sizes at which a label is missing are left
    out.
    """
    fold = divide(pool, FOLDS, seed)
    held = fold == 0
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~held))
    for size in (*(size for size in SIZES if size < len(order)), len(order)):
        rows = np.zeros(len(held), np.bool_)
        rows[order[:size]] = True
        dev = rows & (fold == 1)
        try:
            found = train(pool.examples(rows & ~dev), pool.examples(dev), names, recipe).scorer
        except FitError:
            continue
        logits = np.full(len(held), np.nan)
        logits[held] = found.logits(pool.features[held])
        yield probe(f"{size} questions", pool.labels, logits, pool.groups)
