import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.types import Float64
from wye.router.errors import PolicyError
from wye.router.policy import (
    FOLLOWED,
    PLAN,
    SURE,
    UNFAMILIAR,
    Policy,
    RoutingModel,
    decide,
    follows_names,
    in_steps,
    is_nested,
    may_take_steps,
    routes,
)
from wye.router.scorer import Familiarity, Scorer
from wye.router.types import SCORE, Route, Thresholds

unit = st.floats(0, 1)
# Few values, so that scores and thresholds meet.
steps = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
score = st.one_of(unit, steps)
order = routes(Route.DENSE)


@st.composite
def thresholds(draw: st.DrawFn) -> Thresholds:
    low, high = sorted([draw(score), draw(score)])
    return Thresholds(low, high)


def place(route: Route) -> int:
    return order.index(route)


@pytest.mark.parametrize(
    ("low", "high", "scores"),
    [
        (0.3, 0.7, {Route.DENSE: (0.0, 0.3), Route.FUSION: (0.31, 0.69), Route.GRAPH: (0.7, 1.0)}),
        (0.5, 0.5, {Route.DENSE: (0.49,), Route.GRAPH: (0.5, 0.51)}),  # nothing left to fusion
    ],
)
def test_ties_go_to_dense_at_the_low_threshold_and_to_graph_at_the_high_one(
    low: float, high: float, scores: dict[Route, tuple[float, ...]]
) -> None:
    for route, values in scores.items():
        for value in values:
            assert decide(value, Thresholds(low, high)) == route


def test_the_simple_route_is_a_choice() -> None:
    assert decide(0.1, Thresholds(0.5, 0.9), simple=Route.LEXICAL) == Route.LEXICAL
    for simple in (Route.GRAPH, Route.FUSION):
        with pytest.raises(PolicyError, match="not run the graph"):
            decide(0.1, Thresholds(0.5, 0.9), simple=simple)
        with pytest.raises(PolicyError, match="not run the graph"):
            Policy(Thresholds(0.5, 0.9), simple)


@given(score, score, thresholds())
def test_higher_scores_take_no_simpler_route(one: float, other: float, borders: Thresholds) -> None:
    low, high = sorted([one, other])
    assert place(decide(low, borders)) <= place(decide(high, borders))


def test_what_makes_no_sense_is_refused() -> None:
    bad = [*itertools.combinations([1.0, 0.5, -0.1], 2), (0.0, 1.1), (float("nan"), 1.0)]
    for low, high in bad:
        with pytest.raises(PolicyError, match="0 <= low <= high <= 1"):
            Thresholds(low, high)
    with pytest.raises(PolicyError, match="threshold of steps"):
        Thresholds(0.1, 0.2, 1.5)


@pytest.mark.parametrize(
    ("route", "score", "named", "takes"),
    [
        (Route.FUSION, 0.5, 0.5, True),
        (Route.GRAPH, 0.8, 0.0, True),
        (Route.DENSE, 0.1, 0.0, True),
        (Route.DENSE, SURE, 0.0, False),  # not parsed
        (Route.FUSION, 0.5, 0.7, False),  # the border is of what is found
        (Route.FUSION, 0.5, math.nan, False),  # nobody looked
    ],
)
def test_steps_are_for_what_is_parsed_and_not_all_found(
    route: Route, score: float, named: float, takes: bool
) -> None:
    assert may_take_steps(route, score, named, Thresholds(0.3, 0.7, 0.7)) is takes
    everything = Thresholds(0.3, 0.7, 1.0)
    assert may_take_steps(route, score, 1.0, everything) is (score > SURE)


def test_nested_words_are_not_surely_simple() -> None:
    thresholds = Thresholds(0.3, 0.7, 0.7)
    assert may_take_steps(Route.HYBRID, 0.0, 0.5, thresholds, nested=True)
    assert not may_take_steps(Route.HYBRID, 0.0, 0.7, thresholds, nested=True)  # all is found


@pytest.mark.parametrize("share", [0.1, 0.5, np.nan])
@pytest.mark.parametrize("among_rows", [False, True])
def test_names_are_followed_where_little_is_at_hand_or_among_rows(
    share: float, *, among_rows: bool
) -> None:
    assert follows_names(Route.FUSION, share, among_rows) == (share < 0.2 or among_rows)
    assert follows_names(Route.HYBRID, share, among_rows) == among_rows


def test_why_a_question_goes_in_steps() -> None:
    assert in_steps(SCORE, has_plan=True) == PLAN
    assert in_steps(SCORE, has_plan=False) == FOLLOWED
    assert in_steps(UNFAMILIAR, has_plan=True) == f"{UNFAMILIAR}; {PLAN}"


@pytest.mark.parametrize(
    ("question", "nested"),
    [
        ("In which town was the employer of the discoverer of benzene born?", True),
        ("who ran the school that the inventor of the zip attended?", True),
        ("What is a name for the tower by an architect who hated lifts?", True),
        ("Who is the author of Dubliners?", False),
        ("Where was the designer of Pascal born?", False),
        ("What is the length of the river?", False),
        ("the of the of the of", False),
        ("", False),
    ],
)
def test_descriptions_within_descriptions_show_in_the_words(question: str, nested: bool) -> None:
    assert is_nested(question) is nested
    assert is_nested(question.upper()) is nested


def test_long_texts_are_looked_through_in_no_time() -> None:
    start = time.thread_time()
    for text in ("the a b c " * 20_000, "the " + "a-" * 100_000):
        assert not is_nested(text)
    assert time.thread_time() - start < 0.5


POLICY = Policy(Thresholds(0.4, 0.6), Route.LEXICAL)


@pytest.fixture
def model(scorer: Scorer) -> RoutingModel:
    return RoutingModel("test/v1", scorer, POLICY, None)


def test_a_decision_is_the_same_alone_or_in_a_batch(model: RoutingModel, features: Float64) -> None:
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


def test_another_policy_leaves_the_scores(model: RoutingModel, features: Float64) -> None:
    other = model.with_policy(Policy(Thresholds(0, 0)))
    before, after = model.decide(features), other.decide(features)
    assert [one.score for one in before] == [one.score for one in after]
    assert {decision.route for decision in after} == {Route.GRAPH}


def test_an_unfamiliar_question_is_fused_and_says_so(scorer: Scorer, features: Float64) -> None:
    none = Familiarity(np.eye(len(scorer.names)), -1.0)
    lost = RoutingModel("lost/v1", replace(scorer, familiarity=none), POLICY, None)
    for decision in lost.decide(features, explain=True):
        assert (decision.route, decision.reason) == (Route.FUSION, UNFAMILIAR)
        assert decision.score == 0.5
        assert decision.contributions == ()
