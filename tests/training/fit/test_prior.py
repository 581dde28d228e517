"""A correction of a scorer: in its equations, where it helps, and where it keeps off."""

import numpy as np
import pytest

from wye.router.scorer import Scorer
from wye.training.fit.prior import LEAST, correct
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import Pool, train

NAMES = ("one", "two", "three")


def pool(count: int, seed: int, *, shift: float = 0.0, flip: bool = False) -> Pool:
    """The label hangs on the first column; elsewhere it is shifted, or it hangs on the second."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, len(NAMES)))
    decisive = features[:, 1 if flip else 0]
    labels = (decisive + 0.5 * generator.normal(size=count) > shift).astype(np.int64)
    return Pool(features, labels, np.array(["here"] * count))


@pytest.fixture(scope="module", params=["linear", "extra-trees"])
def prior(request: pytest.FixtureRequest) -> Scorer:
    everything, rows = pool(400, 0), np.arange(400) < 300
    recipe = RouterRecipe(kind=request.param, trees=20)
    return train(everything.examples(rows), everything.examples(~rows), NAMES, recipe).scorer


def loss(scorer: Scorer, on: Pool) -> float:
    logits = scorer.logits(on.features)
    return float(np.mean(np.logaddexp(0, logits) - on.labels * logits))


def test_questions_like_those_that_it_knows_change_nothing_much(prior: Scorer) -> None:
    for seed in range(1, 6):
        own = pool(50, seed)
        found = correct(prior, own, np.ones(50, np.bool_))
        assert loss(found, pool(500, 99)) <= loss(prior, pool(500, 99)) + 0.02


@pytest.mark.parametrize(("count", "least"), [(50, 0.0), (200, 0.05)])
def test_what_is_otherwise_here_is_learned_the_better_the_more_there_is(
    prior: Scorer, count: int, least: float
) -> None:
    own, asked = pool(count, 1, flip=True), pool(500, 2, flip=True)
    found = correct(prior, own, np.ones(count, np.bool_))
    assert loss(found, asked) < loss(prior, asked) - least


def test_its_logit_is_that_of_the_other_and_what_is_added(prior: Scorer) -> None:
    own = pool(300, 1, shift=1.5)
    found = correct(prior, own, np.ones(300, np.bool_))
    assert found.members[:-1] == prior.members
    weights = found.members[-1].tensors["head.weight"][0]
    scale = prior.temperature * len(prior.members)
    added = prior.inputs(own.features) @ (weights / scale) + found.bias - prior.bias
    expected = prior.logits(own.features) + added
    np.testing.assert_allclose(found.logits(own.features), expected, rtol=1e-9, atol=1e-9)
    assert found.bias < prior.bias  # the graph is needed less often here


def test_few_questions_or_one_answer_correct_nothing(prior: Scorer) -> None:
    own = pool(100, 1, flip=True)
    assert correct(prior, own, np.arange(100) < LEAST - 1) is prior
    assert correct(prior, own, own.labels == 1) is prior
