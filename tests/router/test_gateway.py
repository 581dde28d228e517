from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from backends.types import Float64, Hit, Mask, Query, Ranking
from featurizer.constituency.tree import Tree
from featurizer.registry import FEATURE_NAMES
from router.batch import Asked
from router.errors import FusionError, ModelFileError, QuestionError
from router.fusion import FusionSettings
from router.gateway import EMPTY_INDEX, SEEN, Gateway, decide_without_index
from router.policy import decide
from router.query_performance import NAMES
from router.types import Decision, FusedHit, Reply, Route, Thresholds

BY_RANK = FusionSettings("rrf")


class Echo:
    """Ranks passages p0, p1, … and notes what it was asked for."""

    def __init__(self, name: str, log: list[tuple[str, int, int]]) -> None:
        self.name = name
        self._log = log

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        self._log.append((self.name, len(queries), k))
        ids = [f"p{n}" for n in range(4) if allowed is None or allowed[n]][:k]
        if self.name == "graph":
            ids.reverse()
        hits = tuple(Hit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
        return [Ranking(self.name, hits, 4) for _ in queries]


class Four:
    """An index version of four passages, or of none."""

    def __init__(self, count: int = 4) -> None:
        self.version = 3
        self.log: list[tuple[str, int, int]] = []
        self._count = count

    def __len__(self) -> int:
        return self._count

    def retriever(self, arm: Route) -> Echo:
        return Echo(arm, self.log)

    def allowed(self, filter_: object | None) -> Mask | None:
        return None if filter_ is None else np.array([False, True, True, True])


class Words:
    """Analyses nothing, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds: Mapping[str, float] = {"parsing": 0.0}

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> Asked:
        self.calls += 1
        self.seconds = {"parsing": self.seconds["parsing"] + len(texts)}
        queries = [Query(text, np.ones(2, np.float32)) for text in texts]
        lengths = np.array([[float(len(text))] for text in texts])
        return Asked(queries, lengths if features else None)


class ByLength:
    """Sends questions of up to three letters to dense, of five and more to graph."""

    asks_corpus = False

    def decide(
        self,
        features: Float64,
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        scores = [min(float(row[0]) / 8, 1.0) for row in features]
        borders = Thresholds(0.4, 0.6)
        reason = f"{max_latency_ms} {explain}"
        return [
            Decision(decide(score, borders).route, score, 0.0, borders, reason) for score in scores
        ]


def gateway(
    arms: Four, words: Words | None = None, fusion: FusionSettings | None = None
) -> Gateway:
    analyses = words or Words()
    return Gateway(lambda: arms, lambda: analyses, fusion or BY_RANK, ByLength)


def ids(reply: Reply) -> list[str]:
    return [hit.id for hit in reply.ranking.hits]


@pytest.mark.parametrize("route", [Route.DENSE, Route.LEXICAL, Route.GRAPH])
def test_one_arm_answers_alone(route: Route) -> None:
    arms = Four()
    replies = gateway(arms).search(["one", "two"], route, 2)
    assert [reply.question for reply in replies] == ["one", "two"]
    assert arms.log == [(route, 2, 2)]
    assert replies[0].ranking is replies[0].arms[route]
    assert replies[0].version == 3


def test_fusion_searches_deeper_and_keeps_the_lists() -> None:
    arms = Four()
    reply = gateway(arms).search(["one"], Route.FUSION, 2)[0]
    assert arms.log == [("dense", 1, 100), ("graph", 1, 100)]
    assert reply.ranking.retriever == "fusion"
    assert len(reply.ranking.hits) == 2
    assert {*reply.arms} == {"dense", "graph"}
    hit = reply.ranking.hits[0]
    assert isinstance(hit, FusedHit)
    assert [source.retriever for source in hit.sources] == ["dense", "graph"]


def test_the_router_chooses_for_each_question_and_equal_routes_go_together() -> None:
    arms = Four()
    replies = gateway(arms).search(["one", "eleven", "four", "two"], Route.AUTO, 2)
    assert [reply.route for reply in replies] == ["dense", "graph", "fusion", "dense"]
    assert [reply.question for reply in replies] == ["one", "eleven", "four", "two"]
    assert [reply.ranking.retriever for reply in replies] == ["dense", "graph", "fusion", "dense"]
    assert sorted(arms.log) == [
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
    (reply,) = gateway(Four()).search(["four"], Route.AUTO, 4)
    first = reply.ranking.hits[0]
    assert isinstance(first, FusedHit)
    assert {source.retriever: source.share * (60 + source.rank) for source in first.sources} == {
        "dense": pytest.approx(0.5),
        "graph": pytest.approx(0.5),
    }
    (other,) = gateway(Four()).search(["fours"], Route.FUSION, 4)
    assert other.decision is None


def test_a_decision_alone_searches_nothing_and_is_the_one_that_searching_makes() -> None:
    arms = Four()
    found = gateway(arms).decide(["one", "eleven"], max_latency_ms=9, explain=True)
    assert arms.log == []
    replies = gateway(arms).search(["one", "eleven"], Route.AUTO, 1, max_latency_ms=9, explain=True)
    assert found == [reply.decision for reply in replies]
    assert found[0].reason == "9 True"
    assert gateway(arms).decide([]) == []


def test_a_route_that_is_given_asks_no_router() -> None:
    arms, words = Four(), Words()
    without = Gateway(lambda: arms, lambda: words, FusionSettings())
    assert without.search(["one"], Route.GRAPH, 1)[0].decision is None
    with pytest.raises(ModelFileError, match="made without a router; name the route"):
        without.search(["one"], Route.AUTO, 1)


def test_the_router_chooses_nothing_in_an_empty_index_and_says_so() -> None:
    (reply,) = gateway(Four(0)).search(["one"], Route.AUTO, 1)
    assert reply.route == Route.DENSE
    assert reply.decision is not None
    assert reply.decision.reason == f"degraded: {EMPTY_INDEX}"


def test_a_list_without_weight_is_not_searched() -> None:
    arms = Four()
    gateway(arms, fusion=FusionSettings("rrf", s=0.0)).search(["one"], Route.FUSION, 2)
    assert [name for name, _, _ in arms.log] == ["dense"]


def test_no_weight_at_all_is_refused() -> None:
    nothing = FusionSettings("rrf", lists=("dense",), s=1.0)
    with pytest.raises(FusionError, match="Nothing is left to fuse"):
        gateway(Four(), fusion=nothing).search(["one"], Route.FUSION, 2)


def test_words_need_no_models() -> None:
    words = Words()
    gateway(Four(), words).search(["one"], Route.LEXICAL, 2)
    assert words.calls == 0


def test_time_is_shared_by_the_batch() -> None:
    replies = gateway(Four()).search(["one", "two"], Route.DENSE, 2)
    assert replies[0].seconds["parsing"] == 1
    assert {*replies[0].seconds} == {"parsing", "dense"}


def test_a_filter_reaches_the_arms() -> None:
    assert ids(gateway(Four()).search(["one"], Route.DENSE, 4, {"any": 1})[0]) == ["p1", "p2", "p3"]


def test_more_than_there_are_returns_all() -> None:
    assert len(gateway(Four()).search(["one"], Route.FUSION, 1000)[0].ranking.hits) == 4


def test_an_empty_index_says_so() -> None:
    reply = gateway(Four(0)).search(["one"], Route.GRAPH, 2)[0]
    assert reply.ranking.hits == ()
    assert reply.ranking.degraded == EMPTY_INDEX


def test_no_question_no_reply() -> None:
    assert gateway(Four()).search([], Route.DENSE, 2) == []


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
        gateway(Four()).search(questions, Route.DENSE, k)


def test_adaptive_fusion_asks_every_arm_and_hybrid_all_but_the_graph() -> None:
    arms = Four()
    adaptive = gateway(arms, fusion=FusionSettings())
    assert {*adaptive.search(["one"], Route.FUSION, 2)[0].arms} == {"dense", "lexical", "graph"}
    arms.log.clear()
    reply = adaptive.search(["one"], Route.HYBRID, 2)[0]
    assert reply.route == Route.HYBRID
    assert [name for name, _, _ in arms.log] == ["dense", "lexical"]
    assert len(reply.ranking.hits) == 2


def test_consulting_asks_every_arm_and_chooses_nothing() -> None:
    arms, words = Four(), Words()
    found = gateway(arms, words).retrieve_all(["one", "two"], 3, {"any": 1})
    assert arms.log == [("dense", 2, 3), ("lexical", 2, 3), ("graph", 2, 3)]
    assert [one.evidence.query.text for one in found] == ["one", "two"]
    assert {arm: len(r.hits) for arm, r in found[0].evidence.rankings.items()} == {
        Route.DENSE: 3,
        Route.LEXICAL: 3,
        Route.GRAPH: 3,
    }
    assert {"parsing", "dense", "lexical", "graph"} <= {*found[0].seconds}
    assert gateway(arms).retrieve_all([], 3) == []
    with pytest.raises(QuestionError, match="k is 0"):
        gateway(arms).retrieve_all(["one"], 0)


class Parsing(Words):
    """Also finds a tree for each question."""

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> Asked:
        asked = super().analyse(texts, wanted, features=features)
        return replace(asked, trees=[(Tree("ROOT", (Tree(text),)),) for text in texts])


def test_trees_are_told_where_a_decision_is_explained() -> None:
    made = gateway(Four(), Parsing())
    replies = made.search(["one", "eleven"], Route.AUTO, 1, explain=True)
    assert [r.decision.trees for r in replies if r.decision] == [
        ("(ROOT one)",),
        ("(ROOT eleven)",),
    ]
    assert made.decide(["one"], explain=True)[0].trees == ("(ROOT one)",)
    assert made.decide(["one"])[0].trees == ()
    assert decide_without_index(["one"], Parsing(), ByLength(), explain=True)[0].trees


class ByCorpus(ByLength):
    """Sends to graph what the dense list is not sure of, and keeps what it was given."""

    asks_corpus = True

    def __init__(self) -> None:
        self.seen: list[Float64] = []

    def decide(
        self,
        features: Float64,
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        del max_latency_ms, explain
        self.seen.append(features)
        borders = Thresholds(0.4, 0.6)
        scores = 1 - features[:, 1 + NAMES.index("dense_best") - len(FEATURE_NAMES)]
        return [Decision(decide(s, borders).route, s, 0.0, borders, "score") for s in scores]


def test_a_router_that_asks_the_corpus_sees_seeds_and_the_dense_list() -> None:
    arms, model = Four(), ByCorpus()
    asking = Gateway(lambda: arms, Words, BY_RANK, lambda: model)
    found = asking.decide(["one", "eleven"])
    assert arms.log == [("dense", 2, SEEN)]
    assert [decision.route for decision in found] == ["dense", "dense"]
    arms.log.clear()
    replies = asking.search(["one", "eleven"], Route.AUTO, 2)
    assert [reply.decision for reply in replies] == found
    # The dense list that was looked at is the one that answers, and deep enough to be fused.
    assert arms.log == [("dense", 2, 100)]
    assert len(replies[0].ranking.hits) == 2
    (width,) = {features.shape[1] for features in model.seen}
    assert width == 1 + len(NAMES) - len(FEATURE_NAMES)
    assert (model.seen[0] == model.seen[1]).all()
    assert {*replies[0].seconds} == {"parsing", "dense", "routing"}


def test_a_router_that_looks_at_the_question_alone_needs_no_index() -> None:
    found = decide_without_index(["one", "eleven"], Words(), ByLength(), max_latency_ms=9)
    assert found == gateway(Four()).decide(["one", "eleven"], max_latency_ms=9)
    assert decide_without_index([], Words(), ByLength()) == []
    with pytest.raises(QuestionError, match="Question 2 is empty"):
        decide_without_index(["one", " "], Words(), ByLength())


def test_a_router_that_asks_the_corpus_is_refused_without_an_index() -> None:
    words = Words()
    with pytest.raises(ModelFileError, match="Name the index: --index DIR, or WYE_INDEX"):
        decide_without_index(["one"], words, ByCorpus())
    assert words.calls == 0
