import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tests.training.made import NAMES, QUICK, CountingProgress, examples
from wye.router.scorer import AttentionMlp
from wye.training.errors import FitError
from wye.training.fit.scorers import (
    AttentionMlpModule,
    LearningData,
    RouterRecipe,
    fit_network,
    pieces_of,
    taught,
    tree_scores,
)
from wye.training.fit.trainer import (
    CrossFit,
    Pool,
    crossfit,
    divide,
    fit_scorer,
    leave_datasets_out,
    select,
)

SMALL = RouterRecipe(
    hidden=(32, 32), seeds=(0, 1), features=10, pieces=6, trees=30, epochs=60, batch=64, dropout=0.1
)


def test_a_network_learns_what_a_line_cannot() -> None:
    old, new = examples(900, 0), examples(1000, 2)
    clever = fit_scorer(old, NAMES, SMALL)
    line = LogisticRegression().fit(old.features, old.labels).decision_function(new.features)
    areas = [roc_auc_score(new.labels, one) for one in (line, clever.scores(new.features))]
    assert 0.6 < areas[0] < areas[1] - 0.05
    assert not {"f12", "f13"} & {*clever.names}


def test_some_questions_are_unfamiliar_and_their_score_says_nothing() -> None:
    pool = examples(900, 0)
    scorer = fit_scorer(pool, NAMES, replace(QUICK, unfamiliar=0.05))
    unknown = ~scorer.knows(scorer.inputs(pool.features))
    assert unknown.mean() == pytest.approx(0.05, abs=0.005)
    assert scorer.scores(pool.features[:1] + 100).tolist() == [0.5]


def test_only_some_features_may_be_kept() -> None:
    found = fit_scorer(examples(300, 0), NAMES, replace(QUICK, among=("f0", "f2")))
    assert {*found.names} <= {"f0", "f2"}


def test_the_same_seed_trains_the_same_bits() -> None:
    recipe, pool = replace(SMALL, epochs=3), examples(200, 0)
    state = torch.get_rng_state()
    one = fit_scorer(pool, NAMES, recipe)
    assert (torch.get_rng_state() == state).all()
    torch.manual_seed(12345)
    same = fit_scorer(pool, NAMES, recipe)
    other = fit_scorer(pool, NAMES, replace(recipe, seeds=(7, 8)))
    new = examples(50, 2).features
    assert (one.scores(new) == same.scores(new)).all()
    assert (one.scores(new) != other.scores(new)).any()


def test_what_cannot_be_trained_is_refused() -> None:
    some = examples(60, 0)
    with pytest.raises(FitError, match="On all 60 questions to learn from the same arm wins"):
        fit_scorer(replace(some, labels=np.ones_like(some.labels)), NAMES, SMALL)
    with pytest.raises(FitError, match="lower the learning rate"):
        fit_scorer(some, NAMES, replace(SMALL, learning_rate=1e30, taught=0.0))


def data_of(n: int, seed: int = 0) -> LearningData:
    draw = np.random.default_rng(seed)
    inputs = draw.normal(size=(n, 3))
    return LearningData(inputs, (inputs[:, 0] > 0).astype(float), np.ones(n))


PLAIN = RouterRecipe(hidden=(8,), pieces=0, dropout=0.0, smoothing=0.0, epochs=40, batch=32)


def logits_of(data: LearningData, recipe: RouterRecipe) -> np.ndarray:
    network = AttentionMlp(fit_network(data, recipe, seed=0))
    return np.array([network.logit(row) for row in data.inputs])


def test_smoothed_labels_leave_no_question_sure() -> None:
    """Without noise a network gets ever surer; the labels 0.25 and 0.75 have the logits ± 1.1."""
    sure, smooth = (
        logits_of(data_of(200), replace(PLAIN, epochs=150, smoothing=smoothing))
        for smoothing in (0.0, 0.5)
    )
    assert np.median(np.abs(smooth)) < 1.5
    assert np.median(np.abs(sure)) > 4


def test_weights_say_which_question_counts() -> None:
    """Of two equal questions with different labels, the one that weighs more is right."""
    data = data_of(200)
    twice = np.concatenate([data.inputs, data.inputs])
    labels = np.concatenate([data.targets, 1 - data.targets])
    weights = np.repeat([1.8, 0.2], 200)
    known = data.targets == 1
    right, wrong = (
        logits_of(LearningData(twice, labels, each), PLAIN)[:200] for each in (weights, 2 - weights)
    )
    assert ((right > 0) == known).mean() > 0.9
    assert ((wrong > 0) == known).mean() < 0.1


def test_steps_get_smaller_along_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.AdamW.step

    def remember(self: torch.optim.AdamW, *arguments: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        assert self.param_groups[0]["weight_decay"] == PLAIN.weight_decay
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", remember)
    fit_network(data_of(64), PLAIN, seed=0)
    count = 40 * 2
    cosine = [PLAIN.learning_rate * (1 + math.cos(math.pi * at / count)) / 2 for at in range(count)]
    assert rates == pytest.approx(cosine)


def test_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    clip = torch.nn.utils.clip_grad_norm_

    def remember(parameters: Iterable[torch.Tensor], most: float) -> object:
        norms.append(most)
        return clip(parameters, most)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", remember)
    fit_network(data_of(64), replace(PLAIN, epochs=1), seed=0)
    assert norms == [PLAIN.clip_norm] * 2


def test_pieces_lie_between_quantiles() -> None:
    counts = np.repeat([0.0, 1.0, 5.0], [60, 30, 10])
    even = np.linspace(0, 1, 100)
    low, scale = pieces_of(np.stack([counts, even, np.ones(100)], axis=1), 4)
    assert low[0].tolist() == [0, 1, 0, 0]
    assert scale[0].tolist() == [1, 0.25, 0, 0]
    assert low[1] == pytest.approx([0, 0.25, 0.5, 0.75])
    assert scale[1] == pytest.approx(4)
    assert (scale[2] == 0).all()


def test_trees_teach_only_what_they_did_not_learn_from() -> None:
    data, fold = data_of(100), np.arange(100) % 5
    recipe = replace(SMALL, taught=0.25)
    found = taught(data, fold, recipe).targets
    for number in range(5):
        rest, held = fold != number, fold == number
        known = LearningData(data.inputs[rest], data.targets[rest], data.weights[rest])
        scores = tree_scores(known, data.inputs[held], recipe)
        assert found[held] == pytest.approx(0.75 * data.targets[held] + 0.25 * scores)


def test_what_decides_is_kept_and_what_repeats_is_not() -> None:
    found = select(examples(1500, 0), NAMES, replace(QUICK, features=4)).tolist()
    assert {2, 3} <= {*found}
    assert found == sorted(found)
    assert len(found) == 4
    assert not {12, 13} & {*found}  # one never changes, and the other is feature 2 in other units


def test_what_cannot_be_selected_from_is_refused() -> None:
    some = examples(20, 0)
    with pytest.raises(FitError, match="No feature varies"):
        select(replace(some, features=np.ones((20, 14))), NAMES, QUICK)


@pytest.fixture
def pool() -> Pool:
    found = examples(600, 0)
    labels = np.where(np.arange(600) % 3 == 0, -1, found.labels)
    groups = np.where(np.random.default_rng(1).random(600) < 0.3, "small", "large")
    return replace(found, labels=labels, groups=groups)


def test_datasets_and_labels_are_spread_evenly(pool: Pool) -> None:
    fold = divide(pool, 5, 0)
    for group, label in product(np.unique(pool.groups), (-1, 0, 1)):
        counts = np.bincount(fold[(pool.groups == group) & (pool.labels == label)], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert (divide(pool, 5, 0) == fold).all()
    assert (divide(pool, 5, 1) != fold).any()


def test_no_label_of_a_fold_reaches_its_scores(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = np.arange(600) % 5
    monkeypatch.setattr("wye.training.fit.trainer.divide", lambda *_, **__: fold)
    monkeypatch.setattr("wye.training.fit.trainer.calibrate", lambda *_: (1.0, 0.0))
    before = crossfit(pool, NAMES, QUICK).logits
    turned = np.where((fold == 2) & (pool.labels >= 0), 1 - pool.labels, pool.labels)
    after = crossfit(replace(pool, labels=turned), NAMES, QUICK).logits
    same = before == after
    assert same[fold == 2].all()
    assert not same[fold != 2].any()


def test_agreements_are_scored_but_not_learned_from(pool: Pool) -> None:
    known = pool.labels >= 0
    assert len(pool.labelled(np.ones(600, np.bool_))) == known.sum() == 400
    features = np.where(known[:, None], pool.features, pool.features + 1)
    before = crossfit(pool, NAMES, QUICK).logits
    after = crossfit(replace(pool, features=features), NAMES, QUICK).logits
    assert (before[known] == after[known]).all()
    assert (before[~known] != after[~known]).all()


def test_trees_are_scored_beside_what_they_taught(pool: Pool) -> None:
    recipe = RouterRecipe(seeds=(0,), hidden=(4,), epochs=1, trees=5)
    found = crossfit(pool, NAMES, recipe)
    assert found.trees is not None
    known = pool.labels >= 0
    assert roc_auc_score(pool.labels[known], found.trees[known]) > 0.6
    assert crossfit(pool, NAMES, QUICK).trees is None


PLAIN_SCORES = CrossFit(np.zeros(0), 1.0, 0.0)


def left_out(pool: Pool) -> np.ndarray:
    return leave_datasets_out(pool, NAMES, QUICK, PLAIN_SCORES)


def test_a_dataset_is_scored_by_what_the_others_teach(pool: Pool) -> None:
    groups = np.array(["one", "two", "three"])[np.arange(600) % 3]
    pool = replace(pool, labels=np.maximum(pool.labels, 0), groups=groups)
    own = groups == "two"
    before = left_out(pool)
    assert not np.isnan(before).any()
    turned = np.where(own, 1 - pool.labels, pool.labels)
    same = before == left_out(replace(pool, labels=turned))
    assert same[own].all()
    assert not same[~own].any()
    halved = leave_datasets_out(pool, NAMES, QUICK, CrossFit(np.zeros(0), 2.0, 1.0))
    assert halved == pytest.approx(before / 2 + 1)


def test_a_dataset_that_the_others_teach_nothing_about_is_named(pool: Pool) -> None:
    labels = np.where(pool.groups == "large", pool.labels, np.minimum(pool.labels, 0))
    found = left_out(replace(pool, labels=labels))
    assert (~np.isnan(found) == (pool.groups == "small")).all()


def test_a_question_that_two_datasets_ask_is_seen_in_neither(pool: Pool) -> None:
    shared = np.arange(600) % 10 == 0
    keys = np.array([f"question {row}" for row in range(600)])
    groups = np.where(np.arange(600) < 300, "one", "two")
    keys[shared & (groups == "two")] = keys[shared & (groups == "one")]
    found = [
        left_out(replace(pool, labels=labels, groups=groups, keys=keys))
        for labels in (pool.labels, np.where(shared, -1, pool.labels))
    ]
    assert (found[0] == found[1]).all()


def test_processes_give_the_same_bits(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RouterRecipe(seeds=(0, 1), hidden=(4,), epochs=2, trees=5)
    count = CountingProgress()
    alone = crossfit(pool, NAMES, recipe, progress=count)
    assert (count.total, count.steps, count.closed) == (10, 10, True)
    monkeypatch.setattr("wye.training.fit.trainer.MANY", 1)
    assert (crossfit(pool, NAMES, recipe).logits == alone.logits).all()


SHAPES = [(85, (256, 128, 64)), (6, (6, 6, 3)), (1, (1,))]


@pytest.mark.parametrize("count", [0, 5])
@pytest.mark.parametrize(("inputs", "hidden"), SHAPES)
def test_what_serves_is_what_was_trained(inputs: int, hidden: tuple[int, ...], count: int) -> None:
    torch.manual_seed(0)
    points = np.random.default_rng(0).normal(scale=2, size=(40, inputs))
    low, scale = (torch.tensor(ends, dtype=torch.float32) for ends in pieces_of(points, count))
    module = AttentionMlpModule(inputs, hidden, 0.3, (low, scale)).eval()
    network = AttentionMlp(module.tensors())

    single = module(torch.tensor(points, dtype=torch.float32)).detach().numpy()
    served = np.array([network.logit(row) for row in points])
    np.testing.assert_allclose(served, single, atol=1e-5)

    module.double()
    module.low, module.scale = low.double(), scale.double()
    x = torch.tensor(points, requires_grad=True)
    logits = module(x)
    np.testing.assert_allclose(served, logits.detach().numpy(), rtol=0, atol=1e-12)
    logits.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(network.gradients(points), x.grad.numpy(), rtol=0, atol=1e-12)
