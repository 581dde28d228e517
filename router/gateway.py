"""The only path from questions to replies, for the service, the commands and evaluation alike.

A batch of questions goes through encoding, the text arms, the decision, the graph, fusion and
relevance, in this order; a route that does not need a stage leaves it out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from wye.backends.numerics import batches
from wye.backends.text import is_blank
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import Ranking
from wye.featurizer.analyser import Analyser
from wye.featurizer.plan import Plan
from wye.router import wording
from wye.router.batch import Batch
from wye.router.errors import QuestionError
from wye.router.explain import in_words
from wye.router.fusion import FusionSettings, fuse_all, lists_of
from wye.router.policy import FORCED, RoutingModel, in_steps, is_nested
from wye.router.relevance import FIRST, Judgement, RelevanceModel, RouteRanking, likely
from wye.router.step_search import InnerResult, StepSearch
from wye.router.steps import StepsResult, step_through, with_sentences
from wye.router.types import ARMS, FURTHER, Ask, Decision, Reply, Route, TimedArmResults

if TYPE_CHECKING:
    from wye.router.snapshot import Snapshot

EMPTY_INDEX = "the index is empty"
NO_QUESTION = "there is no question in this, so nothing was searched"
NO_RELEVANCE = (
    "Relevance is unknown here, since it was fitted for other models or other settings of the "
    "arms; leave min_relevance out."
)
_NO_PLAN = Plan()
_WITH_GRAPH = frozenset({Route.GRAPH, Route.FUSION, Route.STEPS, *FURTHER})
_UNDECIDED = Decision(Route.DENSE, None, None, None, f"degraded: {EMPTY_INDEX}")
JUST_DECIDE = Ask(k=1)


def check(questions: Sequence[str], k: int = 1) -> None:
    """Refuse questions that no route can answer; the gateway calls this itself.

    Raises:
        QuestionError: A question is empty or not Unicode text, or k is no whole number from 1.
    """
    if not hasattr(k, "__index__"):
        raise QuestionError(f"k is {k!r:.40}; ask for a whole number of hits.")
    if k < 1:
        raise QuestionError(f"k is {k}; ask for at least 1 hit.")
    for number, question in enumerate(questions, start=1):
        name = f"Question {number}" if len(questions) > 1 else "The question"
        if is_blank(question):
            raise QuestionError(f"{name} is empty; ask with at least one word.")
        if not question.isascii() and any("\ud800" <= letter <= "\udfff" for letter in question):
            raise QuestionError(f"{name} is not valid Unicode; send it in UTF-8.")


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """Questions, identified by position, of which those that go in steps wait for `finish`.

    Attributes:
        replies: Replies to the questions that do not go in steps.
        in_steps: Positions of the questions that go in steps.
        finish: Answers some of these. A reply does not depend on which are answered together.
    """

    replies: Mapping[int, Reply]
    in_steps: Sequence[int] = ()
    finish: Callable[[Sequence[int]], Mapping[int, Reply]] = lambda _: {}


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """A batch with its decisions: what is needed to answer any of its questions.

    Attributes:
        questions: The questions as they came; the batch has what is asked in them.
    """

    batch: Batch
    ask: Ask
    routes: Sequence[Route]
    decisions: Sequence[Decision] = ()
    start: float = field(default_factory=perf_counter)
    questions: Sequence[str] = ()

    def is_late(self) -> bool:
        """Whether the time budget is spent."""
        budget = self.ask.max_latency_ms
        return budget is not None and 1000 * (perf_counter() - self.start) > budget

    def decision(self, position: int) -> Decision | None:
        """The router's decision on a question; None if the route was named."""
        return self.decisions[position] if self.decisions else None


@dataclass(eq=False)
class Gateway:
    """Answers batches of questions by a named route or by the one that the router chooses.

    Attributes:
        arms: Returns the version to search. Called once per batch, so a batch sees one version.
        open_analyser: Returns the analyser. Not called for routes that need no model.
        model: Returns the router. Not called where the route is named.
        relevance_model: Makes probabilities of scores; None where none was fitted to these scores.
        duplicates: What becomes of near-duplicates where `Ask.duplicates` does not say.
        route: The route where `Ask.route` is `Route.AUTO`; that too lets the router choose.
    """

    arms: Callable[[], "Snapshot"]
    open_analyser: Callable[[], Analyser]
    fusion: FusionSettings
    model: Callable[[], RoutingModel]
    relevance_model: RelevanceModel | None = None
    duplicates: str = wording.KEEP
    route: Route = Route.AUTO

    def search(self, questions: Sequence[str], ask: Ask) -> list[Reply]:
        """Answer questions, in order.

        Args:
            questions: Each with at least one word.

        Raises:
            QuestionError: A question is empty, k is below 1, there is no such operating point,
                `duplicates` is no choice, or `min_relevance` is set where no relevance is known.
            FusionError: Every list to fuse weighs 0.
            FilterError: The filter is not well formed.
            ModelFileError: The router is needed, and missing or made for other features.
            PolicyError: No route can meet the latency.
        """
        replies: list[Reply] = []
        for begun in self.begin(questions, ask):
            by_position = {**begun.replies, **begun.finish(begun.in_steps)}
            replies += [by_position[position] for position in range(len(by_position))]
        return replies

    def begin(self, questions: Sequence[str], ask: Ask) -> Iterator[Begun]:
        """`search` in parts, leaving the questions that go in steps, the slowest, for later.

        Raises:
            As `search`.
        """
        check(questions, ask.k)
        wording.require_choice(ask.duplicates)
        if ask.route == Route.AUTO:
            ask = replace(ask, route=self.route)
        if ask.min_relevance > 0 and self.relevance_model is None:
            raise QuestionError(NO_RELEVANCE)
        if ask.min_relevance > 0 and ask.route in FURTHER:
            raise QuestionError(
                f"The relevance of hits of '{ask.route}' is unknown. Use another route, or leave "
                "min_relevance out."
            )
        arms, start = self.arms().for_batch(), perf_counter()
        for part in batches(questions, len(arms)):
            why = NO_QUESTION if len(arms) else EMPTY_INDEX
            silent = {
                row: Reply.unsearched(question, ask.route, arms.version, why)
                for row, question in enumerate(part)
                if not len(arms) or wording.asks_nothing(question)
            }
            if len(silent) == len(part):
                yield Begun(silent)
                continue
            batch = self._batch(arms, [*map(wording.asked_in, part)], ask)
            decisions = self._decide(batch, ask) if ask.route == Route.AUTO else []
            routes = [decision.route for decision in decisions] or [ask.route] * len(part)
            if ask.text_only:
                routes = [Route.HYBRID if route in _WITH_GRAPH else route for route in routes]
            course = _Course(batch, ask, routes, decisions, start, part)
            rows = [row for row in range(len(part)) if row not in silent]
            at_once = [row for row in rows if routes[row] != Route.STEPS]
            in_steps = [row for row in rows if routes[row] == Route.STEPS]
            rankings = self._rankings(course, at_once)
            replies = self._replies(
                course, {row: StepsResult(ranking) for row, ranking in rankings.items()}
            )
            yield Begun({**silent, **replies}, in_steps, partial(self._finish, course))

    def decide(self, questions: Sequence[str], ask: Ask = JUST_DECIDE) -> list[Decision]:
        """Decide which route `search` would take for each question with `Route.AUTO`.

        Raises:
            QuestionError: A question is empty, or there is no such operating point.
            FilterError: The filter is not well formed.
            ModelFileError: The router is missing or made for other features.
            PolicyError: No route can meet the latency.
        """
        check(questions)
        arms = self.arms().for_batch()
        if not len(arms):
            return [_UNDECIDED] * len(questions)
        if self.route != Route.AUTO:
            return [Decision(self.route, None, None, None, FORCED)] * len(questions)
        return [
            decision
            for part in batches(questions, len(arms))
            for decision in self._decide(
                Batch(
                    arms,
                    self.open_analyser,
                    [*map(wording.asked_in, part)],
                    self.fusion,
                    filter=ask.filter,
                ),
                ask,
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
        arms = self.arms().for_batch()
        replays: list[TimedArmResults] = []
        for part in batches(questions, len(arms)):
            batch = Batch(
                arms, self.open_analyser, part, self.fusion, filter=filter, clock=process_time
            )
            positions = range(len(part))
            every = tuple(dict.fromkeys((*ARMS, *self.fusion.arms())))
            batch.parse(positions, tokens=True)  # once, for mentions and for plans
            batch.encode()
            batch.expect(every)
            lists = lists_of(Route.STEPS, self.fusion)
            # Search before steps, which otherwise do so while they encode.
            batch.results(lists, positions, max(depth, self.fusion.depth))
            ask = Ask(Route.STEPS, depth, filter)
            course = _Course(batch, ask, [Route.STEPS] * len(part))
            stepped = self._take_steps(course, positions, depth)
            coverage = batch.coverage(positions)
            results = batch.results(every, positions, depth)
            for row, result in enumerate(results):
                steps = stepped[row].ranking if stepped[row].searches else None
                whole = replace(result, coverage=coverage[row])
                is_open = batch.plan(row).open
                replays.append(TimedArmResults(whole, batch.seconds[row], steps, is_open))
        return replays

    def _batch(self, arms: "Snapshot", questions: Sequence[str], ask: Ask) -> Batch:
        """A batch that expects the arms of its route; with `Route.AUTO`, of any route."""
        auto = ask.route == Route.AUTO
        ahead = self.fusion.arms() if auto else self._lists(ask.route)
        fusion, filter_ = self.fusion, ask.filter
        return Batch(arms, self.open_analyser, questions, fusion, filter=filter_, ahead=ahead)

    def _decide(self, batch: Batch, ask: Ask) -> list[Decision]:
        """Score the questions, compare the scores with the thresholds, and look for plans."""
        model, positions = self.model().at(ask.point), range(len(batch.questions))
        features = batch.columns(
            positions,
            model.needs,
            trees=ask.explain,
            may_step=ask.route == Route.AUTO and model.policy.thresholds.steps > 0,
        )
        with batch.stage("routing", positions):
            decisions = model.decide(
                features,
                nested=[*map(is_nested, batch.questions)],
                max_latency_ms=ask.max_latency_ms,
                explain=ask.explain,
            )
        decisions = _planned(batch, decisions)
        if not ask.explain:
            return decisions
        batch.syntax(positions, trees=True)
        seeds: Sequence[Sequence[SeedStats] | None] = [None] * len(decisions)
        if model.asks_corpus:
            seeds = batch.seeds(positions)
            batch.find_names(positions)
        return [
            in_words(decision, batch.trees(row), batch.plan(row), seeds[row])
            for row, decision in enumerate(decisions)
        ]

    def _rankings(self, course: _Course, positions: Sequence[int]) -> dict[int, Ranking]:
        """Rankings of questions that do not go in steps; those of one route are run together."""
        batch, k = course.batch, self._width(course.ask)
        rankings: dict[int, Ranking] = {}
        routes = {course.routes[position] for position in positions}
        lists = {route: self._lists(route) for route in Route if route in routes}
        walks = [p for p in positions if Route.GRAPH in lists[course.routes[p]]]
        batch.prepare(walks, (Route.GRAPH,) if walks else ())
        for route, arms in lists.items():
            rows = [position for position in positions if course.routes[position] == route]
            if route in (*ARMS, *FURTHER):
                ranked = batch.search(route, rows, k)
            elif route == Route.HYBRID:
                ranked = batch.hybrid(rows, k)
            else:
                results = batch.results(arms, rows, max(k, self.fusion.depth))
                decisions = [course.decision(row) for row in rows]
                with batch.stage("fusing", rows):
                    scores = [decision.score if decision else None for decision in decisions]
                    ranked = fuse_all(results, self.fusion, scores, k)
            rankings.update(zip(rows, ranked, strict=True))
        return rankings

    def _finish(self, course: _Course, positions: Sequence[int]) -> dict[int, Reply]:
        """Answer some questions in steps."""
        if not positions:
            return {}
        batch = course.batch
        stepped = self._take_steps(course, positions, self._width(course.ask))
        if course.ask.explain:
            with batch.stage("explaining", positions):
                corpus = batch.arms.corpus
                stepped = {row: with_sentences(result, corpus) for row, result in stepped.items()}
        return self._replies(course, stepped)

    def _lists(self, route: Route) -> tuple[Route, ...]:
        """The arms whose rankings a route is made of."""
        return (route,) if route in (*ARMS, *FURTHER) else lists_of(route, self.fusion)

    def _depth(self, ask: Ask) -> int:
        """How many hits a ranking needs, so that relevance can be judged."""
        return max(ask.k, FIRST) if self.relevance_model else ask.k

    def _folds(self, ask: Ask) -> bool:
        """Whether near-duplicates are moved behind the other hits."""
        return (ask.duplicates or self.duplicates) == wording.FOLD

    def _width(self, ask: Ask) -> int:
        """How many hits a ranking needs, so that near-duplicates can be replaced by others."""
        depth = self._depth(ask)
        return wording.width(depth, self.fusion.depth) if self._folds(ask) else depth

    def _take_steps(
        self, course: _Course, positions: Sequence[int], k: int
    ) -> dict[int, StepsResult]:
        """Answer some questions by fusion, then improve on that by searches for their parts."""
        batch = course.batch
        lists = lists_of(Route.STEPS, self.fusion)
        depth = max(k, self.fusion.depth)
        plans = batch.plans(positions)
        batch.prepare(positions, lists)
        batch.encode()
        by_question = {batch.questions[p]: plans.get(p, _NO_PLAN) for p in positions}

        @cache
        def whole() -> dict[str, InnerResult]:
            inner = {}
            results = batch.results(lists, positions, depth)
            with batch.stage("fusing", positions):
                for result in results:
                    (ranking,) = fuse_all([result], self.fusion, [None], depth)
                    inner[result.query.text] = InnerResult(ranking, result.query.vector)
            return inner

        with batch.stage("steps", positions):
            search, late = StepSearch(batch, whole), course.is_late
            hops = partial(batch.arms.second_hops, allowed=batch.allowed)
            stepped = step_through(
                by_question, search, whole, batch.arms, k, hops=hops, is_late=late
            )
        return {position: stepped[batch.questions[position]] for position in positions}

    def _replies(self, course: _Course, answers: Mapping[int, StepsResult]) -> dict[int, Reply]:
        """Judge the relevance of rankings, by position, and make replies of them."""
        batch, ask = course.batch, course.ask
        answers = {row: self._worded(course, row, answer) for row, answer in answers.items()}
        answers, duplicates = self._without_duplicates(course, answers)
        judgements = self._judge(course, answers)
        replies = {}
        for row, answer in answers.items():
            ranking, relevance = likely(
                answer.ranking, judgements[row].relevance, ask.min_relevance, ask.k
            )
            replies[row] = Reply(
                question=course.questions[row],
                route=course.routes[row],
                ranking=ranking,
                arms=batch.arms_of(row),
                seconds=batch.seconds[row],
                version=course.batch.arms.version,
                explanation=batch.explain(row, ranking) if ask.explain else None,
                decision=course.decision(row),
                chain=answer.chain,
                searches=answer.searches,
                relevance=relevance,
                answerability=judgements[row].answerability,
                duplicates={i: same for i, same in duplicates[row].items() if i in ranking.ids()},
            )
        return replies

    def _worded(self, course: _Course, row: int, answer: StepsResult) -> StepsResult:
        """An answer ranked again by the wording of its question; see `wording`."""
        batch = course.batch
        wishes = wording.read_wording(batch.questions[row])
        if not wishes or course.routes[row] in FURTHER:
            return answer
        with batch.stage("wording", [row]):
            ranking = wording.by_wording(
                wishes, answer.ranking, batch.arms, batch.allowed, course.ask.k
            )
        return replace(answer, ranking=ranking)

    def _without_duplicates(
        self, course: _Course, answers: Mapping[int, StepsResult]
    ) -> tuple[dict[int, StepsResult], dict[int, dict[str, tuple[str, ...]]]]:
        """Answers with near-duplicates behind the other hits, and the ids of those of each hit."""
        ask, arms = course.ask, course.batch.arms
        if not self._folds(ask):
            return {**answers}, {row: {} for row in answers}
        depth, folded, duplicates = self._depth(ask), {}, {}
        with course.batch.stage("folding", [*answers]):
            for row, answer in answers.items():
                ranking, duplicates[row] = wording.fold(answer.ranking, arms, depth)
                folded[row] = replace(answer, ranking=ranking)
        return folded, duplicates

    def _judge(self, course: _Course, answers: Mapping[int, StepsResult]) -> dict[int, Judgement]:
        """Relevance and answerability of each answer; empty without a relevance model."""
        if self.relevance_model is None:
            return dict.fromkeys(answers, Judgement())
        batch = course.batch
        with batch.stage("relevance", [*answers]):
            ids = [id_ for answer in answers.values() for id_ in answer.ranking.ids()]
            texts = iter(batch.arms.texts(ids))
            evidence = []
            for row, answer in answers.items():
                first = [*islice(texts, len(answer.ranking.hits))]
                evidence.append(self._evidence(course, row, answer, first))
            return dict(zip(answers, self.relevance_model.judge(evidence), strict=True))

    def _evidence(
        self, course: _Course, row: int, answer: StepsResult, texts: Sequence[tuple[str, str]]
    ) -> RouteRanking:
        """An answer with what its route has found out already, which depends on nothing else."""
        batch, route = course.batch, course.routes[row]
        question, arms = batch.questions[row], batch.arms
        sentences: Sequence[float] = ()
        if route != Route.LEXICAL:
            sentences = arms.nearest(answer.ranking.ids(FIRST), batch.queries[row].vector)
        weights = {}
        if Route.LEXICAL in self._lists(route):
            weights = {word.term: word.weight for word in arms.words_in([question], [()])[0]}
        return RouteRanking(
            question,
            route,
            answer.ranking,
            texts,
            batch.arms_of(row).get(Route.DENSE),
            sentences,
            weights,
            [name.name for step in answer.chain for name in step.candidates if name.put_in],
            answer.hops,
        )


def _planned(batch: Batch, decisions: Sequence[Decision]) -> list[Decision]:
    """Send the questions that may go in steps on that route, if they have a plan.

    Those that would be fused go there without one too: second hops cost little beyond fusion.
    """
    plans = batch.plans([row for row, decision in enumerate(decisions) if decision.planned])
    routed = list(decisions)
    for row, plan in plans.items():
        decision, has_plan = decisions[row], bool(plan.steps or plan.open)
        if has_plan or decision.route == Route.FUSION:
            reason = in_steps(decision.reason, has_plan=has_plan)
            routed[row] = replace(decision, route=Route.STEPS, reason=reason)
    return routed
