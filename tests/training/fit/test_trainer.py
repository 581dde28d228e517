import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score

from tests.training.made import NAMES, CountingProgress, examples
from wye.backends.types import Float64, Int64
from wye.router.explain import Explainer
from wye.training.errors import FitError
from wye.training.fit.calibration import nll
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import Examples, Trained, select, train

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


@pytest.mark.parametrize("kind", ["attention-mlp", "linear"])
def test_progress_ends_where_it_said(kind: str) -> None:
    count = CountingProgress()
    recipe = replace(SMALL, kind=kind, patience=1)
    trained = train(examples(200, 0), examples(100, 1), NAMES, recipe, count)
    assert count.steps == count.total
    assert count.closed
    assert len(trained.scorer.members) == (1 if kind == "linear" else 2)


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
