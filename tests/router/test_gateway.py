from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from backends.types import Hit, Mask, Query, Ranking
from router.errors import FusionError, QuestionError
from router.fusion_settings import FusionSettings, ListWeights
from router.gateway import EMPTY_INDEX, Gateway
from router.types import FusedHit, Reply, Route


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
        self, texts: Sequence[str], wanted: Callable[[str], bool] | None = None
    ) -> list[Query]:
        self.calls += 1
        self.seconds = {"parsing": self.seconds["parsing"] + len(texts)}
        return [Query(text, np.ones(2, np.float32)) for text in texts]


def gateway(
    arms: Four, words: Words | None = None, fusion: FusionSettings | None = None
) -> Gateway:
    analyses = words or Words()
    return Gateway(lambda: arms, lambda: analyses, fusion or FusionSettings())


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


def test_a_list_without_weight_is_not_searched() -> None:
    arms = Four()
    gateway(arms, fusion=FusionSettings(s=0.0)).search(["one"], Route.FUSION, 2)
    assert [name for name, _, _ in arms.log] == ["dense"]


def test_no_weight_at_all_is_refused() -> None:
    nothing = FusionSettings(weights=ListWeights(dense=0, graph=0))
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
