"""One batch of questions against one version: analysed once, and each arm asked once for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import numpy as np

from backends.trigraph.explanation import Explanation
from backends.trigraph.retriever import TriGraphRetriever
from backends.trigraph.seeds import SeedStats
from backends.types import Float64, Mask, Query, Ranking, Retriever
from featurizer.constituency.tree import Tree
from router.types import ArmResults, Route


@dataclass(frozen=True, slots=True)
class Asked:
    """Analysed questions.

    Attributes:
        queries: One for each question, in order.
        features: (n, d) float64, what the router scores; None when it was not asked for.
        trees: Of the sentences of each question, that the features are made of; empty without.
    """

    queries: Sequence[Query]
    features: Float64 | None = None
    trees: Sequence[tuple[Tree, ...]] = ()


class Analyses(Protocol):
    """What turns questions into queries."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time spent so far, by stage."""
        ...

    def analyse(
        self,
        texts: Sequence[str],
        wanted: Callable[[str], bool] | None = None,
        *,
        features: bool = False,
    ) -> Asked:
        """One query per question, in order, with its features where they are asked for."""
        ...


class Arms(Protocol):
    """One version of an index, as the gateway needs it; `router.session` has the real one."""

    version: int

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    def retriever(self, arm: Route) -> Retriever:
        """An arm by name."""
        ...

    def allowed(self, filter_: object | None) -> Mask | None:
        """The passages that a metadata filter lets through."""
        ...


class Batch:
    """Questions on their way through one version of an index."""

    def __init__(self, arms: Arms, questions: Sequence[str], filter_: object | None) -> None:
        """Nothing is analysed or searched yet.

        Raises:
            FilterError: The filter is not well formed.
        """
        self.questions = questions
        self.arms = arms
        self.seconds: list[dict[str, float]] = [{} for _ in questions]
        self._allowed = arms.allowed(filter_)
        self._asked: Asked | None = None
        self._found: dict[Route, dict[int, tuple[int, Ranking]]] = {}

    @property
    def features(self) -> Float64:
        """(n, d) features of the questions; `analyse` must have been asked for them."""
        if self._asked is None or self._asked.features is None:
            raise ValueError("these questions were analysed without features")
        return self._asked.features

    @property
    def trees(self) -> Sequence[tuple[Tree, ...]]:
        """Of the sentences of each question; empty where the features have none."""
        return () if self._asked is None else self._asked.trees

    def analyse(self, analyses: Analyses, *, graph: bool, features: bool = False) -> None:
        """Run the models once over all questions.

        Args:
            analyses: What runs them.
            graph: Whether the graph arm may be asked, which can need vectors of mentions.
            features: Whether the router's features are wanted.
        """
        wanted = None
        if graph:
            arm = self.arms.retriever(Route.GRAPH)
            wanted = arm.finder.needs_vector if isinstance(arm, TriGraphRetriever) else None
        before = dict(analyses.seconds)
        self._asked = analyses.analyse(self.questions, wanted, features=features)
        for stage, seconds in analyses.seconds.items():
            if seconds > before.get(stage, 0.0):  # no trees are built where no score is wanted
                self._share(stage, seconds - before.get(stage, 0.0), range(len(self.questions)))

    def use_words_alone(self) -> None:
        """Where no arm needs a vector, nothing needs to be analysed."""
        empty = np.zeros(0, np.float32)
        self._asked = Asked([Query(text, empty) for text in self.questions])

    def rankings(self, arm: Route, places: Sequence[int], depth: int) -> list[Ranking]:
        """What an arm finds for some of the questions; what it found before is not sought again.

        Args:
            arm: A single arm.
            places: Of the questions in the batch.
            depth: Most hits for each.
        """
        known = self._found.setdefault(arm, {})
        missing = [place for place in places if known.get(place, (0,))[0] < depth]
        if missing:
            retriever = self.arms.retriever(arm)
            queries = [self._queries[place] for place in missing]
            with self.stage(arm, missing):
                found = retriever.search(queries, depth, self._allowed)
            known.update((p, (depth, ranking)) for p, ranking in zip(missing, found, strict=True))
        return [_cut(known[place][1], depth) for place in places]

    def evidence(
        self, arms: Sequence[Route], places: Sequence[int], depth: int
    ) -> list[ArmResults]:
        """What some arms say about some of the questions; seeds too, where the graph is asked.

        Args:
            arms: Single arms.
            places: Of the questions in the batch.
            depth: Most hits for each.
        """
        found = {arm: self.rankings(arm, places, depth) for arm in arms}
        seeds = self.seeds(places) if Route.GRAPH in found else [()] * len(places)
        return [
            ArmResults(
                self._queries[place],
                seeds[row],
                {arm: of_arm[row] for arm, of_arm in found.items()},
            )
            for row, place in enumerate(places)
        ]

    def forecast(self, places: Sequence[int], depth: int) -> list[ArmResults]:
        """What is known before the graph is walked: seeds and the dense list.

        Args:
            places: Of the questions in the batch.
            depth: Most hits for each.
        """
        found = self.rankings(Route.DENSE, places, depth)
        seeds = self.seeds(places)
        return [
            ArmResults(self._queries[place], seeds[row], {Route.DENSE: found[row]})
            for row, place in enumerate(places)
        ]

    def seeds(self, places: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """Where the graph's walk starts for some of the questions, known without walking."""
        arm = self.arms.retriever(Route.GRAPH)
        if not isinstance(arm, TriGraphRetriever):
            return [()] * len(places)
        with self.stage("seeds", places):
            return arm.seeds([self._queries[place] for place in places], self._allowed)

    def arms_of(self, place: int) -> dict[str, Ranking]:
        """What each arm found for one question, by name, as deep as it was asked for."""
        return {
            str(arm): of_arm[place][1] for arm, of_arm in self._found.items() if place in of_arm
        }

    def explain(self, place: int, ranking: Ranking) -> Explanation | None:
        """How the graph came to the places of a ranking; None where it was not asked."""
        if place not in self._found.get(Route.GRAPH, {}):
            return None
        arm = self.arms.retriever(Route.GRAPH)
        if not isinstance(arm, TriGraphRetriever):
            return None
        return arm.explain(self._queries[place], ranking, self._allowed)

    @contextmanager
    def stage(self, name: str, places: Sequence[int]) -> Iterator[None]:
        """Count the time of what runs inside, shared equally by these questions."""
        start = perf_counter()
        yield
        self._share(str(name), perf_counter() - start, places)

    @property
    def _queries(self) -> Sequence[Query]:
        if self._asked is None:
            raise ValueError("these questions were not analysed yet")
        return self._asked.queries

    def _share(self, stage: str, seconds: float, places: Sequence[int]) -> None:
        for place in places:
            own = self.seconds[place]
            own[stage] = own.get(stage, 0.0) + seconds / len(places)


def _cut(ranking: Ranking, depth: int) -> Ranking:
    return ranking if len(ranking.hits) <= depth else replace(ranking, hits=ranking.hits[:depth])
