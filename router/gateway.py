"""The only path from questions to replies, for the service, the commands and evaluation alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from time import perf_counter, process_time

from wye.backends.documents import is_blank
from wye.backends.trigraph.retriever import in_parts
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Ranking
from wye.featurizer.analyser import Analyser
from wye.featurizer.plan import Plan, is_nested
from wye.router.batch import Arms, Batch
from wye.router.errors import ModelFileError, QuestionError
from wye.router.evidence import without_corpus
from wye.router.explain import summary
from wye.router.fusion import FusionSettings, fuse_all, lists_of
from wye.router.model import RoutingModel
from wye.router.policy import UNFAMILIAR, with_plan
from wye.router.reading import QuestionReading
from wye.router.relevance import FIRST, Judgement, RelevanceModel, RouteRanking, likely
from wye.router.step_search import StepSearch
from wye.router.steps import (
    InnerResult,
    Passages,
    PlannedQuestion,
    StepSettings,
    StepsResult,
    step_through,
)
from wye.router.types import ARMS, FURTHER, Decision, Reply, Route, TimedArmResults

EMPTY_INDEX = "the index is empty"
NO_RELEVANCE = (
    "Relevance is unknown here, since it was fitted for other models or other settings of the "
    "arms; leave min_relevance out."
)
_NO_PLAN = Plan()
_WITH_GRAPH = frozenset({Route.GRAPH, Route.FUSION, Route.STEPS, *FURTHER})
_UNDECIDED = Decision(Route.DENSE, None, None, None, f"degraded: {EMPTY_INDEX}")


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A batch of questions, identified by position, of which some are answered already.

    Attributes:
        replies: Replies to the questions that do not go in steps.
        left: Positions of the questions that go in steps.
        finish: Answers some of those left. A reply does not depend on which are answered together.
    """

    replies: Mapping[int, Reply]
    left: Sequence[int]
    finish: Callable[[Sequence[int]], Mapping[int, Reply]]


def no_router() -> RoutingModel:
    """Placeholder for a gateway without a router.

    Raises:
        ModelFileError: Always.
    """
    raise ModelFileError("This gateway has no router; name the route.")


class Gateway:
    """Answers batches of questions by a given route or by the one that the router chooses.

    Attributes:
        steps: How questions are taken apart.
    """

    def __init__(
        self,
        arms: Callable[[], Arms],
        analyser: Callable[[], Analyser],
        fusion: FusionSettings,
        model: Callable[[], RoutingModel] = no_router,
        *,
        relevance: RelevanceModel | None = None,
    ) -> None:
        """Wire the parts; nothing is loaded before a question needs it.

        Args:
            arms: Returns the version to search. Called once per batch, so a batch sees one version.
            analyser: Returns the analyser. Not called for routes that need no model.
            model: Returns the router. Not called where the route is given.
            relevance: Model of relevance; None where none was fitted to these scores.
        """
        self._arms = arms
        self._reader = analyser
        self._model = model
        self._fusion = fusion
        self.steps = StepSettings()
        self._relevance = relevance

    def search(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        min_relevance: float = 0.0,
        explain: bool = False,
        point: str = "",
        text_only: bool = False,
    ) -> list[Reply]:
        """Answer questions, in order.

        Args:
            questions: Each with at least one word.
            route: The route to take; `Route.AUTO` lets the router choose.
            k: Hits per question; all passages if there are fewer.
            filter: A metadata filter as parsed JSON. It applies before the search: a passage that
                it excludes takes no part.
            max_latency_ms: Time budget in ms where the router chooses; no further step begins
                after it.
            min_relevance: Drop hits whose probability of being relevant is lower, 0 to 1.
            explain: Whether to explain the router's decision, the graph's ranking where the graph
                is run, and which sentences gave the names of steps.
            point: Operating point of the router, such as "fast"; "" for the thresholds in use.
            text_only: Answer by hybrid where the router chooses fusion, the graph or steps, because
                a remote arm is the graph. The reply still has the router's decision.

        Raises:
            QuestionError: A question is empty, k is below 1, there is no such operating point, or
                `min_relevance` is given where no relevance is known.
            FusionError: Every list to fuse weighs 0.
            FilterError: The filter is not well formed.
            ModelFileError: The router is needed, and missing or made for other features.
            PolicyError: No route can meet the latency.
        """
        begun = self.begin(
            questions,
            route,
            k,
            filter,
            max_latency_ms=max_latency_ms,
            min_relevance=min_relevance,
            explain=explain,
            point=point,
            text_only=text_only,
        )
        replies: list[Reply] = []
        for part in begun:
            found = {**part.replies, **part.finish(part.left)}
            replies += [found[place] for place in range(len(found))]
        return replies

    def begin(
        self,
        questions: Sequence[str],
        route: Route,
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        min_relevance: float = 0.0,
        explain: bool = False,
        point: str = "",
        text_only: bool = False,
    ) -> Iterator["Begun"]:
        """`search` in parts, leaving the questions that go in steps, the slowest, for later.

        Raises:
            As `search`.
        """
        check(questions, k)
        if min_relevance > 0 and self._relevance is None:
            raise QuestionError(NO_RELEVANCE)
        if min_relevance > 0 and route in FURTHER:
            raise QuestionError(
                f"The relevance of hits of '{route}' is unknown. Use another route, or leave "
                "min_relevance out."
            )
        arms = self._arms()
        start = perf_counter()

        def is_late() -> bool:
            spent = 1000 * (perf_counter() - start)
            return max_latency_ms is not None and spent > max_latency_ms

        for part in in_parts(questions, len(arms)):
            if not len(arms):
                found = [_of_empty_index(question, route, arms.version) for question in part]
                yield Begun(dict(enumerate(found)), (), lambda _: {})
                continue
            reading = QuestionReading(part, self._reader, states=route == Route.STEPS)
            decisions: list[Decision] = []
            if route == Route.AUTO:
                batch = Batch(arms, reading, filter, self._fusion.arms(), self._fusion)
                reading.states = self._model().at(point).policy.thresholds.steps > 0
                decisions = self._decide(
                    batch, max_latency_ms=max_latency_ms, explain=explain, point=point
                )
            else:
                ahead = lists_of(route, self._fusion)
                batch = Batch(arms, reading, filter, ahead, self._fusion)
            chosen = [decision.route for decision in decisions] or [route] * len(part)
            if text_only:
                chosen = [Route.HYBRID if own in _WITH_GRAPH else own for own in chosen]
            answer = partial(
                self._replies_to,
                batch,
                chosen,
                decisions,
                arms=arms,
                filter_=filter,
                k=k,
                min_relevance=min_relevance,
                explain=explain,
                is_late=is_late,
            )
            at_once = [place for place, own in enumerate(chosen) if own != Route.STEPS]
            left = [place for place, own in enumerate(chosen) if own == Route.STEPS]
            yield Begun(answer(at_once), left, answer)

    def _replies_to(
        self,
        batch: Batch,
        chosen: Sequence[Route],
        decisions: Sequence[Decision],
        places: Sequence[int],
        *,
        arms: Arms,
        filter_: object | None,
        k: int,
        min_relevance: float,
        explain: bool,
        is_late: Callable[[], bool],
    ) -> dict[int, Reply]:
        """Answer the questions at some positions by their chosen routes."""
        if not places:
            return {}
        scores = [decision.score for decision in decisions] or [None] * len(chosen)
        wanted = max(k, FIRST) if self._relevance else k
        apart = [place for place in places if chosen[place] == Route.STEPS]
        at_once = [place for place in places if chosen[place] != Route.STEPS]
        found = {
            place: StepsResult(ranking)
            for place, ranking in self._rankings(batch, chosen, scores, at_once, wanted).items()
        } | self._take_steps(arms, batch, filter_, apart, wanted, is_late=is_late)
        if explain:
            with batch.stage("explaining", apart):
                found |= {p: _with_sentences(found[p], arms.passages) for p in apart}
        judged = self._judge(arms, batch, chosen, found)
        replies = {}
        for place in places:
            own, of = found[place], judged[place]
            ranking, relevance = likely(own.ranking, of.relevance, min_relevance, k)
            replies[place] = Reply(
                question=batch.reading.questions[place],
                route=chosen[place],
                ranking=ranking,
                arms=batch.arms_of(place),
                seconds=batch.reading.seconds[place],
                version=arms.version,
                explanation=batch.explain(place, ranking) if explain else None,
                decision=decisions[place] if decisions else None,
                chain=own.chain,
                searches=own.searches,
                relevance=relevance,
                answerability=of.answerability,
            )
        return replies

    def decide(
        self,
        questions: Sequence[str],
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        *,
        max_latency_ms: float | None = None,
        explain: bool = False,
        point: str = "",
    ) -> list[Decision]:
        """Decide which route `search` would take for each question with `Route.AUTO`.

        Raises:
            QuestionError: A question is empty, or there is no such operating point.
            FilterError: The filter is not well formed.
            ModelFileError: The router is missing or made for other features.
            PolicyError: No route can meet the latency.
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
                Batch(arms, QuestionReading(part, self._reader), filter, (), self._fusion),
                max_latency_ms=max_latency_ms,
                explain=explain,
                point=point,
            )
        ]

    def retrieve_all(
        self,
        questions: Sequence[str],
        depth: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
    ) -> list[TimedArmResults]:
        """Run every arm and the route of steps on each question, for replay.

        A further arm is run only if fusion uses its list. Models and arms run one after another,
        so that each stage has its own time; that of "steps" is what the route costs beyond fusion.
        Times are processor times, which hardly depend on the machine's load.

        Args:
            depth: Hits per arm, at least 1.

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
            reading = QuestionReading(part, self._reader, states=True, clock=process_time)
            places = range(len(part))
            asked = tuple(dict.fromkeys((*ARMS, *self._fusion.arms())))
            batch = Batch(arms, reading, filter, asked, self._fusion)
            reading.parse(places, tokens=True)  # once, for mentions and for plans
            reading.encode()
            # Search before steps, which otherwise do so while they encode.
            fused = lists_of(Route.STEPS, self._fusion)
            batch.results(fused, places, max(depth, self._fusion.depth))
            stepped = self._take_steps(arms, batch, filter, places, depth)
            coverage, results = batch.coverage(places), batch.results(asked, places, depth)
            for place, result in enumerate(results):
                steps = stepped[place].ranking if stepped[place].searches else None
                whole = replace(result, coverage=coverage[place])
                is_open = reading.plan(place).open
                found.append(TimedArmResults(whole, reading.seconds[place], steps, is_open))
        return found

    def _decide(
        self, batch: Batch, *, max_latency_ms: float | None, explain: bool, point: str
    ) -> list[Decision]:
        model, places = self._model().at(point), range(len(batch.reading.questions))
        features = batch.columns(places, model.needs, trees=explain)
        with batch.reading.stage("routing", places):
            decisions = model.decide(
                features,
                nested=[*map(is_nested, batch.reading.questions)],
                max_latency_ms=max_latency_ms,
                explain=explain,
            )
        decisions = self._planned(batch, decisions)
        if not explain:
            return decisions
        batch.reading.build_trees(places)
        seeds: Sequence[Sequence[SeedStats] | None] = [None] * len(decisions)
        if model.asks_corpus:
            seeds = batch.seeds(places)
            batch.find_names(places)
        return [
            _in_words(decision, batch.reading, place, seeds[place])
            for place, decision in enumerate(decisions)
        ]

    def _planned(self, batch: Batch, decisions: Sequence[Decision]) -> list[Decision]:
        """Send the questions that may go in steps and have a plan on the route of steps.

        Where nothing in an unfamiliar question is nested, its own first passages say little about
        what it needs, and steps lose more than they gain.
        """
        asked = [place for place, one in enumerate(decisions) if one.planned]
        plans = self._plans_of(batch, asked)
        apart = {
            place
            for place, plan in plans.items()
            if plan.steps or (plan.open and decisions[place].reason != UNFAMILIAR)
        }
        return [
            replace(one, route=Route.STEPS, reason=with_plan(one.reason)) if place in apart else one
            for place, one in enumerate(decisions)
        ]

    def _plans_of(self, batch: Batch, places: Sequence[int]) -> dict[int, Plan]:
        """Plans by position, without questions that cannot have one or are too long."""
        likely = batch.reading.may_have_plans(places)
        batch.prepare(likely, (), tokens=True)
        batch.find_names(likely)
        with batch.stage("steps", likely):
            return dict(zip(likely, batch.reading.plans(likely), strict=True))

    def _take_steps(
        self,
        arms: Arms,
        batch: Batch,
        filter_: object | None,
        places: Sequence[int],
        k: int,
        *,
        is_late: Callable[[], bool] = lambda: False,
    ) -> dict[int, StepsResult]:
        """Answer some questions by fusion, then improve on that by searches for their parts."""
        if not places:
            return {}
        lists = lists_of(Route.STEPS, self._fusion)
        depth = max(k, self._fusion.depth)
        questions = [batch.reading.questions[place] for place in places]
        made = self._plans_of(batch, places)
        batch.prepare(places, lists)
        batch.reading.encode()
        plans = [made.get(place, _NO_PLAN) for place in places]
        encoded = dict(zip(batch.reading.questions, batch.reading.encoded, strict=True))

        @cache
        def whole() -> dict[str, InnerResult]:
            found = {}
            results = batch.results(lists, places, depth)
            with batch.stage("fusing", places):
                for result, plan in zip(results, plans, strict=True):
                    deep = depth if plan.steps or plan.open else k
                    (ranking,) = fuse_all([result], self._fusion, [None], deep)
                    found[result.query.text] = InnerResult(ranking, result.query.vector)
            return found

        def base(question: str) -> InnerResult:
            return whole()[question]

        planned = [
            PlannedQuestion(question, plan, partial(base, question))
            for question, plan in zip(questions, plans, strict=True)
        ]
        search = StepSearch(arms, filter_, self._reader, self._fusion, encoded, whole, self.steps)
        with batch.stage("steps", places):
            stepped = step_through(planned, search, arms.passages, k, self.steps, is_late=is_late)
        return dict(zip(places, stepped, strict=True))

    def _judge(
        self, arms: Arms, batch: Batch, chosen: Sequence[Route], found: Mapping[int, StepsResult]
    ) -> dict[int, Judgement]:
        """Relevance and answerability of each ranking; empty without a relevance model."""
        if self._relevance is None:
            return dict.fromkeys(found, Judgement())
        with batch.stage("relevance", [*found]):
            texts = iter(arms.texts([id_ for own in found.values() for id_ in own.ranking.ids()]))
            asked = []
            for place, own in found.items():
                first = [*islice(texts, len(own.ranking.hits))]
                question = batch.reading.questions[place]
                dense = batch.arms_of(place).get(Route.DENSE)
                asked.append(RouteRanking(question, chosen[place], own.ranking, first, dense))
            return dict(zip(found, self._relevance.judge(asked), strict=True))

    def _rankings(
        self,
        batch: Batch,
        chosen: Sequence[Route],
        scores: Sequence[float | None],
        asked: Sequence[int],
        k: int,
    ) -> dict[int, Ranking]:
        """Rankings of questions that do not go in steps; those of one route are run together."""
        found: dict[int, Ranking] = {}
        taken = {chosen[place] for place in asked}
        arms = {route: lists_of(route, self._fusion) for route in Route if route in taken}
        walks = [place for place in asked if Route.GRAPH in arms[chosen[place]]]
        if walks:
            batch.prepare(walks, (Route.GRAPH,))
        for route, lists in arms.items():
            places = [place for place in asked if chosen[place] == route]
            if route in (*ARMS, *FURTHER):
                rankings = batch.search(route, places, k)
            elif route == Route.HYBRID:
                rankings = batch.hybrid(places, k)
            else:
                depth = max(k, self._fusion.depth)
                results = batch.results(lists, places, depth)
                with batch.stage("fusing", places):
                    known = [scores[place] for place in places]
                    rankings = fuse_all(results, self._fusion, known, k)
            found.update(zip(places, rankings, strict=True))
        return found


def _with_sentences(stepped: StepsResult, passages: Passages) -> StepsResult:
    """Fill in the texts of the sentences that gave the candidates."""
    chain = tuple(
        replace(
            step,
            candidates=tuple(
                replace(one, sentence=passages.sentence(one.row)) if one.row >= 0 else one
                for one in step.candidates
            ),
        )
        for step in stepped.chain
    )
    return replace(stepped, chain=chain)


def decide_without_index(
    questions: Sequence[str],
    analyser: Analyser,
    model: RoutingModel,
    *,
    max_latency_ms: float | None = None,
    explain: bool = False,
    point: str = "",
) -> list[Decision]:
    """Decide the route of each question, by a router that uses features of the question alone.

    Raises:
        QuestionError: A question is empty, or there is no such operating point.
        ModelFileError: The router also uses signals of a corpus.
        PolicyError: No route can meet the latency.
    """
    check(questions, k=1)
    if model.asks_corpus:
        raise ModelFileError(
            "This router also needs the corpus. Name its index with --index DIR or WYE_INDEX."
        )
    reading, places = QuestionReading(questions, lambda: analyser), range(len(questions))
    features = without_corpus(reading.features(places, model.needs, trees=explain))
    decisions = model.at(point).decide(features, max_latency_ms=max_latency_ms, explain=explain)
    if not explain:
        return decisions
    reading.build_trees(places)
    return [_in_words(decision, reading, place, None) for place, decision in enumerate(decisions)]


def _in_words(
    decision: Decision, reading: QuestionReading, place: int, seeds: Sequence[SeedStats] | None
) -> Decision:
    """Add a summary in words and the question's trees and plan to a decision."""
    trees = tuple(map(str, reading.trees(place)))
    plan = reading.plan(place)
    return replace(decision, trees=trees, plan=plan, summary=summary(decision, seeds))


def check(questions: Sequence[str], k: int) -> None:
    """Refuse a request that no route can answer; `search` calls this itself.

    Raises:
        QuestionError: A question is empty or not Unicode text, or k is no whole number from 1.
    """
    if not hasattr(k, "__index__"):
        raise QuestionError(f"k is {k!r:.40}; ask for a whole number of hits.")
    if k < 1:
        raise QuestionError(f"k is {k}; ask for at least 1 hit.")
    for number, question in enumerate(questions, start=1):
        place = f"Question {number}" if len(questions) > 1 else "The question"
        if is_blank(question):
            raise QuestionError(f"{place} is empty; ask with at least one word.")
        if not question.isascii() and any("\ud800" <= letter <= "\udfff" for letter in question):
            raise QuestionError(f"{place} is not valid Unicode; send it in UTF-8.")


def _of_empty_index(question: str, route: Route, version: int) -> Reply:
    decision = None
    if route == Route.AUTO:
        route, decision = Route.DENSE, _UNDECIDED
    ranking = Ranking(route, (), 0, EMPTY_INDEX)
    return Reply(question, route, ranking, {}, {}, version, decision=decision)
