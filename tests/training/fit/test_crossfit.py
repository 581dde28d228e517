from itertools import product

import numpy as np
import pytest

from tests.training.made import NAMES, examples
from wye.training.errors import FitError
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import Pool, compare, crossfit, divide, leave_datasets_out

LINEAR = RouterRecipe(kind="linear", strengths=(3.0,))


@pytest.fixture
def pool() -> Pool:
    found = examples(600, 0)
    labels = np.where(np.arange(600) % 3 == 0, -1, found.labels)
    groups = np.where(np.random.default_rng(1).random(600) < 0.3, "small", "large")
    return Pool(found.features, labels, groups)


def test_datasets_and_labels_are_spread_evenly(pool: Pool) -> None:
    fold = divide(pool, 5, 0)
    for group, label in product(np.unique(pool.groups), (-1, 0, 1)):
        counts = np.bincount(fold[(pool.groups == group) & (pool.labels == label)], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert (divide(pool, 5, 0) == fold).all()
    assert (divide(pool, 5, 1) != fold).any()


def test_labels_of_a_fold_do_not_reach_its_scores(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = np.arange(600) % 5
    monkeypatch.setattr("wye.training.fit.trainer.divide", lambda *_: fold)
    before = crossfit(pool, NAMES, LINEAR)
    turned = np.where((fold == 2) & (pool.labels >= 0), 1 - pool.labels, pool.labels)
    after = crossfit(Pool(pool.features, turned, pool.groups), NAMES, LINEAR)
    same = before == after
    assert same[fold == 2].all()
    assert not same[fold != 2].any()


def test_agreements_are_scored_but_not_learned_from(pool: Pool) -> None:
    known = pool.labels >= 0
    assert len(pool.examples(np.ones(600, np.bool_))) == known.sum() == 400
    features = np.where(known[:, None], pool.features, pool.features + 1)
    before = crossfit(pool, NAMES, LINEAR)
    after = crossfit(Pool(features, pool.labels, pool.groups), NAMES, LINEAR)
    assert (before[known] == after[known]).all()
    assert (before[~known] != after[~known]).all()


def test_rows_of_one_question_are_never_divided(pool: Pool) -> None:
    keys = np.array([f"question {row // 3}" for row in range(600)])
    keyed = Pool(pool.features, pool.labels, pool.groups, keys)
    fold = divide(keyed, 5, 0)
    assert (fold.reshape(200, 3) == fold[::3, None]).all()
    assert np.bincount(fold).tolist() == [120] * 5
    own = Pool(pool.features, pool.labels, pool.groups, np.arange(600).astype(np.str_))
    counts = np.bincount(divide(own, 5, 0))
    assert counts.tolist() == [120] * 5


def test_a_dataset_is_scored_by_what_the_others_teach(pool: Pool) -> None:
    groups = np.array(["one", "two", "three"])[np.arange(600) % 3]
    pool = Pool(pool.features, np.where(pool.labels < 0, 0, pool.labels), groups)
    before = leave_datasets_out(pool, NAMES, LINEAR)
    assert not np.isnan(before).any()
    left_out = groups == "two"
    turned = np.where(left_out, 1 - pool.labels, pool.labels)
    # Where a dataset's own labels go into the division, they still do not reach its scores.
    fixed = divide(pool, 5, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.training.fit.trainer.divide", lambda *_: fixed)
        one = leave_datasets_out(pool, NAMES, LINEAR)
        other = leave_datasets_out(Pool(pool.features, turned, groups), NAMES, LINEAR)
    assert (one == before).all()
    same = one == other
    assert same[left_out].all()
    assert not same[~left_out].any()


def test_a_dataset_that_the_others_teach_nothing_about_is_named(pool: Pool) -> None:
    labels = np.where(pool.groups == "large", pool.labels, np.minimum(pool.labels, 0))
    found = leave_datasets_out(Pool(pool.features, labels, pool.groups), NAMES, LINEAR)
    assert (~np.isnan(found) == (pool.groups == "small")).all()


def test_a_question_that_two_datasets_ask_is_seen_in_neither(pool: Pool) -> None:
    shared = np.arange(600) % 10 == 0
    keys = np.array([f"question {row}" for row in range(600)])
    groups = np.where(np.arange(600) < 300, "one", "two")
    keys[shared & (groups == "two")] = keys[shared & (groups == "one")]
    fixed = np.arange(600) % 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wye.training.fit.trainer.divide", lambda *_: fixed)
        found = [
            leave_datasets_out(Pool(pool.features, labels, groups, keys), NAMES, LINEAR)
            for labels in (pool.labels, np.where(shared, -1, pool.labels))
        ]
    assert (found[0] == found[1]).all()


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    logits = draw.normal(scale=2, size=n)
    return logits, (draw.random(n) < 1 / (1 + np.exp(-logits))).astype(np.int64)


def test_the_clever_one_is_kept_only_where_it_is_better() -> None:
    truth, labels = sample(500)
    blurred = truth / 3
    won = compare(blurred, truth, labels)
    assert won.clever
    assert 0 < won.gain.low < won.gain.mean < won.gain.high
    assert not compare(truth, blurred, labels).clever
    assert not compare(truth, truth, labels).clever


def test_a_gain_within_the_noise_is_none() -> None:
    truth, labels = sample(60)
    found = compare(truth * 0.999, truth, labels)
    assert found.clever == (found.gain.mean > found.error)
    noise = np.random.default_rng(1).normal(scale=0.5, size=60)
    assert not compare(truth, truth + noise, labels).clever


def test_one_question_decides_nothing() -> None:
    with pytest.raises(FitError, match="1 questions"):
        compare(np.zeros(1), np.ones(1), np.ones(1, np.int64))
