"""The one orchestration: questions in, replies out, whoever asks."""

from collections.abc import Callable, Sequence
from typing import Protocol

from backends.types import Float64, Ranking
from router.batch import Analyses, Arms, Batch
from router.errors import ModelFileError, QuestionError
from router.fusion import FusionSettings, fuse_all, fuse_text
from router.query_performance import with_corpus, without_corpus
from router.types import ARMS, Decision, Reply, Route, TimedArmResults, with_trees

EMPTY_INDEX = "the index is empty"
SEEN = 5
"""Hits of the dense list that a router looks at."""
_UNDECIDED = Decision(Route.DENSE, None, None, None, f"degraded: {EMPTY_INDEX}")


class Model(Protocol):
    """What chooses a route; `router.model` has the real one."""

    @property
    def asks_corpus(self) -> bool:
        """Whether it looks at what the corpus says."""
        ...

    def decide(
        self,
        features: Float64,
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """A decision for each row of features."""
        ...


def no_router() -> Model:
    """Stands where there is no router.

    Raises:
        ModelFileError: Always.
    """
    raise ModelFileError("This gateway was made without a router; name the route to take.")


class Gateway:
    """Answers batches of questions, over a given route or over the one that the router chooses."""

    def __init__(
        self,
        arms: Callable[[], Arms],
        analyses: Callable[[], Analyses],
        fusion: FusionSettings,
        model: Callable[[], Model] = no_router,
    ) -> None:
        """Wire the parts; nothing is loaded before a question needs it.

        Args:
            arms: The version to search in; asked once per batch, so that a batch sees one version.
            analyses: What analyses questions; not asked for where words are enough.
            fusion: What the fusion route does.
            model: The router; not asked for where the route is given.
        """
        self._arms = arms
        self._analyses = analyses
        self._model = model
        self._fusion = fusion

    def search(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Reply]:
        """Answer questions, in order.

        Args:
            questions: Each with at least one word.
            route: Which arm, or fusion, or `Route.AUTO` for the router's choice.
            k: Hits for each; more than there are passages returns all.
            filter: A metadata filter as parsed JSON; a passage that it keeps out takes no part.
            max_latency_ms: Most time for an answer, where the router chooses.
            explain: Whether to say how the router came to its choice, and how the graph arm came
                to its ranking where it is run.

        Raises:
            QuestionError: A question is empty, or k is below 1.
            FusionError: Every list to fuse weighs 0.
            FilterError: The filter is not well formed.
            ModelFileError: The router is needed, and missing or made for other features.
            PolicyError: A latency that no route can be held to.
        """
        check(questions, k)
        if not questions:
            return []
        arms = self._arms()
        if not len(arms):
            return [_of_empty_index(question, route, arms.version) for question in questions]
        batch = Batch(arms, questions, filter)
        decisions: Sequence[Decision | None] = [None] * len(questions)
        if route == Route.AUTO:
            decisions = self._decide(
                batch,
                max_latency_ms=max_latency_ms,
                explain=explain,
                depth=max(k, self._fusion.depth),
            )
        elif route == Route.LEXICAL or self._lists(route) == [Route.LEXICAL]:
            batch.use_words_alone()
        else:
            batch.analyse(self._analyses(), graph=Route.GRAPH in self._lists(route))
        chosen = [route if decision is None else decision.route for decision in decisions]
        rankings = self._rankings(batch, chosen, decisions, k)
        return [
            Reply(
                question=question,
                route=chosen[place],
                ranking=rankings[place],
                arms=batch.arms_of(place),
                seconds=batch.seconds[place],
                version=arms.version,
                explanation=batch.explain(place, rankings[place]) if explain else None,
                decision=decisions[place],
            )
            for place, question in enumerate(questions)
        ]

    def decide(
        self,
        questions: Sequence[str],
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
    ) -> list[Decision]:
        """Which route `search` would take for each question with `Route.AUTO`, without taking it.

        Raises:
            QuestionError: A question is empty.
            FilterError: The filter is not well formed.
            ModelFileError: The router is missing or made for other features.
            PolicyError: A latency that no route can be held to.
        """
        check(questions, k=1)
        if not questions:
            return []
        arms = self._arms()
        if not len(arms):
            return [_UNDECIDED] * len(questions)
        batch = Batch(arms, questions, filter)
        return self._decide(batch, max_latency_ms=max_latency_ms, explain=explain)

    def retrieve_all(
        self,
        questions: Sequence[str],
        depth: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
    ) -> list[TimedArmResults]:
        """What every arm says to each question, with nothing chosen or fused: for replay.

        Args:
            questions: Each with at least one word.
            depth: Hits of each arm, at least 1.
            filter: A metadata filter as parsed JSON.

        Raises:
            QuestionError: A question is empty, or depth is below 1.
            FilterError: The filter is not well formed.
        """
        check(questions, depth)
        if not questions:
            return []
        batch = Batch(self._arms(), questions, filter)
        batch.analyse(self._analyses(), graph=True)
        found = batch.evidence(ARMS, range(len(questions)), depth)
        return [
            TimedArmResults(evidence, seconds)
            for evidence, seconds in zip(found, batch.seconds, strict=True)
        ]

    def _decide(
        self, batch: Batch, *, max_latency_ms: float | None, explain: bool, depth: int = SEEN
    ) -> list[Decision]:
        model = self._model()
        batch.analyse(self._analyses(), graph=True, features=True)
        everyone = range(len(batch.questions))
        seen = batch.forecast(everyone, max(depth, SEEN)) if model.asks_corpus else None
        with batch.stage("routing", everyone):
            own = batch.features
            columns = without_corpus(own) if seen is None else with_corpus(own, seen)
            chosen = model.decide(columns, max_latency_ms=max_latency_ms, explain=explain)
        return with_trees(chosen, batch.trees) if explain else chosen

    def _rankings(
        self,
        batch: Batch,
        chosen: Sequence[Route],
        decisions: Sequence[Decision | None],
        k: int,
    ) -> list[Ranking]:
        """One ranking for each question; those with the same route are worked on together."""
        found: dict[int, Ranking] = {}
        for route in Route:
            places = [place for place, own in enumerate(chosen) if own == route]
            if not places:
                continue
            if route == Route.FUSION:
                scores = [_score(decisions[place]) for place in places]
                rankings = self._fuse(batch, places, scores, k)
            elif route == Route.HYBRID:
                rankings = self._fuse_text(batch, places, k)
            else:
                rankings = batch.rankings(route, places, k)
            found.update(zip(places, rankings, strict=True))
        return [found[place] for place in range(len(chosen))]

    def _fuse(
        self, batch: Batch, places: Sequence[int], scores: Sequence[float | None], k: int
    ) -> list[Ranking]:
        depth = max(k, self._fusion.depth)
        evidence = batch.evidence(self._lists(Route.FUSION), places, depth)
        with batch.stage("fusing", places):
            return fuse_all(evidence, self._fusion, scores, k)

    def _fuse_text(self, batch: Batch, places: Sequence[int], k: int) -> list[Ranking]:
        depth = max(k, self._fusion.depth)
        evidence = batch.evidence(self._lists(Route.HYBRID), places, depth)
        with batch.stage("fusing", places):
            return fuse_text(evidence, self._fusion, k)

    def _lists(self, route: Route) -> list[Route]:
        """The arms that a route runs."""
        if route == Route.HYBRID:
            return [Route.DENSE, Route.LEXICAL]
        if route != Route.FUSION:
            return [route]
        return list(self._fusion.arms())


def decide_without_index(
    questions: Sequence[str],
    analyses: Analyses,
    model: Model,
    *,
    max_latency_ms: float | None = None,
    explain: bool = False,
) -> list[Decision]:
    """Which route each question takes, by a router that looks at nothing but the question.

    Args:
        questions: Each with at least one word.
        analyses: What analyses them.
        model: The router.
        max_latency_ms: Most time for an answer.
        explain: Whether to say how the router came to its choice.

    Raises:
        QuestionError: A question is empty.
        ModelFileError: The router looks at the corpus as well.
        PolicyError: A latency that no route can be held to.
    """
    check(questions, k=1)
    if model.asks_corpus:
        raise ModelFileError(
            "This router also looks at what the corpus says to a question. "
            "Name the index: --index DIR, or WYE_INDEX."
        )
    if not questions:
        return []
    asked = analyses.analyse(questions, features=True)
    if asked.features is None:
        raise ValueError("features were asked for and not given")
    columns = without_corpus(asked.features)
    chosen = model.decide(columns, max_latency_ms=max_latency_ms, explain=explain)
    return with_trees(chosen, asked.trees) if explain else chosen


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


def _score(decision: Decision | None) -> float | None:
    return None if decision is None else decision.score


def _of_empty_index(question: str, route: Route, version: int) -> Reply:
    decision = None
    if route == Route.AUTO:
        route, decision = Route.DENSE, _UNDECIDED
    ranking = Ranking(route, (), 0, EMPTY_INDEX)
    return Reply(question, route, ranking, {}, {}, version, decision=decision)
