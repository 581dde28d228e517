import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.numerics import logistic
from wye.backends.types import Float64, RankedHit, Ranking
from wye.router.errors import PolicyError, QuestionError
from wye.router.policy import (
    FOLLOWED,
    FORCED,
    PLAN,
    SURE,
    UNFAMILIAR,
    Choice,
    LatencyBudget,
    Policy,
    RoutingModel,
    decide,
    follows_names,
    in_steps,
    is_nested,
    may_take_steps,
    nearest_change,
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


@st.composite
def budgets(draw: st.DrawFn) -> LatencyBudget | None:
    if draw(st.booleans()):
        return None
    times = draw(st.lists(st.integers(1, 5), min_size=3, max_size=3))
    return LatencyBudget(draw(st.integers(1, 6)), dict(zip(order, map(float, times), strict=True)))


def place(choice: Choice) -> int:
    return order.index(choice.route)


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
            assert decide(value, Thresholds(low, high)) == Choice(route, "score")


def test_the_simple_route_is_a_choice() -> None:
    assert decide(0.1, Thresholds(0.5, 0.9), simple=Route.LEXICAL).route == Route.LEXICAL
    for simple in (Route.GRAPH, Route.FUSION):
        with pytest.raises(PolicyError, match="not run the graph"):
            decide(0.1, Thresholds(0.5, 0.9), simple=simple)
        with pytest.raises(PolicyError, match="not run the graph"):
            Policy(Thresholds(0.5, 0.9), simple)


@given(score, score, thresholds(), budgets())
def test_a_higher_score_never_takes_a_simpler_route(
    one: float, other: float, borders: Thresholds, budget: LatencyBudget | None
) -> None:
    low, high = sorted([one, other])
    assert place(decide(low, borders, budget=budget)) <= place(decide(high, borders, budget=budget))


@given(score, thresholds(), thresholds(), budgets())
def test_higher_thresholds_never_take_a_less_simple_route(
    value: float, one: Thresholds, other: Thresholds, budget: LatencyBudget | None
) -> None:
    raised = Thresholds(max(one.low, other.low), max(one.high, other.high))
    for lower in (one, other):
        before, after = (decide(value, one, budget=budget) for one in (lower, raised))
        assert place(after) <= place(before)


@given(score, thresholds(), budgets())
def test_a_budget_is_held_to_whenever_a_route_fits(
    value: float, borders: Thresholds, budget: LatencyBudget | None
) -> None:
    choice = decide(value, borders, budget=budget)
    free = decide(value, borders)
    if budget is None:
        assert choice == free
        return
    times = budget.estimates
    if times[free.route] <= budget.max_latency_ms:
        assert choice == free
    else:
        assert choice.reason.startswith("budget: ")
        best = min(times.values())
        assert times[choice.route] <= max(budget.max_latency_ms, best)


def test_a_budget_takes_the_nearest_route_that_fits_and_says_so() -> None:
    times = {Route.DENSE: 3.0, Route.FUSION: 30.0, Route.GRAPH: 20.0}
    fusion = "budget: fusion takes about 30 ms, 25 ms are allowed"
    graph = "budget: graph takes about 20 ms, 10 ms are allowed"
    none = "budget: no route fits 2 ms, this is the fastest"
    for value, limit, route, said in (
        (0.49, 25, Route.DENSE, fusion),
        (0.5, 25, Route.GRAPH, fusion),
        (0.9, 10, Route.DENSE, graph),
        *((value, 2, Route.DENSE, none) for value in (0.1, 0.5, 0.9)),
    ):
        found = decide(value, Thresholds(0.4, 0.6), budget=LatencyBudget(limit, times))
        assert found == Choice(route, said)


def test_what_makes_no_sense_is_refused() -> None:
    bad = [*itertools.combinations([1.0, 0.5, -0.1], 2), (0.0, 1.1), (float("nan"), 1.0)]
    for low, high in bad:
        with pytest.raises(PolicyError, match="0 <= low <= high <= 1"):
            Thresholds(low, high)
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(PolicyError, match="from 0 to 1"):
            decide(value, Thresholds(0, 1))
    with pytest.raises(PolicyError, match="above 0"):
        LatencyBudget(0, {})
    with pytest.raises(PolicyError, match="fusion, graph"):
        decide(0.5, Thresholds(0, 1), budget=LatencyBudget(1, {Route.DENSE: 1.0}))


def test_operating_points_have_thresholds_of_their_own() -> None:
    fast = Thresholds(0.4, 0.9)
    policy = Policy(Thresholds(0.2, 0.9), points={"fast": fast})
    assert policy.at("fast") == fast
    with pytest.raises(QuestionError, match="no operating point 'slow'; this router has fast"):
        policy.at("slow")
    with pytest.raises(QuestionError, match="has none; `wye train` solves some"):
        Policy(fast).at("fast")


@pytest.mark.parametrize(
    ("choice", "score", "named", "limit", "takes"),
    [
        (Choice(Route.FUSION, SCORE), 0.5, 0.5, None, True),
        (Choice(Route.GRAPH, SCORE), 0.8, 0.0, None, True),
        (Choice(Route.DENSE, SCORE), 0.1, 0.0, None, True),
        (Choice(Route.DENSE, SCORE), SURE, 0.0, None, False),  # not parsed
        (Choice(Route.FUSION, SCORE), 0.5, 0.7, None, False),  # the border is of what is found
        (Choice(Route.FUSION, SCORE), 0.5, math.nan, None, False),  # nobody looked
        (Choice(Route.FUSION, UNFAMILIAR), 0.5, 0.0, None, True),
        (Choice(Route.GRAPH, FORCED), 0.8, 0.0, None, False),
        (Choice(Route.FUSION, SCORE), 0.5, 0.0, 50.0, True),
        (Choice(Route.FUSION, SCORE), 0.5, 0.0, 49.0, False),
    ],
)
def test_steps_are_for_what_is_parsed_and_not_all_found(
    choice: Choice, score: float, named: float, limit: float | None, takes: bool
) -> None:
    budget = None if limit is None else LatencyBudget(limit, {Route.STEPS: 50.0})
    thresholds = Thresholds(0.3, 0.7, 0.7)
    assert may_take_steps(choice, score, named, thresholds, budget) is takes
    everything = Thresholds(0.3, 0.7, 1.0)
    assert may_take_steps(choice, score, 1.0, everything, None) is (
        choice.reason != FORCED and score > SURE
    )


def test_nested_words_are_not_surely_simple() -> None:
    thresholds, simple = Thresholds(0.3, 0.7, 0.7), Choice(Route.HYBRID, SCORE)
    assert may_take_steps(simple, 0.0, 0.5, thresholds, nested=True)
    assert not may_take_steps(simple, 0.0, 0.7, thresholds, nested=True)  # all is found
    assert not may_take_steps(Choice(Route.HYBRID, FORCED), 0.0, 0.5, thresholds, nested=True)


def test_no_steps_where_nobody_knows_how_long_they_take() -> None:
    choice, unknown = Choice(Route.FUSION, SCORE), LatencyBudget(1e6, {})
    assert not may_take_steps(choice, 0.5, 0.0, Thresholds(0.3, 0.7, 1.0), unknown)


@pytest.mark.parametrize(
    ("share", "third", "follows"),
    [(0.1, "a", True), (0.5, "a", False), (0.5, "staff.csv:12", True), (np.nan, "a", False)],
)
def test_names_are_followed_where_little_is_at_hand_or_among_rows(
    share: float, third: str, follows: bool
) -> None:
    ids = "d", "e", third, "f", "g", "far.csv:1"
    hits = tuple(RankedHit(id_, 1.0, rank) for rank, id_ in enumerate(ids, start=1))
    assert follows_names(Route.FUSION, share, Ranking("hybrid", hits, 6)) == follows
    assert follows_names(Route.HYBRID, share, Ranking("hybrid", hits, 6)) == (":" in third)
    assert follows_names(Route.FUSION, share, Ranking("hybrid", (), 0)) == (share < 0.2)


def test_why_a_question_goes_in_steps() -> None:
    assert in_steps(SCORE, has_plan=True) == PLAN
    assert in_steps(SCORE, has_plan=False) == FOLLOWED
    assert in_steps(UNFAMILIAR, has_plan=True) == f"{UNFAMILIAR}; {PLAN}"


def test_a_threshold_of_steps_that_is_none_is_refused() -> None:
    with pytest.raises(PolicyError, match="threshold of steps"):
        Thresholds(0.1, 0.2, 1.5)


@given(score, score, score)
def test_no_smaller_move_changes_the_route(score: float, one: float, other: float) -> None:
    thresholds = Thresholds(min(one, other), max(one, other))
    here = decide(score, thresholds).route
    found = nearest_change(score, thresholds)
    grid = np.linspace(0.001, 0.999, 97).tolist()
    elsewhere = [value for value in grid if decide(value, thresholds).route != here]
    if found is None:
        assert elsewhere == []
        return
    target = score + found.score
    assert target == pytest.approx(found.threshold)
    assert all(abs(value - score) >= abs(found.score) - 1e-12 for value in elsewhere)
    around = [math.nextafter(found.threshold, toward) for toward in (0, found.threshold, 1)]
    assert found.route in {decide(value, thresholds).route for value in around}
    assert found.route != here
    if 0 < score < 1:
        there = logistic(np.array([math.log(score / (1 - score)) + found.logit]))[0]
        assert there == pytest.approx(found.threshold, abs=1e-9)


@pytest.mark.parametrize(
    ("score", "change"),
    [
        (0.1, (Route.FUSION, 0.4, 0.3)),
        (0.45, (Route.DENSE, 0.4, -0.05)),
        (0.5, (Route.GRAPH, 0.6, 0.1)),
        (0.9, (Route.FUSION, 0.6, -0.3)),
    ],
)
def test_the_change_names_the_route_that_it_leads_to(
    score: float, change: tuple[Route, float, float]
) -> None:
    found = nearest_change(score, Thresholds(0.4, 0.6))
    assert found is not None
    assert (found.route, found.threshold, round(found.score, 6)) == change


@pytest.mark.parametrize("thresholds", [(1, 1), (0, 0), (0, 1)])
def test_where_no_score_leads_elsewhere_there_is_no_change(thresholds: tuple[int, int]) -> None:
    assert nearest_change(0.5, Thresholds(*thresholds)) is None


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
