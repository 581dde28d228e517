from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from backends.types import Float64
from featurizer.constituency.tree import Tree
from featurizer.registry import FEATURE_NAMES
from router.errors import FusionError, ModelFileError, QuestionError
from router.fusion import FusionSettings
from router.gateway import EMPTY_INDEX, SEEN, Gateway, decide_without_index
from router.query_performance import NAMES
from router.types import AnalysedQuestions, FusedHit, Reply, Route
from tests.router.fakes import ByLength, FakeArms, FakeQuestions

BY_RANK = FusionSettings("rrf")


def gateway(
    arms: FakeArms, words: FakeQuestions | None = None, fusion: FusionSettings | None = None
) -> Gateway:
    analyses = words or FakeQuestions()
    return Gateway(lambda: arms, lambda: analyses, fusion or BY_RANK, ByLength)


def ids(reply: Reply) -> list[str]:
    return [hit.id for hit in reply.ranking.hits]


@pytest.mark.parametrize("route", [Route.DENSE, Route.LEXICAL, Route.GRAPH])
def test_one_arm_answers_alone(route: Route) -> None:
    arms = FakeArms()
    replies = gateway(arms).search(["one", "two"], route, 2)
    assert [reply.question for reply in replies] == ["one", "two"]
    assert arms.asked == [(route, 2, 2)]
    assert replies[0].ranking is replies[0].arms[route]
    assert replies[0].version == 3


def test_fusion_searches_deeper_and_keeps_the_lists() -> None:
    arms = FakeArms()
    reply = gateway(arms).search(["one"], Route.FUSION, 2)[0]
    assert arms.asked == [("dense", 1, 100), ("graph", 1, 100)]
    assert reply.ranking.retriever == "fusion"
    assert len(reply.ranking.hits) == 2
    assert {*reply.arms} == {"dense", "graph"}
    hit = reply.ranking.hits[0]
    assert isinstance(hit, FusedHit)
    assert [source.retriever for source in hit.sources] == ["dense", "graph"]


def test_the_router_chooses_for_each_question_and_equal_routes_go_together() -> None:
    arms = FakeArms()
    replies = gateway(arms).search(["one", "eleven", "four", "two"], Route.AUTO, 2)
    assert [reply.route for reply in replies] == ["dense", "graph", "fusion", "dense"]
    assert [reply.question for reply in replies] == ["one", "eleven", "four", "two"]
    assert [reply.ranking.retriever for reply in replies] == ["dense", "graph", "fusion", "dense"]
    assert sorted(arms.asked) == [
        ("dense", 1, 100),
        ("dense", 2, 2),
        ("graph", 1, 2),
        ("graph", 1, 100),
    ]
    assert [{*reply.arms} for reply in replies] == [
        {"dense"},
        {"graph"},
        {"dense", "graph"},
        {"dense"},
    ]
    assert replies[0].decision is not None
    assert replies[0].decision.score == 3 / 8
    assert {*replies[1].seconds} == {"parsing", "routing", "graph"}


def test_fusion_by_the_router_weighs_by_the_questions_score() -> None:
    (reply,) = gateway(FakeArms()).search(["four"], Route.AUTO, 4)
    first = reply.ranking.hits[0]
    assert isinstance(first, FusedHit)
    assert {source.retriever: source.share * (60 + source.rank) for source in first.sources} == {
        "dense": pytest.approx(0.5),
        "graph": pytest.approx(0.5),
    }
    (other,) = gateway(FakeArms()).search(["fours"], Route.FUSION, 4)
    assert other.decision is None


def test_a_decision_alone_searches_nothing_and_is_the_one_that_searching_makes() -> None:
    arms = FakeArms()
    found = gateway(arms).decide(["one", "eleven"], max_latency_ms=9, explain=True)
    assert arms.asked == []
    replies = gateway(arms).search(["one", "eleven"], Route.AUTO, 1, max_latency_ms=9, explain=True)
    assert found == [reply.decision for reply in replies]
    assert found[0].reason == "9 True"
    assert gateway(arms).decide([]) == []


def test_a_route_that_is_given_asks_no_router() -> None:
    arms, words = FakeArms(), FakeQuestions()
    without = Gateway(lambda: arms, lambda: words, FusionSettings())
    assert without.search(["one"], Route.GRAPH, 1)[0].decision is None
    with pytest.raises(ModelFileError, match="made without a router; name the route"):
        without.search(["one"], Route.AUTO, 1)


def test_the_router_chooses_nothing_in_an_empty_index_and_says_so() -> None:
    (reply,) = gateway(FakeArms(0)).search(["one"], Route.AUTO, 1)
    assert reply.route == Route.DENSE
    assert reply.decision is not None
    assert reply.decision.reason == f"degraded: {EMPTY_INDEX}"


def test_a_list_without_weight_is_not_searched() -> None:
    arms = FakeArms()
    gateway(arms, fusion=FusionSettings("rrf", s=0.0)).search(["one"], Route.FUSION, 2)
    assert [name for name, _, _ in arms.asked] == ["dense"]


def test_no_weight_at_all_is_refused() -> None:
    nothing = FusionSettings("rrf", lists=("dense",), s=1.0)
    with pytest.raises(FusionError, match="Nothing is left to fuse"):
        gateway(FakeArms(), fusion=nothing).search(["one"], Route.FUSION, 2)


def test_words_need_no_models() -> None:
    words = FakeQuestions()
    gateway(FakeArms(), words).search(["one"], Route.LEXICAL, 2)
    assert words.calls == 0


def test_time_is_shared_by_the_batch() -> None:
    replies = gateway(FakeArms()).search(["one", "two"], Route.DENSE, 2)
    assert replies[0].seconds["parsing"] == 1
    assert {*replies[0].seconds} == {"parsing", "dense"}


def test_a_filter_reaches_the_arms() -> None:
    assert ids(gateway(FakeArms()).search(["one"], Route.DENSE, 4, {"any": 1})[0]) == [
        "p1",
        "p2",
        "p3",
    ]


def test_more_than_there_are_returns_all() -> None:
    assert len(gateway(FakeArms()).search(["one"], Route.FUSION, 1000)[0].ranking.hits) == 4


def test_an_empty_index_says_so() -> None:
    reply = gateway(FakeArms(0)).search(["one"], Route.GRAPH, 2)[0]
    assert reply.ranking.hits == ()
    assert reply.ranking.degraded == EMPTY_INDEX


def test_no_question_no_reply() -> None:
    assert gateway(FakeArms()).search([], Route.DENSE, 2) == []


@pytest.mark.parametrize(
    ("questions", "k", "says"),
    [
        (["one"], 0, "k is 0"),
        (["one"], -3, "k is -3"),
        ([" "], 1, "The question is empty"),
        (["one", ""], 1, "Question 2 is empty"),
    ],
)
def test_what_no_route_can_answer(questions: list[str], k: int, says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        gateway(FakeArms()).search(questions, Route.DENSE, k)


def test_adaptive_fusion_asks_every_arm_and_hybrid_all_but_the_graph() -> None:
    arms = FakeArms()
    adaptive = gateway(arms, fusion=FusionSettings())
    assert {*adaptive.search(["one"], Route.FUSION, 2)[0].arms} == {"dense", "lexical", "graph"}
    arms.log.clear()
    reply = adaptive.search(["one"], Route.HYBRID, 2)[0]
    assert reply.route == Route.HYBRID
    assert [name for name, _, _ in arms.asked] == ["dense", "lexical"]
    assert len(reply.ranking.hits) == 2


def test_consulting_asks_every_arm_and_chooses_nothing() -> None:
    arms, words = FakeArms(), FakeQuestions()
    found = gateway(arms, words).retrieve_all(["one", "two"], 3, {"any": 1})
    assert arms.asked == [("dense", 2, 3), ("lexical", 2, 3), ("graph", 2, 3)]
    assert [one.results.query.text for one in found] == ["one", "two"]
    assert {arm: len(r.hits) for arm, r in found[0].results.rankings.items()} == {
        Route.DENSE: 3,
        Route.LEXICAL: 3,
        Route.GRAPH: 3,
    }
    assert {"parsing", "dense", "lexical", "graph"} <= {*found[0].seconds}
    assert gateway(arms).retrieve_all([], 3) == []
    with pytest.raises(QuestionError, match="k is 0"):
        gateway(arms).retrieve_all(["one"], 0)


class Parsing(FakeQuestions):
    """Also finds a tree for each question."""

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> AnalysedQuestions:
        asked = super().analyse(texts, wanted, features=features)
        return replace(asked, trees=[(Tree("ROOT", (Tree(text),)),) for text in texts])


def test_trees_are_told_where_a_decision_is_explained() -> None:
    made = gateway(FakeArms(), Parsing())
    replies = made.search(["one", "eleven"], Route.AUTO, 1, explain=True)
    assert [r.decision.trees for r in replies if r.decision] == [
        ("(ROOT one)",),
        ("(ROOT eleven)",),
    ]
    assert made.decide(["one"], explain=True)[0].trees == ("(ROOT one)",)
    assert made.decide(["one"])[0].trees == ()
    assert decide_without_index(["one"], Parsing(), ByLength(), explain=True)[0].trees


class ByCorpus(ByLength):
    """Sends to graph what the dense list is not sure of."""

    @property
    def asks_corpus(self) -> bool:
        return True

    def score(self, features: Float64) -> list[float]:
        best = features[:, 1 + NAMES.index("dense_best") - len(FEATURE_NAMES)]
        return (1 - best).tolist()  # type: ignore[no-any-return]


def test_a_router_that_asks_the_corpus_sees_seeds_and_the_dense_list() -> None:
    arms, model = FakeArms(), ByCorpus()
    asking = Gateway(lambda: arms, FakeQuestions, BY_RANK, lambda: model)
    found = asking.decide(["one", "eleven"])
    assert arms.asked == [("dense", 2, SEEN)]
    assert [decision.route for decision in found] == ["dense", "dense"]
    arms.log.clear()
    replies = asking.search(["one", "eleven"], Route.AUTO, 2)
    assert [reply.decision for reply in replies] == found
    # The dense list that was looked at is the one that answers, and deep enough to be fused.
    assert arms.asked == [("dense", 2, 100)]
    assert len(replies[0].ranking.hits) == 2
    (width,) = {features.shape[1] for features in model.seen}
    assert width == 1 + len(NAMES) - len(FEATURE_NAMES)
    assert (model.seen[0] == model.seen[1]).all()
    assert {*replies[0].seconds} == {"parsing", "dense", "seeds", "routing"}


def test_a_router_that_looks_at_the_question_alone_needs_no_index() -> None:
    found = decide_without_index(["one", "eleven"], FakeQuestions(), ByLength(), max_latency_ms=9)
    assert found == gateway(FakeArms()).decide(["one", "eleven"], max_latency_ms=9)
    assert decide_without_index([], FakeQuestions(), ByLength()) == []
    with pytest.raises(QuestionError, match="Question 2 is empty"):
        decide_without_index(["one", " "], FakeQuestions(), ByLength())


def test_a_router_that_asks_the_corpus_is_refused_without_an_index() -> None:
    words = FakeQuestions()
    with pytest.raises(ModelFileError, match="Name the index: --index DIR, or WYE_INDEX"):
        decide_without_index(["one"], words, ByCorpus())
    assert words.calls == 0
