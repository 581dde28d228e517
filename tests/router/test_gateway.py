from typing import NoReturn

import numpy as np
import pytest

from tests.router.fakes import ByLength, FakeAnalyser, FakeArms, FakeModels, column
from tests.router.test_relevance import model
from wye.backends.types import Float64
from wye.featurizer.plan import Plan, Step
from wye.router.batch import LONGEST_STEPPED, Batch
from wye.router.errors import ModelFileError, QuestionError
from wye.router.evidence import COLUMNS
from wye.router.fusion import FusionSettings
from wye.router.gateway import EMPTY_INDEX, NO_QUESTION, Gateway
from wye.router.relevance import RelevanceModel
from wye.router.session import decide_without_index
from wye.router.types import ARMS, FURTHER, Ask, Route

BY_RANK = FusionSettings("rrf")
BOTH = ["one", "eleven"]


@pytest.fixture
def arms() -> FakeArms:
    return FakeArms()


def gateway(
    arms: FakeArms,
    words: FakeAnalyser | None = None,
    fusion: FusionSettings = BY_RANK,
    relevance: RelevanceModel | None = None,
) -> Gateway:
    return Gateway(arms.snapshot, FakeModels(words or FakeAnalyser()), fusion, relevance)


ENCODED, PARSED = ("encode", 2), ("parse", 2)


@pytest.mark.parametrize(
    ("route", "models", "stages"),
    [
        (Route.DENSE, [ENCODED], {"encoding"}),
        (Route.LEXICAL, [], set()),
        (Route.GRAPH, [ENCODED, PARSED], {"encoding", "parsing", "seeds"}),
    ],
)
def test_one_arm_answers_alone_and_runs_the_models_that_it_needs(
    arms: FakeArms, route: Route, models: list[object], stages: set[str]
) -> None:
    words = FakeAnalyser()
    replies = gateway(arms, words).search(["one", "two"], Ask(route, 2))
    assert [reply.question for reply in replies] == ["one", "two"]
    assert arms.asked == [(route, 2, 2)]
    assert replies[0].ranking is replies[0].arms[route]
    assert (replies[0].version, replies[0].decision) == (3, None)
    assert gateway(arms).search([], Ask(route, 2)) == []
    assert words.calls == models
    # Time is shared by the batch.
    assert {*replies[0].seconds} == {*stages, route}
    assert replies[0].seconds == replies[1].seconds


def test_fusion_searches_deeper_and_keeps_the_lists(arms: FakeArms) -> None:
    (reply,) = gateway(arms).search(["one"], Ask(Route.FUSION, 2))
    assert arms.asked == [("dense", 1, 100), ("graph", 1, 100)]
    assert (reply.ranking.retriever, len(reply.ranking.hits)) == ("fusion", 2)
    assert {*reply.arms} == {"dense", "graph"}
    hit = reply.ranking.hits[0]
    assert hit.sources
    assert [source.retriever for source in hit.sources] == ["dense", "graph"]
    assert len(gateway(arms).search(["one"], Ask(Route.FUSION, 1000))[0].ranking.hits) == 4


def test_the_router_chooses_for_each_question_and_equal_routes_go_together(arms: FakeArms) -> None:
    questions = ["one", "eleven", "four", "two"]
    replies = gateway(arms).search(questions, Ask(Route.AUTO, 2))
    assert [reply.question for reply in replies] == questions
    assert [reply.route for reply in replies] == ["dense", "graph", "fusion", "dense"]
    assert [reply.ranking.retriever for reply in replies] == ["dense", "graph", "fusion", "dense"]
    asked = [("dense", 1, 100), ("dense", 2, 2), ("graph", 1, 2), ("graph", 1, 100)]
    assert sorted(arms.asked) == asked
    arms_of = [{"dense"}, {"graph"}, {"dense", "graph"}, {"dense"}]
    assert [{*reply.arms} for reply in replies] == arms_of
    assert replies[0].decision is not None
    assert replies[0].decision.score == 3 / 8
    stages = {"parsing", "features", "routing", "encoding", "seeds", "graph"}
    assert {*replies[1].seconds} == stages
    # Fusion weighs by the question's score.
    first = replies[2].ranking.hits[0]
    assert first.sources
    weights = {source.retriever: source.share * (60 + source.rank) for source in first.sources}
    assert weights == {"dense": pytest.approx(0.5), "graph": pytest.approx(0.5)}


def test_a_decision_alone_searches_nothing_and_is_the_one_of_searching(arms: FakeArms) -> None:
    found = gateway(arms).decide(BOTH, Ask(explain=True))
    assert arms.asked == []
    replies = gateway(arms).search(BOTH, Ask(Route.AUTO, 1, explain=True))
    assert found == [reply.decision for reply in replies]
    assert found[0].reason == "True"
    assert gateway(arms).decide([]) == []


def test_a_route_that_is_given_asks_no_router(arms: FakeArms) -> None:
    class WithoutRouter:
        analyser = FakeAnalyser()

        @property
        def router(self) -> NoReturn:
            raise ModelFileError("there is no router")

    without = Gateway(arms.snapshot, WithoutRouter(), FusionSettings())
    assert without.search(["one"], Ask(Route.GRAPH, 1))[0].decision is None
    with pytest.raises(ModelFileError, match="there is no router"):
        without.search(["one"], Ask(Route.AUTO, 1))


def test_an_empty_index_says_so_and_the_router_chooses_nothing() -> None:
    empty = gateway(FakeArms(0))
    ranking = empty.search(["one"], Ask(Route.GRAPH, 2))[0].ranking
    assert (ranking.hits, ranking.degraded) == ((), EMPTY_INDEX)
    (reply,) = empty.search(["one"], Ask(Route.AUTO, 1))
    assert reply.route == Route.DENSE
    assert reply.decision is not None
    assert reply.decision.reason == f"degraded: {EMPTY_INDEX}"


@pytest.mark.parametrize("route", [Route.AUTO, Route.LEXICAL, Route.STEPS])
def test_thanks_are_not_searched_beside_questions_that_are(arms: FakeArms, route: Route) -> None:
    target = gateway(arms)
    turns = ["Thanks, that's great!", "one", "ok, bye"]
    replies = target.search(turns, Ask(route, 2))
    assert [reply.question for reply in replies] == turns
    assert [bool(reply.ranking.hits) for reply in replies] == [False, True, False]
    assert [reply.ranking.degraded for reply in replies] == [NO_QUESTION, "", NO_QUESTION]
    assert replies[1].ranking == target.search(["one"], Ask(route, 2))[0].ranking
    assert target.search(["Nice"], Ask(route, 2))[0].ranking.hits  # a town


@pytest.mark.parametrize(
    ("fusion", "route", "asked"),
    [
        (FusionSettings("rrf", s=0.0), Route.FUSION, ["dense"]),  # what weighs nothing is left out
        (FusionSettings(), Route.FUSION, ["dense", "lexical", "graph"]),
        (FusionSettings(), Route.HYBRID, ["dense", "lexical"]),
    ],
)
def test_fusion_asks_the_arms_that_it_weighs(
    arms: FakeArms, fusion: FusionSettings, route: Route, asked: list[str]
) -> None:
    (reply,) = gateway(arms, fusion=fusion).search(["one"], Ask(route, 2))
    assert [name for name, _, _ in arms.asked] == asked
    assert (reply.route, {*reply.arms}, len(reply.ranking.hits)) == (route, {*asked}, 2)


def test_a_filter_reaches_the_arms(arms: FakeArms) -> None:
    (reply,) = gateway(arms).search(["one"], Ask(Route.DENSE, 4, {"any": 1}))
    assert [hit.id for hit in reply.ranking.hits] == ["p1", "p2", "p3"]


@pytest.mark.parametrize(
    ("questions", "k", "says"),
    [
        (["one"], 0, "k is 0"),
        (["one"], -3, "k is -3"),
        ([" "], 1, "The question is empty"),
        (["\u200b\u200c \u2060\ufeff"], 1, "The question is empty"),
        ([" \u0301\n\u20dd"], 1, "The question is empty"),
        (["e\u0301", "\u200b?", "\u200b"], 1, "Question 3 is empty"),
        (["one", ""], 1, "Question 2 is empty"),
        (["caf\udcff"], 1, "The question is not valid Unicode"),  # as Python reads other bytes
    ],
)
def test_what_no_route_can_answer(arms: FakeArms, questions: list[str], k: int, says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        gateway(arms).search(questions, Ask(Route.DENSE, k))
    with pytest.raises(QuestionError, match=says):
        gateway(arms).retrieve_all(questions, k)


def test_retrieving_from_all_arms_chooses_nothing(arms: FakeArms) -> None:
    found = gateway(arms).retrieve_all(["one", "two"], 3)
    assert arms.asked == [("dense", 2, 100), ("graph", 2, 100), ("lexical", 2, 100)]
    assert [one.results.query.text for one in found] == ["one", "two"]
    lists = found[0].results.rankings
    assert {arm: len(ranking.hits) for arm, ranking in lists.items()} == dict.fromkeys(ARMS, 3)
    assert {"parsing", "dense", "lexical", "graph", "steps"} <= {*found[0].seconds}
    assert [one.steps for one in found] == [None, None]
    assert gateway(arms).retrieve_all([], 3) == []


def test_trees_are_told_where_a_decision_is_explained(arms: FakeArms) -> None:
    made = gateway(arms)
    trees = [("(ROOT (X one))",), ("(ROOT (X eleven))",)]
    replies = made.search(BOTH, Ask(Route.AUTO, 1, explain=True))
    assert [reply.decision.trees for reply in replies if reply.decision] == trees
    assert [decision.trees for decision in made.decide(BOTH, Ask(explain=True))] == trees
    assert made.decide(["one"])[0].trees == ()
    assert decide_without_index(["one"], FakeAnalyser(), ByLength(), Ask(explain=True))[0].trees


class ByCorpus(ByLength):
    """Sends to graph what the dense list is not sure of."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("word_length_max", "dense_best", "seed_count")

    def score(self, features: Float64) -> list[float]:
        return [1 - best for best in column(features, "dense_best")]


def test_a_router_that_asks_the_corpus_sees_seeds_and_the_dense_list(arms: FakeArms) -> None:
    model = ByCorpus()
    asking = Gateway(arms.snapshot, FakeModels(router=model), BY_RANK)
    found = asking.decide(BOTH)
    assert arms.asked == [("dense", 2, 100)]
    assert [decision.route for decision in found] == ["dense", "dense"]
    arms.log.clear()
    replies = asking.search(BOTH, Ask(Route.AUTO, 2))
    assert [reply.decision for reply in replies] == found
    # The dense list that was looked at is the one that answers, and deep enough to be fused.
    assert arms.asked == [("dense", 2, 100)]
    assert len(replies[0].ranking.hits) == 2
    first, second = model.seen
    assert first.tobytes() == second.tobytes()
    known = np.flatnonzero(~np.isnan(first).any(axis=0))
    assert [COLUMNS[place] for place in known] == ["word_length_max", "seed_count", "dense_best"]
    stages = {"parsing", "features", "encoding", "dense", "seeds", "routing"}
    assert {*replies[0].seconds} == stages


class ByText(ByCorpus):
    """Looks at the dense list alone, for which nothing is parsed."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("dense_best",)


def test_an_explanation_has_trees_though_the_router_parses_nothing(arms: FakeArms) -> None:
    words = FakeAnalyser()
    made = Gateway(arms.snapshot, FakeModels(words, ByText()), BY_RANK)
    assert made.decide(["one"])[0].trees == ()
    assert words.calls == [("encode", 1)]
    assert made.decide(["one"], Ask(explain=True))[0].trees == ("(ROOT (X one))",)


def test_only_a_router_of_the_question_alone_needs_no_index(arms: FakeArms) -> None:
    words = FakeAnalyser()
    with pytest.raises(ModelFileError, match="Name its index with --index DIR or WYE_INDEX"):
        decide_without_index(["one"], words, ByCorpus())
    assert words.calls == []
    assert decide_without_index(BOTH, words, ByLength()) == gateway(arms).decide(BOTH)
    assert decide_without_index([], words, ByLength()) == []
    with pytest.raises(QuestionError, match="Question 2 is empty"):
        decide_without_index(["one", " "], words, ByLength())


def test_steps_without_a_plan_are_fusion_bit_for_bit(arms: FakeArms) -> None:
    fusion = gateway(arms).search(BOTH, Ask(Route.FUSION, 2, explain=True))
    steps = gateway(arms).search(BOTH, Ask(Route.STEPS, 2, explain=True))
    assert [reply.ranking for reply in steps] == [reply.ranking for reply in fusion]
    assert [reply.arms.keys() for reply in steps] == [reply.arms.keys() for reply in fusion]
    assert [(one.route, one.chain, one.searches) for one in steps] == [(Route.STEPS, (), 0)] * 2


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all behind the first word of a question be a phrase to be resolved."""

    def plan(batch: Batch, position: int) -> Plan:
        text = batch.questions[position]
        start = text.find(" ") + 1
        return Plan((Step((start, len(text)), "bridge", "person"),) if start else ())

    monkeypatch.setattr(Batch, "plan", plan)
    monkeypatch.setattr("wye.router.batch.may_have_plan", lambda _: True)


def test_steps_search_for_phrases_and_names_under_the_filter(arms: FakeArms, planned: None) -> None:
    keep = {"type": "eq", "key": "a", "value": 1}
    (nested,) = gateway(arms).search(["who that"], Ask(Route.STEPS, 2, keep))
    (plain,) = gateway(arms).search(["who"], Ask(Route.STEPS, 2, keep))
    asked = [texts for name, texts, _ in arms.log if name == Route.DENSE]
    named = ["who Name b, Name d", "who Name b", "who Name d"]
    assert asked == [["that"], ["who that"], named, ["who"]]
    (step,) = nested.chain
    assert [one.name for one in step.candidates] == ["Name b", "Name d"]
    assert nested.searches == 4
    assert nested.ranking.retriever == Route.STEPS
    assert {hit.id for hit in nested.ranking.hits} <= {"p1", "p2", "p3"}
    assert plain.chain == ()
    assert "steps" in nested.seconds


def test_what_the_router_takes_apart_is_answered_as_steps_are_where_there_is_a_plan(
    arms: FakeArms, planned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.router.gateway.share_at_hand", lambda features: [0.0] * len(features))
    questions = ["one two", "four four", "four", "eleven eleven"]
    routed = Gateway(arms.snapshot, FakeModels(router=ByLength(steps=0.5)), FusionSettings())
    replies = routed.search(questions, Ask(Route.AUTO, 2))
    assert [reply.route for reply in replies] == ["dense", "steps", "steps", "steps"]
    assert replies[1].decision is not None
    assert replies[1].decision.reason.startswith("plan: ")
    stepped = routed.search(questions, Ask(Route.STEPS, 2))
    for place in (1, 3):
        assert replies[place].ranking == stepped[place].ranking
        assert replies[place].chain == stepped[place].chain != ()
    assert routed.decide(questions) == [reply.decision for reply in replies]

    (begun,) = routed.begin(questions, Ask(Route.AUTO, 2))
    assert ({*begun.replies}, begun.in_steps) == ({0}, [1, 2, 3])
    for place in (3, 1):
        (reply,) = begun.finish([place]).values()
        assert (reply.ranking, reply.chain) == (replies[place].ranking, replies[place].chain)


def test_what_is_nested_by_its_words_is_looked_at_whatever_its_score(
    arms: FakeArms, planned: None
) -> None:
    routed = Gateway(arms.snapshot, FakeModels(router=ByLength(steps=0.5)), FusionSettings())
    questions = ["one of a set", "a set of the one of a set", "the one by the set who is"]
    replies = routed.search(questions, Ask(Route.AUTO, 2))
    scores = [one.score for one in routed.decide(questions) if one.score is not None]
    assert max(scores) < 0.4  # the simple route's
    assert [reply.route for reply in replies] == ["dense", "steps", "steps"]


def test_among_rows_names_are_followed_without_a_plan_whatever_the_score(
    arms: FakeArms, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed = Gateway(arms.snapshot, FakeModels(router=ByLength(steps=0.5)), FusionSettings())
    questions = ["one of a set", "a set of the one of a set"]
    for among_rows, routes in ((False, ["dense", "dense"]), (True, ["dense", "steps"])):
        monkeypatch.setattr("wye.router.gateway.cells_of", lambda _, is_row=among_rows: is_row)
        assert [one.route for one in routed.decide(questions)] == routes


def test_what_is_long_is_not_taken_apart(arms: FakeArms, planned: None) -> None:
    long = " ".join(["who", *["that"] * LONGEST_STEPPED])
    replies = gateway(arms).search([long, "who that"], Ask(Route.STEPS, 2))
    assert [reply.searches for reply in replies] == [0, 4]
    (fused,) = gateway(arms).search([long], Ask(Route.FUSION, 2))
    assert replies[0].ranking == fused.ranking


@pytest.mark.parametrize("route", [Route.DENSE, Route.HYBRID, Route.FUSION, Route.STEPS])
def test_every_hit_has_a_relevance_whatever_the_route_and_number_asked_for(route: Route) -> None:
    judged = gateway(FakeArms(7), relevance=model())
    whole, one = (judged.search(["Which passage?"], Ask(route, k))[0] for k in (7, 1))
    assert len(whole.relevance) == len(whole.ranking.hits) == 7
    assert one.relevance == whole.relevance[:1]
    assert one.ranking.hits == whole.ranking.hits[:1]
    assert one.answerability == whole.answerability
    assert all(0 < own < 1 for own in whole.relevance)


def test_what_is_not_likely_enough_is_left_out() -> None:
    judged = gateway(FakeArms(7), relevance=model())
    whole = judged.search(["Which passage?"], Ask(Route.DENSE, 7))[0]
    least = sorted(whole.relevance)[3]
    (reply,) = judged.search(["Which passage?"], Ask(Route.DENSE, 7, min_relevance=least))
    assert [hit.rank for hit in reply.ranking.hits] == list(range(1, len(reply.relevance) + 1))
    assert reply.relevance == tuple(own for own in whole.relevance if own >= least)
    assert reply.answerability == whole.answerability


@pytest.mark.parametrize("route", FURTHER)
def test_of_a_further_arm_no_relevance_is_known(route: Route) -> None:
    judged = gateway(FakeArms(7), relevance=model())
    dense, further = (judged.search(["Which one?"], Ask(own, 3))[0] for own in (Route.DENSE, route))
    assert [hit.id for hit in further.ranking.hits] == [hit.id for hit in dense.ranking.hits]
    assert (len(dense.relevance), further.relevance, further.answerability) == (3, (), None)
    with pytest.raises(QuestionError, match=f"relevance of hits of '{route}' is unknown"):
        judged.search(["Which passage?"], Ask(route, 3, min_relevance=0.5))


@pytest.mark.parametrize("route", FURTHER)
def test_a_further_arm_is_fused_by_rank_where_fusion_has_its_list(route: Route) -> None:
    arms = FakeArms(4)
    fusion = FusionSettings("rrf", lists=(Route.DENSE, route, Route.GRAPH))
    asking = Gateway(arms.snapshot, FakeModels(), fusion)
    (reply,) = asking.search(["one"], Ask(Route.FUSION, 4))
    assert [*reply.arms] == [Route.DENSE, route, Route.GRAPH]
    assert {source.retriever for source in reply.ranking.hits[0].sources} == {*reply.arms}


def test_without_a_model_no_relevance_is_known_and_none_can_be_asked_for(arms: FakeArms) -> None:
    (reply,) = gateway(arms).search(["one"], Ask(Route.DENSE, 2))
    assert (reply.relevance, reply.answerability) == ((), None)
    with pytest.raises(QuestionError, match="leave min_relevance out"):
        gateway(arms).search(["one"], Ask(Route.DENSE, 2, min_relevance=0.5))
