from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from training.crossfit import Pool, crossfit, divide
from training.errors import FitError
from training.examples import Examples
from training.recipe import Recipe

Maker = Callable[[int, int], Examples]
LINEAR = Recipe(kind="linear", strengths=(3.0,))


@pytest.fixture
def pool(examples: Maker) -> Pool:
    found = examples(600, 0)
    labels = np.where(np.arange(600) % 3 == 0, -1, found.labels)
    return Pool(found.features, labels, found.groups)


def test_datasets_and_labels_are_spread_evenly(pool: Pool) -> None:
    fold = divide(pool, 5, 0)
    for group, label in product(np.unique(pool.groups), (-1, 0, 1)):
        counts = np.bincount(fold[(pool.groups == group) & (pool.labels == label)], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert (divide(pool, 5, 0) == fold).all()
    assert (divide(pool, 5, 1) != fold).any()


def test_no_router_has_seen_what_it_scores(pool: Pool, names: tuple[str, ...]) -> None:
    found = crossfit(pool, names, LINEAR, folds=4)
    assert len(found.routers) == 4
    for held, trained in enumerate(found.routers):
        rows = found.fold == held
        assert (trained.scorer.logits(pool.features[rows]) == found.logits[rows]).all()


def test_labels_of_a_fold_do_not_reach_its_scores(
    pool: Pool, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = np.arange(600) % 4
    monkeypatch.setattr("training.crossfit.divide", lambda *_: fold)
    before = crossfit(pool, names, LINEAR, folds=4)
    turned = np.where((fold == 2) & (pool.labels >= 0), 1 - pool.labels, pool.labels)
    after = crossfit(Pool(pool.features, turned, pool.groups), names, LINEAR, folds=4)
    same = before.logits == after.logits
    assert same[fold == 2].all()
    assert not same[fold != 2].any()


def test_agreements_are_scored_but_not_learned_from(pool: Pool, names: tuple[str, ...]) -> None:
    known = pool.labels >= 0
    assert len(pool.examples(np.ones(600, np.bool_))) == known.sum() == 400
    features = np.where(known[:, None], pool.features, pool.features + 1)
    before = crossfit(pool, names, LINEAR, folds=3).logits
    after = crossfit(Pool(features, pool.labels, pool.groups), names, LINEAR, folds=3).logits
    assert (before[known] == after[known]).all()
    assert (before[~known] != after[~known]).all()


def test_too_few_folds_are_refused(pool: Pool, names: tuple[str, ...]) -> None:
    with pytest.raises(FitError, match="2 folds"):
        crossfit(pool, names, LINEAR, folds=2)
