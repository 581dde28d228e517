from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from backends.types import Hit, Mask, Query, Ranking
from router.batch import Asked, Batch
from router.types import Route

QUESTIONS = ["one", "two", "three"]


class Arm:
    """Ranks the passages p0 to p9, and notes what it was asked."""

    def __init__(self, name: str, log: list[tuple[str, list[str], int]]) -> None:
        self.name = name
        self._log = log

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        del allowed
        self._log.append((self.name, [query.text for query in queries], k))
        hits = tuple(Hit(f"p{n}", 1 / (n + 1), n + 1) for n in range(10))[:k]
        return [Ranking(self.name, hits, 10) for _ in queries]


class Ten:
    """An index version of ten passages, whose arms are no graphs."""

    version = 1

    def __init__(self) -> None:
        self.log: list[tuple[str, list[str], int]] = []

    def __len__(self) -> int:
        return 10

    def retriever(self, arm: Route) -> Arm:
        return Arm(arm, self.log)

    def allowed(self, filter_: object | None) -> Mask | None:
        del filter_
        return None


class Analyses:
    """Takes a second for each question."""

    def __init__(self) -> None:
        self.seconds: Mapping[str, float] = {"parsing": 5.0, "trees": 0.0}

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> Asked:
        assert wanted is None
        self.seconds = {**self.seconds, "parsing": self.seconds["parsing"] + len(texts)}
        queries = [Query(text, np.ones(2, np.float32)) for text in texts]
        return Asked(queries, np.zeros((len(texts), 3)) if features else None)


@pytest.fixture
def arms() -> Ten:
    return Ten()


@pytest.fixture
def batch(arms: Ten) -> Batch:
    found = Batch(arms, QUESTIONS, None)
    found.analyse(Analyses(), graph=True)
    return found


def test_what_was_found_is_not_sought_again_unless_deeper(arms: Ten, batch: Batch) -> None:
    assert [len(r.hits) for r in batch.rankings(Route.DENSE, [0, 2], 5)] == [5, 5]
    assert [len(r.hits) for r in batch.rankings(Route.DENSE, [2, 1, 0], 3)] == [3, 3, 3]
    assert [len(r.hits) for r in batch.rankings(Route.DENSE, [0], 7)] == [7]
    batch.rankings(Route.LEXICAL, [0], 1)
    assert arms.log == [
        ("dense", ["one", "three"], 5),
        ("dense", ["two"], 3),
        ("dense", ["one"], 7),
        ("lexical", ["one"], 1),
    ]
    assert {name: len(r.hits) for name, r in batch.arms_of(0).items()} == {"dense": 7, "lexical": 1}
    assert batch.rankings(Route.DENSE, [], 9) == []


def test_a_forecast_walks_no_graph_and_its_dense_list_serves_again(arms: Ten, batch: Batch) -> None:
    found = batch.forecast([2, 0], 6)
    assert [one.query.text for one in found] == ["three", "one"]
    assert [{*one.rankings} for one in found] == [{Route.DENSE}] * 2
    assert [one.seeds for one in found] == [(), ()]  # this graph arm has none
    evidence = batch.evidence([Route.DENSE, Route.LEXICAL], [0], 6)
    assert evidence[0].rankings[Route.DENSE] is found[1].rankings[Route.DENSE]
    assert [name for name, _, _ in arms.log] == ["dense", "lexical"]


def test_time_is_that_of_these_questions_alone(batch: Batch) -> None:
    assert batch.seconds == [{"parsing": 1.0}] * 3
    batch.rankings(Route.DENSE, [1], 2)
    assert ["dense" in own for own in batch.seconds] == [False, True, False]


def test_features_are_there_when_they_were_asked_for(arms: Ten, batch: Batch) -> None:
    with pytest.raises(ValueError, match="without features"):
        _ = batch.features
    batch.analyse(Analyses(), graph=False, features=True)
    assert batch.features.shape == (3, 3)
    with pytest.raises(ValueError, match="not analysed yet"):
        Batch(arms, QUESTIONS, None).rankings(Route.DENSE, [0], 1)


def test_an_arm_that_is_no_graph_does_not_explain(batch: Batch) -> None:
    (ranking,) = batch.rankings(Route.GRAPH, [0], 3)
    assert batch.explain(0, ranking) is None
    assert batch.explain(1, ranking) is None
