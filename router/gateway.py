"""The one orchestration: questions in, replies out, whoever asks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

import numpy as np

from backends.explanation import Explanation
from backends.trigraph import TriGraphRetriever
from backends.types import Mask, Query, Ranking, Retriever
from router.errors import FusionError, QuestionError
from router.fusion import fuse
from router.fusion_settings import FusionSettings
from router.types import Reply, Route

EMPTY_INDEX = "the index is empty"


class Analyses(Protocol):
    """What turns questions into queries."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time spent so far, by stage."""
        ...

    def analyse(
        self, texts: Sequence[str], wanted: Callable[[str], bool] | None = None
    ) -> list[Query]:
        """One query per question, in order."""
        ...


class Arms(Protocol):
    """One version of an index, as the gateway needs it; `router.snapshot` has the real one."""

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


class Gateway:
    """Answers batches of questions over a given route."""

    def __init__(
        self,
        arms: Callable[[], Arms],
        analyses: Callable[[], Analyses],
        fusion: FusionSettings,
    ) -> None:
        """Wire the parts; nothing is loaded before a question needs it.

        Args:
            arms: The version to search in; asked once per batch, so that a batch sees one version.
            analyses: What analyses questions; not asked for where words are enough.
            fusion: What the fusion route does.
        """
        self._arms = arms
        self._analyses = analyses
        self._fusion = fusion

    def search(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        explain: bool = False,
    ) -> list[Reply]:
        """Answer questions, in order.

        Args:
            questions: Each with at least one word.
            route: Which arm, or fusion.
            k: Hits for each; more than there are passages returns all.
            filter: A metadata filter as parsed JSON; a passage that it keeps out takes no part.
            explain: Whether to say how the graph arm came to its ranking, where it is run.

        Raises:
            QuestionError: A question is empty, or k is below 1.
            FusionError: Every list to fuse weighs 0.
            FilterError: The filter is not well formed.
        """
        check(questions, k)
        if not questions:
            return []
        arms = self._arms()
        if not len(arms):
            return [_of_empty_index(question, route, arms.version) for question in questions]
        allowed = arms.allowed(filter)
        wanted = self._wanted(route)
        retrievers = {arm: arms.retriever(arm) for arm in wanted}
        clock = _Clock()
        queries = self._analyse(questions, retrievers, clock)
        depth = max(k, self._fusion.depth) if route == Route.FUSION else k
        found: dict[Route, list[Ranking]] = {}
        for arm, retriever in retrievers.items():
            with clock.stage(arm):
                found[arm] = retriever.search(queries, depth, allowed)
        if route == Route.FUSION:
            with clock.stage("fusing"):
                rankings = self._fuse(found, k)
        else:
            rankings = found[route]
        share = {stage: seconds / len(questions) for stage, seconds in clock.seconds.items()}
        graph = retrievers.get(Route.GRAPH) if explain else None
        return [
            Reply(
                question=question,
                route=route,
                ranking=rankings[place],
                arms={str(arm): of_arm[place] for arm, of_arm in found.items()},
                seconds=share,
                version=arms.version,
                explanation=_explain(graph, queries[place], rankings[place], allowed),
            )
            for place, question in enumerate(questions)
        ]

    def _wanted(self, route: Route) -> list[Route]:
        """The arms to run; a list that weighs nothing need not be made."""
        if route != Route.FUSION:
            return [route]
        arms = [Route(name) for name in self._fusion.lists if self._fusion.weight(name) != 0]
        if not arms:
            raise FusionError(
                "Nothing is left to fuse: every list of WYE_FUSION__LISTS weighs 0. "
                "Give one a weight with WYE_FUSION__S or WYE_FUSION__WEIGHTS__<ARM>."
            )
        return arms

    def _analyse(
        self, questions: Sequence[str], retrievers: Mapping[Route, Retriever], clock: "_Clock"
    ) -> list[Query]:
        if set(retrievers) <= {Route.LEXICAL}:
            return [Query(text, np.zeros(0, np.float32)) for text in questions]
        graph = retrievers.get(Route.GRAPH)
        wanted = graph.finder.needs_vector if isinstance(graph, TriGraphRetriever) else None
        analyses = self._analyses()
        before = dict(analyses.seconds)
        queries = analyses.analyse(questions, wanted)
        for stage, seconds in analyses.seconds.items():
            if seconds > before[stage]:  # no trees are built where no score is asked for
                clock.seconds[stage] = seconds - before[stage]
        return queries

    def _fuse(self, found: Mapping[Route, Sequence[Ranking]], k: int) -> list[Ranking]:
        weights = [self._fusion.weight(arm) for arm in found]
        return [
            fuse(lists, weights, rrf_k=self._fusion.rrf_k, k=k)
            for lists in zip(*found.values(), strict=True)
        ]


class _Clock:
    """Wall time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what runs inside."""
        start = perf_counter()
        yield
        self.seconds[str(name)] = perf_counter() - start


def check(questions: Sequence[str], k: int) -> None:
    """Refuse what no route can answer; `search` does so itself.

    Raises:
        QuestionError: A question is empty, or k is below 1.
    """
    if k < 1:
        raise QuestionError(f"k is {k}; ask for at least 1 hit.")
    for number, question in enumerate(questions, start=1):
        if not question.strip():
            place = f"Question {number}" if len(questions) > 1 else "The question"
            raise QuestionError(f"{place} is empty; ask with at least one word.")


def _of_empty_index(question: str, route: Route, version: int) -> Reply:
    return Reply(question, route, Ranking(route, (), 0, EMPTY_INDEX), {}, {}, version)


def _explain(
    arm: Retriever | None, query: Query, ranking: Ranking, allowed: Mask | None
) -> Explanation | None:
    return arm.explain(query, ranking, allowed) if isinstance(arm, TriGraphRetriever) else None
