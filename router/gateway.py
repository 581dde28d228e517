"""The one orchestration: questions in, replies out, whoever asks."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from backends.trigraph.retriever import in_parts
from backends.types import Ranking
from router.adapters import Questions
from router.batch import Arms, Batch
from router.errors import ModelFileError, QuestionError
from router.explain import summary
from router.fusion import FusionSettings, fuse_all, fuse_text, lists_of
from router.model import RoutingModel
from router.query_performance import with_corpus, without_corpus
from router.types import ARMS, ArmResults, Decision, Reply, Route, TimedArmResults, with_trees

EMPTY_INDEX = "the index is empty"
SEEN = 5
"""Hits of the dense list that a router looks at."""
_UNDECIDED = Decision(Route.DENSE, None, None, None, f"degraded: {EMPTY_INDEX}")


def no_router() -> RoutingModel:
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
        analyser: Callable[[], Questions],
        fusion: FusionSettings,
        model: Callable[[], RoutingModel] = no_router,
    ) -> None:
        """Wire the parts; nothing is loaded before a question needs it.

        Args:
            arms: The version to search in; asked once per batch, so that a batch sees one version.
            analyser: What analyses questions; not asked for where words are enough.
            model: The router; not asked for where the route is given.
        """
        self._arms = arms
        self._questions = analyser
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
        replies: list[Reply] = []
        for part in in_parts(questions, len(arms)):
            batch = Batch(arms, part, filter)
            if route == Route.AUTO:
                depth = max(k, self._fusion.depth)
                decisions = self._decide(
                    batch, max_latency_ms=max_latency_ms, explain=explain, depth=depth
                )
                chosen = [decision.route for decision in decisions]
            else:
                self._read(batch, lists_of(route, self._fusion))
                decisions, chosen = [], [route] * len(part)
            scores = [decision.score for decision in decisions] or [None] * len(part)
            rankings = self._rankings(batch, chosen, scores, k)
            replies += [
                Reply(
                    question=question,
                    route=chosen[place],
                    ranking=rankings[place],
                    arms=batch.arms_of(place),
                    seconds=batch.seconds[place],
                    version=arms.version,
                    explanation=batch.explain(place, rankings[place]) if explain else None,
                    decision=decisions[place] if decisions else None,
                )
                for place, question in enumerate(part)
            ]
        return replies

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
        return [
            decision
            for part in in_parts(questions, len(arms))
            for decision in self._decide(
                Batch(arms, part, filter), max_latency_ms=max_latency_ms, explain=explain
            )
        ]

    def retrieve_all(
        self,
        questions: Sequence[str],
        depth: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
    ) -> list[TimedArmResults]:
        """What every arm says to each question, with nothing chosen or fused: for replay.

        Args:
            depth: Hits of each arm, at least 1.

        Raises:
            QuestionError: A question is empty, or depth is below 1.
            FilterError: The filter is not well formed.
        """
        check(questions, depth)
        if not questions:
            return []
        arms = self._arms()
        found: list[TimedArmResults] = []
        for part in in_parts(questions, len(arms)):
            batch = Batch(arms, part, filter)
            self._read(batch, ARMS)
            results = batch.results(ARMS, range(len(part)), depth)
            found += map(TimedArmResults, results, batch.seconds)
        return found

    def _read(self, batch: Batch, arms: Sequence[Route]) -> None:
        """Analyse questions that all go to the same arms."""
        if tuple(arms) == (Route.LEXICAL,):
            batch.use_words_alone()
        else:
            batch.analyse(self._questions(), arms)

    def _decide(
        self, batch: Batch, *, max_latency_ms: float | None, explain: bool, depth: int = SEEN
    ) -> list[Decision]:
        model = self._model()
        batch.analyse(self._questions(), (), features=True)
        everyone = range(len(batch.questions))
        seen = None
        if model.asks_corpus:
            seen = batch.results([Route.DENSE], everyone, max(depth, SEEN), seeds=True)
        with batch.stage("routing", everyone):
            own = batch.features
            columns = without_corpus(own) if seen is None else with_corpus(own, seen)
            chosen = model.decide(columns, max_latency_ms=max_latency_ms, explain=explain)
        return _in_words(with_trees(chosen, batch.trees), seen) if explain else chosen

    def _rankings(
        self, batch: Batch, chosen: Sequence[Route], scores: Sequence[float | None], k: int
    ) -> list[Ranking]:
        """One ranking for each question; those with the same route are worked on together."""
        found: dict[int, Ranking] = {}
        for route in Route:
            places = [place for place, own in enumerate(chosen) if own == route]
            if not places:
                continue
            if route in ARMS:
                rankings = batch.search(route, places, k)
            else:
                depth = max(k, self._fusion.depth)
                results = batch.results(lists_of(route, self._fusion), places, depth)
                with batch.stage("fusing", places):
                    if route == Route.HYBRID:
                        rankings = fuse_text(results, self._fusion, k)
                    else:
                        known = [scores[place] for place in places]
                        rankings = fuse_all(results, self._fusion, known, k)
            found.update(zip(places, rankings, strict=True))
        return [found[place] for place in range(len(chosen))]


def decide_without_index(
    questions: Sequence[str],
    analyser: Questions,
    model: RoutingModel,
    *,
    max_latency_ms: float | None = None,
    explain: bool = False,
) -> list[Decision]:
    """Which route each question takes, by a router that looks at nothing but the question.

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
    asked = analyser.analyse(questions, features=True)
    if asked.features is None:
        raise ValueError("features were asked for and not given")
    columns = without_corpus(asked.features)
    chosen = model.decide(columns, max_latency_ms=max_latency_ms, explain=explain)
    return _in_words(with_trees(chosen, asked.trees)) if explain else chosen


def _in_words(
    decisions: Sequence[Decision], seen: Sequence[ArmResults] | None = None
) -> list[Decision]:
    """Decisions with what explains them as text."""
    seeds = [None] * len(decisions) if seen is None else [one.seeds for one in seen]
    return [
        replace(decision, summary=summary(decision, named))
        for decision, named in zip(decisions, seeds, strict=True)
    ]


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
    decision = None
    if route == Route.AUTO:
        route, decision = Route.DENSE, _UNDECIDED
    ranking = Ranking(route, (), 0, EMPTY_INDEX)
    return Reply(question, route, ranking, {}, {}, version, decision=decision)
