import math
from dataclasses import replace

import numpy as np
import pytest

from wye.backends.types import Float64
from wye.router.errors import PolicyError
from wye.router.model import RoutingModel
from wye.router.policy import UNFAMILIAR, Policy
from wye.router.scorer import Familiarity, Scorer
from wye.router.types import Route, Thresholds

POLICY = Policy(
    Thresholds(0.4, 0.6),
    Route.LEXICAL,
    {Route.LEXICAL: 1.0, Route.FUSION: 30.0, Route.GRAPH: 20.0},
)


@pytest.fixture
def model(scorer: Scorer) -> RoutingModel:
    return RoutingModel("test/v1", scorer, POLICY, None)


def test_a_decision_is_the_same_alone_and_in_a_batch(
    model: RoutingModel, features: Float64
) -> None:
    together = model.decide(features, explain=True)
    assert len({decision.route for decision in together}) > 1
    for row, decision in enumerate(together):
        assert model.decide(features[row : row + 1], explain=True) == [decision]


def test_a_decision_can_be_replayed(model: RoutingModel, scorer: Scorer, features: Float64) -> None:
    scores = scorer.scores(features).tolist()
    for score, decision in zip(scores, model.decide(features), strict=True):
        assert decision.score == score
        assert decision.logit is not None
        assert score == pytest.approx(1 / (1 + math.exp(-decision.logit)))
        expected = Route.GRAPH if score >= 0.6 else Route.LEXICAL if score <= 0.4 else Route.FUSION
        assert decision.route == expected
        assert (decision.reason, decision.model) == ("score", "test/v1")
        assert decision.thresholds == POLICY.thresholds
        assert decision.contributions == ()
        assert decision.nearest_change is None


def test_an_explained_decision_adds_up(model: RoutingModel, features: Float64) -> None:
    for decision in model.decide(features, explain=True):
        assert decision.logit is not None
        total = math.fsum(part.logit for part in decision.contributions)
        assert total == pytest.approx(decision.logit, abs=1e-4)
        assert decision.nearest_change is not None
        assert decision.nearest_change.route != decision.route


def test_a_budget(model: RoutingModel, features: Float64) -> None:
    found = model.decide(features, max_latency_ms=5)
    assert {decision.route for decision in found} == {Route.LEXICAL}
    assert any(decision.reason.startswith("budget: ") for decision in found)
    without = model.with_policy(Policy(Thresholds(0.4, 0.6)))
    with pytest.raises(PolicyError, match="The latency is unknown"):
        without.decide(features, max_latency_ms=5)


def test_another_policy_leaves_the_scores(model: RoutingModel, features: Float64) -> None:
    other = model.with_policy(Policy(Thresholds(0, 0)))
    before, after = model.decide(features), other.decide(features)
    assert [one.score for one in before] == [one.score for one in after]
    assert {decision.route for decision in after} == {Route.GRAPH}


def test_no_question_no_decision(model: RoutingModel) -> None:
    assert model.decide(np.zeros((0, 10)), explain=True) == []


def test_an_operating_point_moves_the_thresholds_alone(
    model: RoutingModel, features: Float64
) -> None:
    everything = Thresholds(1.0, 1.0)
    pointed = model.with_policy(replace(model.policy, points={"fast": everything}))
    assert pointed.at("") is pointed
    found = pointed.at("fast").decide(features)
    assert {decision.route for decision in found} == {model.policy.simple}
    assert [one.score for one in found] == [one.score for one in model.decide(features)]


def test_an_unfamiliar_question_goes_to_fusion_and_says_so(
    scorer: Scorer, features: Float64
) -> None:
    none = Familiarity(np.eye(len(scorer.names)), -1.0)
    lost = RoutingModel("lost/v1", replace(scorer, familiarity=none), POLICY, None)
    for decision in lost.decide(features, explain=True):
        assert (decision.route, decision.reason) == (Route.FUSION, UNFAMILIAR)
        assert decision.score == 0.5
        assert decision.contributions == ()
