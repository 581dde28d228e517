"""One version of an index, the models and a router, without any of them: what the gateway needs."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from backends.trigraph.explanation import Explanation
from backends.trigraph.seeds import SeedStats
from backends.types import Float32, Float64, Mask, Query, RankedHit, Ranking
from router.adapters import Questions
from router.model import RoutingModel
from router.policy import decide
from router.types import AnalysedQuestions, Decision, Route, Thresholds

Log = list[tuple[str, list[str], int]]
"""Arm, questions, and how many hits it was asked for."""


class FakeArm:
    """Ranks the passages p0, p1, … in this order, as a graph the other way round."""

    scores_all = False

    def __init__(self, name: str, count: int, log: Log) -> None:
        self.name = name
        self._count = count
        self._log = log

    def search(
        self, queries: Sequence[Query], k: int, allowed: Mask | None = None
    ) -> list[Ranking]:
        self._log.append((self.name, [query.text for query in queries], k))
        ids = [f"p{n}" for n in range(self._count) if allowed is None or allowed[n]][:k]
        if self.name == Route.GRAPH:
            ids.reverse()
        hits = tuple(RankedHit(id_, 1 / rank, rank) for rank, id_ in enumerate(ids, start=1))
        return [Ranking(self.name, hits, self._count) for _ in queries]

    def scores(self, query: Query) -> Float32:
        raise NotImplementedError

    def rank(self, scores: Float32, k: int, allowed: Mask | None = None) -> Ranking:
        raise NotImplementedError


class FakeGraph:
    """A graph without entities."""

    def __init__(self, count: int, log: Log) -> None:
        self._arm = FakeArm(Route.GRAPH, count, log)

    def needs_vector(self, mention: str) -> bool:
        raise NotImplementedError

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> "FakeGraphBatch":
        return FakeGraphBatch(self._arm, queries, allowed)


class FakeGraphBatch:
    """Questions asked of it."""

    def __init__(self, arm: FakeArm, queries: Sequence[Query], allowed: Mask | None) -> None:
        self._arm, self._queries, self._allowed = arm, queries, allowed

    def seeds(self, place: int) -> tuple[SeedStats, ...]:
        return (SeedStats(self._queries[place].text, 1.0, "name", 1, 0),)

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Float32],
        lexical: Mapping[int, Float32],
    ) -> list[Ranking]:
        del similarities, lexical
        return self._arm.search([self._queries[place] for place in places], k, self._allowed)

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        del place, ranking
        return Explanation((), (), ())


class FakeArms:
    """An index version of some passages; a filter leaves the first out."""

    version = 3

    def __init__(self, count: int = 4) -> None:
        self.log: Log = []
        self._count = count
        self.dense = FakeArm(Route.DENSE, count, self.log)
        self.lexical = FakeArm(Route.LEXICAL, count, self.log)
        self.graph = FakeGraph(count, self.log)

    def __len__(self) -> int:
        return self._count

    def allowed(self, filter_: object | None) -> Mask | None:
        return None if filter_ is None else np.arange(self._count) > 0

    @property
    def asked(self) -> list[tuple[str, int, int]]:
        """The log with how many questions there were instead of which."""
        return [(name, len(texts), k) for name, texts, k in self.log]


class FakeQuestions(Questions):
    """Analyses nothing, takes a second for each question, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.calls = 0

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> AnalysedQuestions:
        del wanted
        self.calls += 1
        queries = [Query(text, np.ones(2, np.float32)) for text in texts]
        lengths = np.array([[float(len(text))] for text in texts])
        seconds = {"parsing": float(len(texts))}
        return AnalysedQuestions(queries, lengths if features else None, seconds=seconds)


class ByLength(RoutingModel):
    """Sends questions of up to three letters to dense, of five and more to graph."""

    def __init__(self) -> None:
        self.seen: list[Float64] = []

    @property
    def asks_corpus(self) -> bool:
        return False

    def decide(
        self,
        features: Float64,
        *,
        forced: Route | None = None,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        del forced
        self.seen.append(features)
        scores = self.score(features)
        borders = Thresholds(0.4, 0.6)
        reason = f"{max_latency_ms} {explain}"
        return [Decision(decide(s, borders).route, s, 0.0, borders, reason) for s in scores]

    def score(self, features: Float64) -> list[float]:
        return [min(float(row[0]) / 8, 1.0) for row in features]
