import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score

from tests.training.made import NAMES, CountingProgress, examples
from wye.backends.types import Float64, Int64
from wye.router.explain import Explainer
from wye.router.scorer import AttentionMlp
from wye.training.errors import FitError
from wye.training.fit.calibration import nll
from wye.training.fit.scorers import AttentionMlpModule, RouterRecipe
from wye.training.fit.trainer import (
    Examples,
    Pool,
    Trained,
    compare,
    crossfit,
    divide,
    leave_datasets_out,
    select,
    train,
)

SMALL = RouterRecipe(hidden=(32, 32, 16), seeds=(0, 1), epochs=30, features=10)


@pytest.fixture(scope="module")
def dev() -> Examples:
    return examples(400, 1)


@pytest.fixture(scope="module")
def clever(dev: Examples) -> Trained:
    return train(examples(900, 0), dev, NAMES, SMALL)


@pytest.fixture(scope="module")
def simple(dev: Examples) -> Trained:
    return train(examples(900, 0), dev, NAMES, replace(SMALL, kind="linear"))


def test_a_network_learns_what_a_line_cannot(clever: Trained, simple: Trained) -> None:
    new = examples(1000, 2)
    areas = [
        float(roc_auc_score(new.labels, trained.scorer.scores(new.features)))
        for trained in (simple, clever)
    ]
    assert 0.6 < areas[0] < areas[1] - 0.05
    assert clever.dev_auc > simple.dev_auc
    assert clever.dev.ece < 0.1
    assert not {"f12", "f13"} & {*clever.scorer.names}


def test_trees_are_those_of_scikit_learn(dev: Examples) -> None:
    learned, recipe = examples(300, 0), replace(SMALL, kind="extra-trees", trees=20)
    scorer = train(learned, dev, NAMES, recipe).scorer
    features = np.concatenate([learned.features, dev.features])
    forest = ExtraTreesClassifier(
        20, max_leaf_nodes=128, min_samples_leaf=5, max_features=0.6, random_state=0
    ).fit(scorer.inputs(features), np.concatenate([learned.labels, dev.labels]))
    asked = scorer.inputs(examples(200, 2).features)
    shares = forest.predict_proba(asked)[:, 1]
    assert 1 / (1 + np.exp(-scorer.raw(asked))) == pytest.approx(np.clip(shares, 0.002, 0.998))


def test_some_questions_are_unfamiliar_and_their_score_says_nothing(dev: Examples) -> None:
    recipe = replace(SMALL, kind="linear", unfamiliar=0.05)
    scorer = train(examples(900, 0), dev, NAMES, recipe).scorer
    assert (~scorer.knows(scorer.inputs(dev.features))).mean() == pytest.approx(0.05, abs=0.005)
    far = dev.features[:1] + 100
    assert scorer.scores(far).tolist() == [0.5]


def test_only_some_features_may_be_kept(dev: Examples) -> None:
    recipe = replace(SMALL, kind="linear", among=("f0", "f2"))
    found = train(examples(900, 0), dev, NAMES, recipe).scorer
    assert {*found.names} <= {"f0", "f2"}


def test_the_same_seed_trains_the_same_bits() -> None:
    recipe = replace(SMALL, epochs=3)
    part, dev = examples(200, 0), examples(100, 1)
    state = torch.get_rng_state()
    one = train(part, dev, NAMES, recipe)
    assert (torch.get_rng_state() == state).all()
    torch.manual_seed(12345)
    same = train(part, dev, NAMES, recipe)
    other = train(part, dev, NAMES, replace(recipe, seeds=(7, 8)))
    new = examples(50, 2).features
    assert (one.scorer.scores(new) == same.scorer.scores(new)).all()
    assert (one.scorer.scores(new) != other.scorer.scores(new)).any()


def test_the_best_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def remember(logits: Float64, labels: Int64) -> float:
        seen.append(nll(logits, labels))
        return seen[-1]

    monkeypatch.setattr("wye.training.fit.scorers.nll", remember)
    recipe = replace(SMALL, seeds=(0,), patience=5)
    dev = examples(300, 1)
    scorer = train(examples(300, 0), dev, NAMES, recipe).scorer
    best = int(np.argmin(seen))
    assert len(seen) == min(recipe.epochs, best + 1 + recipe.patience)
    kept = nll(scorer.raw(scorer.inputs(dev.features)), dev.labels)
    assert kept == pytest.approx(seen[best], abs=1e-6)


def test_of_all_strengths_the_best_on_dev_is_kept(simple: Trained, dev: Examples) -> None:
    each = [
        train(examples(900, 0), dev, NAMES, replace(simple.recipe, strengths=(strength,))).scorer
        for strength in simple.recipe.strengths
    ]
    inputs = simple.scorer.inputs(dev.features)
    found = [nll(one.raw(inputs), dev.labels) for one in each]
    assert nll(simple.scorer.raw(inputs), dev.labels) == min(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("which", ["clever", "simple"])
def test_explanations_are_faithful(which: str, request: pytest.FixtureRequest) -> None:
    """Setting the top 3 features to their mean moves the score more than setting 3 others."""
    scorer = request.getfixturevalue(which).scorer
    explainer = Explainer(scorer)
    inputs = scorer.inputs(examples(300, 3).features)
    logits = scorer.calibrated(scorer.raw(inputs))
    draw = np.random.default_rng(0)
    top, random = inputs.copy(), inputs.copy()
    for row in range(len(inputs)):
        baseline, values = explainer.attribute(inputs[row], float(logits[row]))
        assert baseline + values.sum() == pytest.approx(logits[row], abs=1e-4)
        top[row, np.argsort(-np.abs(values))[:3]] = 0
        random[row, draw.choice(inputs.shape[1], 3, replace=False)] = 0
    moved = [
        np.abs(scorer.calibrated(scorer.raw(changed)) - logits).mean() for changed in (top, random)
    ]
    assert moved[0] > 1.5 * moved[1]


def test_what_cannot_be_trained_is_refused() -> None:
    some, dev = examples(60, 0), examples(60, 1)
    with pytest.raises(FitError, match="training split the same arm wins"):
        train(replace(some, labels=np.ones_like(some.labels)), dev, NAMES, SMALL)
    with pytest.raises(FitError, match="dev split the same arm wins"):
        train(some, replace(dev, labels=np.zeros_like(dev.labels)), NAMES, SMALL)
    fewer = Examples(dev.features[:, 1:], dev.labels)
    with pytest.raises(FitError, match="different numbers"):
        train(some, fewer, NAMES, SMALL)
    with pytest.raises(FitError, match="lower the learning rate"):
        train(some, dev, NAMES, replace(SMALL, learning_rate=1e30))


def test_what_decides_is_kept_and_what_repeats_is_not() -> None:
    found = select(examples(1500, 0), NAMES, k=4).tolist()
    assert {2, 3} <= {*found}
    assert found == sorted(found)
    assert len(found) == 4
    assert not {12, 13} & {*found}  # one never changes, and the other is feature 2 in other units


def test_of_counts_the_one_with_the_most_information_is_kept() -> None:
    labels = np.array([0, 0, 1, 1, 1, 1, 0, 1])
    columns = [[0, 0, 0, 1, 1, 1, 1, 2], [0, 0, 1, 1, 1, 2, 0, 1], [1, 0, 0, 1, 1, 0, 1, 0]]

    def information(x: list[int]) -> float:
        both = [(v, label) for v, label in zip(x, labels.tolist(), strict=True)]
        parts = [(both.count(pair) / 8, pair) for pair in set(both)]
        return math.fsum(
            share * math.log(share / (x.count(value) / 8 * (labels == label).mean()))
            for share, (value, label) in parts
        )

    found = select(Examples(np.array(columns, float).T, labels), ["a", "b", "c"], k=1)
    assert found.tolist() == [int(np.argmax([information(x) for x in columns]))]


def test_the_same_seed_keeps_the_same_features() -> None:
    one, same = (select(examples(200, 0), NAMES, k=6, seed=3) for _ in range(2))
    assert one.tolist() == same.tolist()


def test_more_than_there_are_keeps_all_that_vary() -> None:
    assert select(examples(100, 0), NAMES, k=85).tolist() == list(range(12))


def test_what_cannot_be_selected_from_is_refused() -> None:
    some = examples(20, 0)
    with pytest.raises(FitError, match="13 names for 14 features"):
        select(some, NAMES[1:])
    with pytest.raises(FitError, match="at least 1"):
        select(some, NAMES, k=0)
    with pytest.raises(FitError, match="labels are the same"):
        select(replace(some, labels=np.ones_like(some.labels)), NAMES)
    with pytest.raises(FitError, match="No feature varies"):
        select(Examples(np.ones((20, 14)), some.labels), NAMES)


def test_examples_that_do_not_fit_are_refused() -> None:
    features, labels = np.zeros((2, 3)), np.array([0, 1])
    assert not Examples(features, labels).one_sided
    assert Examples(features[1:], labels[1:]).one_sided
    with pytest.raises(FitError, match="do not match"):
        Examples(features[:1], labels)
    with pytest.raises(FitError, match="neither 0 nor 1"):
        Examples(features, labels + 1)
    features[1, 2] = np.inf
    with pytest.raises(FitError, match="Feature 2 of question 1 is inf"):
        Examples(features, labels)


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


def test_processes_give_the_same_bits(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RouterRecipe(seeds=(0,), hidden=(4,), epochs=2)
    count = CountingProgress()
    alone = crossfit(pool, NAMES, recipe, progress=count)
    assert (count.total, count.steps, count.closed) == (5, 5, True)
    monkeypatch.setattr("wye.training.fit.trainer.MANY", 1)
    assert (crossfit(pool, NAMES, recipe) == alone).all()


SHAPES = [(85, (256, 128, 64)), (6, (6, 6, 3)), (1, (1,))]


@pytest.mark.parametrize(("inputs", "hidden"), SHAPES)
def test_what_serves_computes_what_was_trained(inputs: int, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = AttentionMlpModule(inputs, hidden, 0.3).eval()
    network = AttentionMlp(module.tensors())
    points = np.random.default_rng(0).normal(scale=2, size=(40, inputs))

    single = module(torch.tensor(points, dtype=torch.float32)).detach().numpy()
    served = np.array([network.logit(row) for row in points])
    np.testing.assert_allclose(served, single, atol=1e-6)

    module.double()
    x = torch.tensor(points, requires_grad=True)
    logits = module(x)
    np.testing.assert_allclose(served, logits.detach().numpy(), rtol=0, atol=1e-12)
    logits.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(network.gradients(points), x.grad.numpy(), rtol=0, atol=1e-12)


def test_dropout_is_for_training_only() -> None:
    module = AttentionMlpModule(4, (8,), 0.5)
    x = torch.ones(1, 4)
    assert len({module(x).item() for _ in range(20)}) > 1
    module.eval()
    assert len({module(x).item() for _ in range(20)}) == 1


def test_weights_are_copies() -> None:
    module = AttentionMlpModule(2, (2,), 0.0)
    before = module.tensors()
    with torch.no_grad():
        module.head.bias.add_(1)
    assert module.tensors()["head.bias"] == before["head.bias"] + 1
