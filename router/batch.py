"""One batch of questions against one version: analysed once, and each arm asked once for each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Protocol

import numpy as np

from backends.trigraph.explanation import Explanation
from backends.trigraph.seeds import SeedStats
from backends.types import Float32, Float64, Mask, Query, Ranking, Retriever
from featurizer.constituency.tree import Tree
from router.adapters import Questions
from router.types import AnalysedQuestions, ArmResults, Route


class TextArm(Retriever, Protocol):
    """An arm whose scores of all passages the graph's prior is made of."""

    @property
    def scores_all(self) -> bool:
        """Whether `rank` of `scores` is what `search` gives; an approximate index skips most."""
        ...

    def scores(self, query: Query) -> Float32:
        """(n,) scores of every passage."""
        ...

    def rank(self, scores: Float32, k: int, allowed: Mask | None = None) -> Ranking:
        """At most k passages by these scores."""
        ...


class GraphBatch(Protocol):
    """What only the graph can do: say where it starts, and how it came to its ranking."""

    def seeds(self, place: int) -> tuple[SeedStats, ...]:
        """Where a question's walk starts, known without walking."""
        ...

    def search(
        self,
        places: Sequence[int],
        k: int,
        similarities: Mapping[int, Float32],
        lexical: Mapping[int, Float32],
    ) -> list[Ranking]:
        """At most k passages for some of the questions, with the scores that are known of them."""
        ...

    def explain(self, place: int, ranking: Ranking) -> Explanation:
        """How the passages of a ranking came to their places."""
        ...


class GraphArm(Protocol):
    """The graph arm, which keeps what it finds for the questions of a batch."""

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        ...

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> GraphBatch:
        """Questions to be asked together."""
        ...


class Arms(Protocol):
    """One version of an index, as the gateway needs it; `router.session.Snapshot` is one."""

    version: int

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    @property
    def dense(self) -> TextArm:
        """The dense arm."""
        ...

    @property
    def lexical(self) -> TextArm:
        """The lexical arm."""
        ...

    @property
    def graph(self) -> GraphArm:
        """The graph arm."""
        ...

    def allowed(self, filter_: object | None) -> Mask | None:
        """The passages that a metadata filter lets through."""
        ...


class Batch:
    """Questions on their way through one version of an index.

    Seeds, scores of all passages, rankings and walks are kept for as long as the batch, so that
    nothing is computed twice for a question. Questions are named by their place in the batch.
    """

    def __init__(self, arms: Arms, questions: Sequence[str], filter_: object | None) -> None:
        """Nothing is analysed or searched yet.

        Raises:
            FilterError: The filter is not well formed.
        """
        self.questions = questions
        self.seconds: list[dict[str, float]] = [{} for _ in questions]
        self._arms = arms
        self._allowed = arms.allowed(filter_)
        self._analysed: AnalysedQuestions | None = None
        self._graph: GraphBatch | None = None
        self._asks_graph = self._walks_all = False
        self._rankings: dict[Route, dict[int, tuple[int, Ranking]]] = {}
        self._scores: dict[Route, dict[int, Float32]] = {Route.DENSE: {}, Route.LEXICAL: {}}

    @property
    def features(self) -> Float64:
        """(n, d) features of the questions; `analyse` must have been asked for them."""
        if self._analysed is None or self._analysed.features is None:
            raise ValueError("these questions were analysed without features")
        return self._analysed.features

    @property
    def trees(self) -> Sequence[tuple[Tree, ...]]:
        """Of the sentences of each question; empty where the features have none."""
        return () if self._analysed is None else self._analysed.trees

    def analyse(
        self, analyser: Questions, arms: Sequence[Route], *, features: bool = False
    ) -> None:
        """Run the models once over all questions.

        Args:
            arms: That will be asked about every question.
            features: Whether the router's features are wanted; it may ask the graph as well.
        """
        self._walks_all = Route.GRAPH in arms
        self._asks_graph = features or self._walks_all
        wanted = self._arms.graph.needs_vector if self._asks_graph else None
        self._analysed = analyser.analyse(self.questions, wanted, features=features)
        for stage, seconds in self._analysed.seconds.items():
            self._share(stage, seconds, range(len(self.questions)))

    def use_words_alone(self) -> None:
        """Where no arm needs a vector, nothing needs to be analysed."""
        empty = np.zeros(0, np.float32)
        self._analysed = AnalysedQuestions([Query(text, empty) for text in self.questions])

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """Where the graph's walk starts for some of the questions, known without walking."""
        with self.stage("seeds", places):
            return [self._on_graph.seeds(place) for place in places]

    def search(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        """What an arm finds for some of the questions; what it found before is not sought again."""
        known = self._rankings.setdefault(arm, {})
        missing = [place for place in places if known.get(place, (0,))[0] < depth]
        if missing:
            with self.stage(arm, missing):
                found = self._ask(arm, missing, depth)
            known.update((p, (depth, ranking)) for p, ranking in zip(missing, found, strict=True))
        return [_cut(known[place][1], depth) for place in places]

    def results(
        self, arms: Sequence[Route], places: Sequence[int], depth: int, *, seeds: bool = False
    ) -> list[ArmResults]:
        """What some arms say about some of the questions; seeds too, where the graph is asked.

        Args:
            seeds: Whether seeds are wanted of a graph that is not asked.
        """
        starts = self.seeds(places) if seeds or Route.GRAPH in arms else [()] * len(places)
        found = {arm: self.search(arm, places, depth) for arm in arms}
        return [
            ArmResults(self._query(p), starts[row], {arm: of[row] for arm, of in found.items()})
            for row, p in enumerate(places)
        ]

    def arms_of(self, place: int) -> dict[str, Ranking]:
        """What each arm found for one question, by name, as deep as it was asked for."""
        return {
            str(arm): of_arm[place][1] for arm, of_arm in self._rankings.items() if place in of_arm
        }

    def explain(self, place: int, ranking: Ranking) -> Explanation | None:
        """How the graph came to the places of a ranking; None where it was not asked."""
        if place not in self._rankings.get(Route.GRAPH, {}):
            return None
        with self.stage("explaining", [place]):
            return self._on_graph.explain(place, ranking)

    @contextmanager
    def stage(self, name: str, places: Sequence[int]) -> Iterator[None]:
        """Count the time of what runs inside, shared equally by these questions."""
        start = perf_counter()
        yield
        self._share(str(name), perf_counter() - start, places)

    @property
    def _on_graph(self) -> GraphBatch:
        if self._graph is None:
            queries = [self._query(place) for place in range(len(self.questions))]
            self._graph = self._arms.graph.batch(queries, self._allowed)
        return self._graph

    def _ask(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        if arm == Route.GRAPH:
            dense, lexical = self._scores[Route.DENSE], self._scores[Route.LEXICAL]
            return self._on_graph.search(places, depth, dense, lexical)
        retriever = self._arms.dense if arm == Route.DENSE else self._arms.lexical
        keeps = retriever.scores_all and self._asks_graph
        if arm == Route.DENSE and len(places) > 1:
            # Several questions are scanned together faster than one by one, so scores of their
            # own are only worth it where the graph is certain to need them.
            keeps = keeps and self._walks_all
        if not keeps:
            queries = [self._query(place) for place in places]
            return retriever.search(queries, depth, self._allowed)
        kept = self._scores[arm]
        for place in places:
            if place not in kept:
                kept[place] = retriever.scores(self._query(place))
        return [retriever.rank(kept[place], depth, self._allowed) for place in places]

    def _query(self, place: int) -> Query:
        if self._analysed is None:
            raise ValueError("these questions were not analysed yet")
        return self._analysed.queries[place]

    def _share(self, stage: str, seconds: float, places: Sequence[int]) -> None:
        for place in places:
            own = self.seconds[place]
            own[stage] = own.get(stage, 0.0) + seconds / len(places)


def _cut(ranking: Ranking, depth: int) -> Ranking:
    return ranking if len(ranking.hits) <= depth else replace(ranking, hits=ranking.hits[:depth])
