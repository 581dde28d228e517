"""The only path from questions to replies, for the service, the commands and evaluation alike.

A batch of questions goes through encoding, the text arms, the decision, the graph, fusion and
relevance, in this order, each once for all of its questions; a route that does not need a stage
leaves it out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, islice
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from wye.backends.numerics import batches
from wye.backends.text import cells_of, is_blank
from wye.backends.trigraph.seeds import SeedStats
from wye.featurizer.plan import Plan
from wye.router import wording
from wye.router.answer_types import has_fitting_label
from wye.router.batch import Batch, Models
from wye.router.errors import QuestionError
from wye.router.evidence import share_at_hand
from wye.router.explain import with_explanation
from wye.router.fusion import FusionSettings, fuse_all
from wye.router.match import FIRST, RouteRanking
from wye.router.policy import FORCED, follows_names, in_steps, is_nested
from wye.router.relevance import Judgement, RelevanceModel, likely
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
    """Raise a `QuestionError` for an empty question, half of a surrogate pair, or a k below 1."""
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
class BatchReplies:
    """Questions, identified by position, of which those that go in steps wait for `finish`.

    A reply does not depend on which are answered together.
    """

    replies: Mapping[int, Reply]
    in_steps: Sequence[int] = ()
    finish: Callable[[Sequence[int]], Mapping[int, Reply]] = lambda _: {}


@dataclass(eq=False)
class Gateway:
    """Answers batches of questions by a named route or by the one that the router chooses."""

    arms: "Snapshot"  # the version to search
    models: Models  # the analyser and the router. None is loaded for a route that needs none.
    fusion: FusionSettings
    relevance_model: RelevanceModel | None = None  # None if none was fitted to these scores
    duplicates: str = wording.KEEP  # where `Ask.duplicates` does not say
    route: Route = Route.AUTO  # where `Ask.route` is `Route.AUTO`; that too lets the router choose

    def search(self, questions: Sequence[str], ask: Ask) -> list[Reply]:
        """Answer questions of at least a word, in order.

        Raises:
            QuestionError: A question is empty, k is below 1, `duplicates` is no choice,
                or `min_relevance` is set where no relevance is known.
            FusionError: Every list to fuse weighs 0.
            FilterError: The filter is not well formed.
            ModelFileError: The router is needed, and missing or made for other features.
        """
        replies: list[Reply] = []
        for batch in self.begin(questions, ask):
            by_position = {**batch.replies, **batch.finish(batch.in_steps)}
            replies += [by_position[position] for position in range(len(by_position))]
        return replies

    def begin(self, questions: Sequence[str], ask: Ask) -> Iterator[BatchReplies]:
        """`search` in parts, leaving the questions that go in steps, the slowest, for later."""
        check(questions, ask.k)
        wording.require_choice(ask.duplicates)
        route = self.route if ask.route == Route.AUTO else ask.route
        ask = replace(ask, route=route, duplicates=ask.duplicates or self.duplicates)
        if ask.min_relevance > 0 and self.relevance_model is None:
            raise QuestionError(NO_RELEVANCE)
        if ask.min_relevance > 0 and ask.route in FURTHER:
            raise QuestionError(
                f"The relevance of hits of '{ask.route}' is unknown. Use another route, or leave "
                "min_relevance out."
            )
        arms, start = self.arms.for_batch(wording.width(ask.k, self.fusion.depth)), perf_counter()
        ahead = _lists(ask.route, self.fusion)
        for part in batches(questions, len(arms)):
            why = NO_QUESTION if len(arms) else EMPTY_INDEX
            silent = {
                row: Reply.unsearched(question, ask.route, arms.version, why)
                for row, question in enumerate(part)
                if not len(arms) or wording.asks_nothing(question)
            }
            if len(silent) == len(part):
                yield BatchReplies(silent)
                continue
            pipeline = self._pipeline(arms, part, ask, ahead, start)
            rows = [row for row in range(len(part)) if row not in silent]
            at_once = [row for row in rows if pipeline.routes[row] != Route.STEPS]
            in_steps = [row for row in rows if pipeline.routes[row] == Route.STEPS]
            replies = pipeline.replies(pipeline.rank(at_once))
            yield BatchReplies({**silent, **replies}, in_steps, pipeline.finish)

    def decide(self, questions: Sequence[str], ask: Ask = JUST_DECIDE) -> list[Decision]:
        """Decide which route `search` would take with `Route.AUTO`; raises what it would."""
        check(questions)
        arms = self.arms.for_batch(most=1)
        if not len(arms):
            return [_UNDECIDED] * len(questions)
        if self.route != Route.AUTO:
            return [Decision(self.route, None, None, None, FORCED)] * len(questions)
        ask = replace(ask, route=Route.AUTO)
        parts = batches(questions, len(arms))
        return [one for part in parts for one in self._pipeline(arms, part, ask).decisions]

    def retrieve_all(self, questions: Sequence[str], depth: int) -> list[TimedArmResults]:
        """Run every arm, to some depth, and the route of steps on each question, for replay.

        A further arm is run only if fusion uses its list. Models and arms run one after another, so
        that each stage is timed alone; that of "steps" is what the route costs beyond fusion. Times
        are processor times, which hardly depend on the machine's load.
        """
        check(questions, depth)
        arms = self.arms.for_batch(max(depth, self.fusion.depth))
        every = tuple(dict.fromkeys((*ARMS, *self.fusion.arms())))
        lists, ask = self.fusion.arms(), Ask(Route.STEPS, depth)
        replays: list[TimedArmResults] = []
        for part in batches(questions, len(arms)):
            batch = Batch(arms, self.models, part, self.fusion, ahead=every, clock=process_time)
            positions = range(len(part))
            batch.parse(positions, tokens=True)  # once, for mentions and for plans
            batch.encode()
            # Search before steps, which otherwise do so while they encode.
            batch.results(lists, positions, max(depth, self.fusion.depth))
            stepped = _Pipeline(self, batch, ask, part).take_steps(positions, depth)
            coverage = batch.coverage(positions)
            results, rows = batch.results(every, positions, depth), _among_rows(batch, positions)
            for row, result in enumerate(results):
                answer, plan = stepped[row], batch.plan(row)
                steps = answer.ranking if answer.searches or answer.hops else None
                whole = replace(result, coverage=coverage[row])
                has_plan = bool(plan.steps or plan.open)
                about = has_plan, plan.open, rows[row]
                replays.append(TimedArmResults(whole, batch.seconds[row], steps, *about))
        return replays

    def _pipeline(
        self,
        arms: "Snapshot",
        questions: Sequence[str],
        ask: Ask,
        ahead: Sequence[Route] = (),
        start: float = 0.0,
    ) -> "_Pipeline":
        texts, fusion = [*map(wording.question_in, questions)], self.fusion
        if Route.LEXICAL in _lists(ask.route, fusion):
            # The analyser is made at the first word that no passage has.
            texts = arms.lexical.respelt(texts, lambda it: self.models.analyser.is_word(it))  # noqa: PLW0108
        batch = Batch(arms, self.models, texts, fusion, filter=ask.filter, ahead=ahead)
        return _Pipeline(self, batch, ask, questions, start)


@dataclass(eq=False)
class _Pipeline:
    """The way of one batch through the stages: decide, rank or take steps, order, judge."""

    gateway: Gateway
    batch: Batch
    ask: Ask  # what is wanted; the gateway's defaults are filled in
    questions: Sequence[str]  # as they came
    start: float = 0.0  # when the request came, in `perf_counter` seconds

    @cached_property
    def decisions(self) -> Sequence[Decision]:
        """The router's decisions by scores, thresholds and plans; empty if the route was named."""
        batch, ask = self.batch, self.ask
        if ask.route != Route.AUTO:
            return ()
        model, positions = batch.models.router, range(len(self.questions))
        may_step = model.policy.thresholds.steps > 0
        features = batch.columns(model.needs, trees=ask.explain, may_step=may_step)
        nested = [*map(is_nested, batch.questions)]
        with batch.stage("routing", positions):
            decisions = model.decide(features, nested=nested, explain=ask.explain)
        planned = [row for row, decision in enumerate(decisions) if decision.planned]
        rows = [row for row in planned if decisions[row].route != Route.GRAPH]
        evidence = zip(rows, share_at_hand(features[rows]), _among_rows(batch, rows), strict=True)
        follows = {row for row, *of in evidence if follows_names(decisions[row].route, *of)}
        for row, plan in {**dict.fromkeys(planned, _NO_PLAN), **batch.plans(planned)}.items():
            decision, has_plan = decisions[row], bool(plan.steps or plan.open)
            if has_plan or row in follows:
                reason = in_steps(decision.reason, has_plan=has_plan)
                decisions[row] = replace(decision, route=Route.STEPS, reason=reason)
        if not ask.explain:
            return decisions
        syntaxes = batch.syntax(positions, trees=True)
        seeds: Sequence[Sequence[SeedStats] | None] = [None] * len(decisions)
        if model.asks_corpus:
            seeds = batch.seeds(positions)
            batch.find_names(positions)
        trees, plans = [syntax.trees for syntax in syntaxes], map(batch.plan, positions)
        return [*map(with_explanation, decisions, trees, plans, seeds)]

    @cached_property
    def routes(self) -> Sequence[Route]:
        """The route of each question."""
        routes = [decision.route for decision in self.decisions]
        routes = routes or [self.ask.route] * len(self.questions)
        if self.ask.text_only:
            return [Route.HYBRID if route in _WITH_GRAPH else route for route in routes]
        return routes

    @property
    def _depth(self) -> int:
        """Hits that a ranking needs, so that relevance can be judged."""
        return max(self.ask.k, FIRST) if self.gateway.relevance_model else self.ask.k

    @property
    def _folds(self) -> bool:
        return self.ask.duplicates == wording.FOLD

    @property
    def _width(self) -> int:
        """Hits that a ranking needs, so that others can take the ranks of near-duplicates."""
        depth, deepest = self._depth, self.gateway.fusion.depth
        return wording.width(depth, deepest) if self._folds else depth

    def rank(self, positions: Sequence[int]) -> dict[int, StepsResult]:
        """Rank for questions that do not go in steps; those of one route together."""
        batch, fusion, k = self.batch, self.gateway.fusion, self._width
        answers: dict[int, StepsResult] = {}
        routes = {self.routes[position] for position in positions}
        lists = {route: _lists(route, fusion) for route in Route if route in routes}
        walks = [p for p in positions if Route.GRAPH in lists[self.routes[p]]]
        batch.prepare(walks, (Route.GRAPH,) if walks else ())
        for route, arms in lists.items():
            rows = [position for position in positions if self.routes[position] == route]
            if route == Route.HYBRID:
                ranked = batch.hybrid(rows, k)
            elif route == Route.FUSION:
                results = batch.results(arms, rows, max(k, fusion.depth))
                scores = [self.decisions[row].score if self.decisions else None for row in rows]
                with batch.stage("fusing", rows):
                    ranked = fuse_all(results, fusion, scores, k)
            else:
                ranked = batch.search(route, rows, k)
            answers.update(zip(rows, map(StepsResult, ranked), strict=True))
        return answers

    def finish(self, positions: Sequence[int]) -> dict[int, Reply]:
        """Answer some questions in steps."""
        if not positions:
            return {}
        answers = self.take_steps(positions, self._width)
        if self.ask.explain:
            with self.batch.stage("explaining", positions):
                corpus = self.batch.arms.corpus
                answers = {row: with_sentences(answer, corpus) for row, answer in answers.items()}
        return self.replies(answers)

    def take_steps(self, positions: Sequence[int], k: int) -> dict[int, StepsResult]:
        """Answer some questions by fusion, then improve on that by searches for their parts."""
        batch, fusion = self.batch, self.gateway.fusion
        lists, depth = fusion.arms(), max(k, fusion.depth)
        plans = batch.plans(positions)
        batch.prepare(positions, lists)
        batch.encode()

        @cache
        def whole() -> dict[str, InnerResult]:
            inner = {}
            results = batch.results(lists, positions, depth)
            with batch.stage("fusing", positions):
                for result in results:
                    (ranking,) = fuse_all([result], fusion, [None], depth)
                    inner[result.query.text] = InnerResult(ranking, result.query.vector)
            return inner

        with batch.stage("steps", positions):
            stepped = step_through(
                {batch.questions[p]: plans.get(p, _NO_PLAN) for p in positions},
                StepSearch(batch, whole),
                whole,
                batch.arms,
                k,
                hops=partial(batch.arms.second_hops, allowed=batch.allowed),
                is_late=self._is_late,
            )
        return {position: stepped[batch.questions[position]] for position in positions}

    def _is_late(self) -> bool:
        limit = self.ask.step_ms
        return limit is not None and 1000 * (perf_counter() - self.start) > limit

    def replies(self, answers: Mapping[int, StepsResult]) -> dict[int, Reply]:
        """Order rankings by the questions' wording, judge them, and make replies of them."""
        batch, ask = self.batch, self.ask
        answers = {row: self._by_wording(row, answer) for row, answer in answers.items()}
        answers, duplicates = self._folded(answers)
        judgements = self._judge(answers)
        replies = {}
        for row, answer in answers.items():
            of_hits, searched = judgements[row].relevance, batch.questions[row]
            ranking, relevance = likely(answer.ranking, of_hits, ask.min_relevance, ask.k)
            replies[row] = Reply(
                question=self.questions[row],
                route=self.routes[row],
                ranking=ranking,
                arms=batch.arms_of(row),
                seconds=batch.seconds[row],
                version=batch.arms.version,
                explanation=batch.explain(row, ranking) if ask.explain else None,
                decision=self.decisions[row] if self.decisions else None,
                chain=answer.chain,
                searches=answer.searches,
                relevance=relevance,
                answerability=judgements[row].answerability,
                duplicates={i: same for i, same in duplicates[row].items() if i in ranking.ids()},
                searched=searched if searched != self.questions[row] else "",
            )
        return replies

    def _by_wording(self, row: int, answer: StepsResult) -> StepsResult:
        """An answer in the order that the wording of its question asks for; see `wording`."""
        batch, ranking = self.batch, answer.ranking
        wishes = wording.read_wording(batch.questions[row])
        if not wishes or self.routes[row] in FURTHER:
            return answer
        with batch.stage("wording", [row]):
            ordered = wording.by_wording(wishes, ranking, batch.arms, batch.allowed, self.ask.k)
        return replace(answer, ranking=ordered)

    def _folded(
        self, answers: Mapping[int, StepsResult]
    ) -> tuple[Mapping[int, StepsResult], dict[int, dict[str, tuple[str, ...]]]]:
        """Answers with near-duplicates behind the other hits, and the ids of those of each hit."""
        if not self._folds:
            return answers, {row: {} for row in answers}
        depth, folded, duplicates = self._depth, {}, {}
        with self.batch.stage("folding", [*answers]):
            for row, answer in answers.items():
                ranking, duplicates[row] = wording.fold(answer.ranking, self.batch.arms, depth)
                folded[row] = replace(answer, ranking=ranking)
        return folded, duplicates

    def _judge(self, answers: Mapping[int, StepsResult]) -> dict[int, Judgement]:
        """Relevance and answerability of each answer; empty without a relevance model."""
        model, batch = self.gateway.relevance_model, self.batch
        if model is None:
            return dict.fromkeys(answers, Judgement())
        with batch.stage("relevance", [*answers]):
            ids = [id_ for answer in answers.values() for id_ in answer.ranking.ids()]
            texts = iter(batch.arms.texts(ids))
            of_each = [[*islice(texts, len(each.ranking.hits))] for each in answers.values()]
            rankings = [*map(self._evidence, answers, answers.values(), of_each)]
            return dict(zip(answers, model.judge(rankings), strict=True))

    def _evidence(
        self, row: int, answer: StepsResult, texts: Sequence[tuple[str, str]]
    ) -> RouteRanking:
        """An answer with what its route computed anyway, and with what no route changes."""
        batch, route = self.batch, self.routes[row]
        question, arms = batch.questions[row], batch.arms
        ids, vector = answer.ranking.ids(FIRST), batch.queries[row].vector
        sentences = () if route == Route.LEXICAL else arms.nearest(ids, vector)
        has_words = Route.LEXICAL in _lists(route, self.gateway.fusion)
        weights = arms.lexical.word_weights(question) if has_words else {}
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
            partial(has_fitting_label, batch.models, question, vector) if len(vector) else None,
        )


def _among_rows(batch: Batch, positions: Sequence[int]) -> list[bool]:
    """Whether a row of a table is among the text arms' first passages for each question."""
    firsts = [ranking.ids(FIRST) for ranking in batch.hybrid(positions, FIRST)]
    texts = iter(batch.arms.texts([*chain.from_iterable(firsts)]))
    cells = [[cells_of(text) for _, text in islice(texts, len(ids))] for ids in firsts]
    return [*map(any, cells)]


def _lists(route: Route, fusion: FusionSettings) -> tuple[Route, ...]:
    """The arms whose rankings a route is made of, or may be made of where the router chooses."""
    if route == Route.HYBRID:
        return Route.DENSE, Route.LEXICAL
    return fusion.arms() if route in (Route.AUTO, Route.FUSION, Route.STEPS) else (route,)
