"""Decides whether a question takes remote arms, and merges their lists with ours.

In a collection without an index (`RemoteCollection`), a simple arm replaces our text arms, and the
router decides by what it returns.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, cast

from wye.backends.types import Passage
from wye.featurizer.analyser import Analyser
from wye.router.errors import QuestionError, RouterError
from wye.router.evidence import FIRST_PASSAGES
from wye.router.model_files import read_policy
from wye.router.policy import Policy, RoutingModel
from wye.router.remote import (
    RemoteList,
    ReturnedPassages,
    decide_by_passages,
    fuse_remote,
    read_passage_router,
    remote_ranking,
)
from wye.router.session import ModelCache, Session
from wye.router.settings import RoutingSettings
from wye.router.types import Decision, Reply, Route
from wye.service.arms.arm import ArmCall, RemoteArm, RemoteOutcome, usable
from wye.service.arms.budget import Budget
from wye.service.batching import Batcher, Entry
from wye.service.collections import THRESHOLDS, Collection
from wye.service.http.problems import Problem
from wye.service.logs import LOG
from wye.service.search import QueuedQuestion, SearchParams, SearchResult
from wye.service.settings import ServiceSettings, router_settings

NO_INDEX = "There is no index here: the corpus of '{}' is elsewhere, and remote arms search it."
ROUTES = (Route.AUTO, Route.HYBRID, Route.FUSION, Route.GRAPH)
"""Routes of such a collection: the router's choice, the simple arm, all arms, the graph's arm."""
UNROUTED = "no router: all arms are asked, until `wye train --arms` trains one for this corpus"
"""The reason for the route of a collection whose settings name no router."""
COSTLY = frozenset({Route.FUSION, Route.GRAPH, Route.STEPS})
"""Routes that take remote arms; the others do without."""
NO_RELEVANCE = (
    "Without an index the relevance of passages is unknown; leave min_relevance out, or cut the "
    "list by k."
)
NOTHING = "degraded: the simple arm gave nothing to decide by"
PER_DAY = "max_cost_per_day"
_SHALLOWEST = 20
_GRAPH_SHARE = 0.7

Find = Callable[[SearchParams, float], Awaitable[SearchResult]]
"""Searches our arms within so many seconds."""
Submit = Callable[[SearchParams, QueuedQuestion, float], Awaitable[SearchResult]]
"""Searches our arms for a question within so many seconds."""


@dataclass(slots=True)
class _Query:
    """A question in progress, with its limits.

    Attributes:
        seconds: Time that the answer may take.
        version: Version of the index that is searched.
        started: When it began, in `monotonic` seconds.
        limits: What may still be spent, by the name of the limit.
        simple: The result and the call of the simple arm, once that is asked.
    """

    params: SearchParams
    item: QueuedQuestion
    seconds: float
    budget: Budget | None
    version: int = 0
    started: float = field(default_factory=monotonic)
    limits: dict[str, float] = field(init=False)
    simple: "asyncio.Task[tuple[SearchResult, ArmCall]] | None" = None

    def __post_init__(self) -> None:
        max_cost = self.params.max_cost
        self.limits = {} if max_cost is None else {"max_cost": max_cost}

    @property
    def end(self) -> float:
        """When it must be answered, in `monotonic` seconds."""
        return self.started + self.seconds

    @property
    def remaining(self) -> float:
        """Seconds until it must be answered."""
        return self.end - monotonic()

    async def refusals(self, arms: Sequence[RemoteArm]) -> dict[str, ArmCall]:
        """The arms that may not be called, each with the outcome that says why."""
        if self.params.min_relevance > 0:
            reason = "relevance: that of its passages is unknown, and min_relevance is given"
            return {arm.name: arm.skipped(reason, "budget") for arm in arms}
        if self.budget is not None and any(arm.config.price for arm in arms):
            self.limits[PER_DAY] = await self.budget.remaining()
        calls = {}
        for arm in arms:
            if reason := arm.over_budget(self.limits):
                calls[arm.name] = arm.skipped(reason, "budget")
            elif reason := arm.refusal():
                calls[arm.name] = arm.skipped(reason, "open")
        return calls

    async def ask(self, arms: Sequence[RemoteArm], *, is_fused: bool = True) -> dict[str, ArmCall]:
        """Ask those arms concurrently whose price the limits allow.

        If the lists are fused, they have to be deeper than the answer.
        """
        price = sum(arm.config.price for arm in arms)
        advance = await self.budget.take(price) if self.budget is not None and price else None
        if advance is not None:
            self.limits[PER_DAY] = advance[0]
        params, seconds = self.params, self.started + usable(self.seconds) - monotonic()
        if params.max_latency_ms is not None:
            seconds = min(seconds, self.started + params.max_latency_ms / 1000 - monotonic())
        calls, searches = {}, []
        for arm in arms:
            reason = arm.over_budget(self.limits)
            if reason or seconds <= 0:
                reason = reason or "was not asked: no time was left"
                calls[arm.name] = arm.skipped(reason, "budget")
                continue
            self._pay(arm.config.price)
            depth = max(params.k, arm.config.depth) if is_fused else params.k
            searches.append(arm.search(self.item.text, depth, params.filter, seconds))
        answers = {call.name: call for call in await asyncio.gather(*searches)}
        spent = sum(call.spent for call in answers.values())
        self._pay(spent - sum(arm.config.price for arm in arms if arm.name in answers))
        if self.budget is not None and advance is not None:
            await self.budget.settle(advance, spent)
        return {arm.name: answers.get(arm.name) or calls[arm.name] for arm in arms}

    def _pay(self, amount: float) -> None:
        """Take an amount from every limit; a negative one gives it back."""
        for name in self.limits:
            self.limits[name] -= amount


class Gate:
    """The remote arms of a collection.

    Attributes:
        simple: The one that replaces our text arms, in a collection without an index.
    """

    def __init__(
        self,
        collection: Collection,
        arms: Sequence[RemoteArm],
        submit: Submit,
        models: Batcher[Any, Any, Any],
        *,
        by_scores: bool,
    ) -> None:
        """Keep the arms.

        Args:
            models: Encodes, and decides by what a simple arm returned, between other questions.
            by_scores: Whether our fusion adds up scores.
        """
        self.arms = tuple(arms)
        self.simple = next((arm for arm in arms if arm.is_simple), None)
        self._by_scores = self.simple.config.scores == "cosine" if self.simple else by_scores
        self._collection, self._submit, self._models = collection, submit, models
        for arm in arms:
            arm.config.use(self._encode)

    async def _encode(self, question: str) -> Sequence[float]:
        analyser = self._collection.analyser
        vector = await self._models.call(lambda: analyser.encode_questions([question])[0])
        return cast("Sequence[float]", vector.tolist())

    def suitable(self, params: SearchParams) -> list[RemoteArm]:
        """The arms, but for the simple one, that a question with these parameters may take.

        Raises:
            FilterError: One of them cannot apply the filter.
        """
        arms = [arm for arm in self.arms if arm.suits(params.route) and not arm.is_simple]
        if params.filter is not None:
            for arm in arms:
                arm.check_filter()
        return arms

    async def search(
        self,
        params: SearchParams,
        item: QueuedQuestion,
        seconds: float,
        budget: Budget | None = None,
    ) -> SearchResult:
        """Answer a question within so many seconds, with our arms and the remote arms of its route.

        The relevance of remote passages is unknown, so no arm is called if `min_relevance` is set.

        Raises:
            Problem: Our arms did not answer.
            QuestionError: `min_relevance` is given without an index.
            FilterError: An arm cannot apply the filter.
        """
        arms = self.suitable(params)
        if self.simple is None:
            query = _Query(params, item, seconds, budget, self._collection.session.version)
            find: Find = lambda params, seconds: self._submit(params, item, seconds)  # noqa: E731
        else:
            if params.min_relevance > 0:
                raise QuestionError(NO_RELEVANCE)
            if params.filter is not None:
                self.simple.check_filter()
            query = _Query(params, item, seconds, budget)
            find = partial(self._find_by_simple_arm, self.simple, query)
        skipped = await query.refusals(arms)
        callable_arms = [arm for arm in arms if arm.name not in skipped]
        if callable_arms:
            result, remote = await self._search(callable_arms, query, find)
        else:
            result, remote = await find(params, seconds), RemoteOutcome()
        if _is_costly(params.route, result):
            remote = replace(remote, calls={**skipped, **remote.calls})
        if query.simple is not None:
            _, call = await query.simple
            remote = replace(remote, calls={call.name: call, **remote.calls})
        total = monotonic() - query.started
        return replace(_cut(result, params.k), params=params, remote=remote, total=total)

    async def _find_by_simple_arm(
        self, arm: RemoteArm, query: _Query, params: SearchParams, _: float
    ) -> SearchResult:
        """Our arms' part in a search, by the simple arm, which is called once for a question."""
        query.simple = query.simple or asyncio.ensure_future(self._ask_simple(arm, query))
        result, _call = await query.simple
        return replace(result, params=params)

    async def _ask_simple(self, arm: RemoteArm, query: _Query) -> tuple[SearchResult, ArmCall]:
        """The simple arm's list, with the router's decision by it for the route auto."""
        calls = await query.refusals([arm]) or await query.ask([arm])
        call = calls[arm.name]
        result = _list_as_answer(arm, call, query, Route.HYBRID)
        if query.params.route != Route.AUTO:
            return result, call
        if call.reason:
            decision = Decision(Route.HYBRID, None, None, None, NOTHING)
        else:
            texts = [(hit.title, hit.text) for hit in call.hits[:FIRST_PASSAGES]]
            returned = ReturnedPassages(query.item.text, texts)
            collection = cast("RemoteCollection", self._collection)  # there is no index
            decision = await self._models.call(lambda: collection.decide(query.params, returned))
        return replace(result, reply=replace(result.reply, decision=decision)), call

    async def _search(
        self, arms: Sequence[RemoteArm], query: _Query, find: Find
    ) -> tuple[SearchResult, RemoteOutcome]:
        """Answer with arms that may be called, and say what their calls took."""
        params = query.params
        if params.route == Route.GRAPH:  # only the arm that replaces the graph
            calls = await query.ask(arms, is_fused=False)
            (call,) = calls.values()
            if not call.reason:
                return _list_as_answer(arms[0], call, query, Route.GRAPH), RemoteOutcome(calls)
            fused = replace(params, route=Route.FUSION)
            return await find(fused, query.remaining), RemoteOutcome(calls)
        ours = asyncio.ensure_future(find(_our_params(params, arms), query.remaining))
        if params.route == Route.AUTO and not _is_costly(params.route, await ours):
            # Without a decision something failed, so nothing was saved by choice.
            saved = {arm.name: arm.config.price for arm in arms if ours.result().reply.decision}
            return ours.result(), RemoteOutcome(saved_by=saved)
        theirs = asyncio.ensure_future(query.ask(arms))
        try:
            return await self._merge(arms, await ours, await theirs, query, find)
        finally:
            ours.cancel()
            theirs.cancel()

    async def _merge(
        self,
        arms: Sequence[RemoteArm],
        result: SearchResult,
        calls: Mapping[str, ArmCall],
        query: _Query,
        find: Find,
    ) -> tuple[SearchResult, RemoteOutcome]:
        """Merge the lists that arrived; ask our graph if the arm that replaces it failed."""
        remote = RemoteOutcome(calls)
        successful = [arm for arm in arms if not calls[arm.name].reason]
        if any(arm.takes_graph for arm in arms) and not any(arm.takes_graph for arm in successful):
            result = await _with_our_graph(result, query, find)
        if not successful:
            return result, remote
        pairs = [_ranking_of(arm, calls[arm.name]) for arm in successful]
        lists = [remote_list for remote_list, _ in pairs]
        passages = {id_: passage for _, texts in pairs for id_, passage in texts.items()}
        reply = replace(
            result.reply,
            route=Route.FUSION,
            ranking=fuse_remote(
                result.reply.ranking, lists, query.params.k, by_scores=self._by_scores
            ),
            arms={**result.reply.arms, **{one.ranking.retriever: one.ranking for one in lists}},
            relevance=(),
            answerability=None,
        )
        seconds = {**result.seconds, **{name: call.seconds for name, call in calls.items()}}
        # Passages that are also in our index are shown as they are there.
        passages |= result.passages
        return replace(result, reply=reply, passages=passages, seconds=seconds), remote


def _ranking_of(arm: RemoteArm, call: ArmCall) -> tuple[RemoteList, dict[str, Passage]]:
    """The list of an arm and its passages, by ids that are unique in the answer."""
    ranking = remote_ranking(arm.name, arm.prefix, call.hits, call.note)
    passages = {
        hit.id: Passage(hit.id, each.title, each.text, each.metadata)
        for hit, each in zip(ranking.hits, call.hits, strict=True)
    }
    return RemoteList(ranking, arm.config.scores, arm.config.weight), passages


async def _with_our_graph(result: SearchResult, query: _Query, find: Find) -> SearchResult:
    """Our fusion with the graph; the present answer if there is no time for that."""
    params = replace(query.params, route=Route.FUSION, k=result.params.k)
    try:
        # Leave time to send the present answer if this takes too long.
        fused = await find(params, _GRAPH_SHARE * query.remaining)
    except Problem:
        return result
    return replace(fused, reply=replace(fused.reply, decision=result.reply.decision))


def _list_as_answer(arm: RemoteArm, call: ArmCall, query: _Query, route: Route) -> SearchResult:
    """The answer that is one arm's list alone; our arms did not search."""
    remote_list, passages = _ranking_of(arm, call)
    ranking = remote_list.ranking
    entry = Entry(query.item, query.end, size=1)
    reply = Reply(query.item.text, route, ranking, {arm.name: ranking}, {}, query.version)
    return SearchResult(query.params, entry, reply, passages, "", {arm.name: call.seconds})


def _our_params(params: SearchParams, arms: Sequence[RemoteArm]) -> SearchParams:
    """The parameters of our part of a search, deep enough to be fused with other lists."""
    depth = max(params.k, _SHALLOWEST)
    if not any(arm.takes_graph for arm in arms):
        return replace(params, k=depth)
    if params.route == Route.AUTO:
        return replace(params, k=depth, text_only=True)
    return replace(params, k=depth, route=Route.HYBRID)


def _is_costly(route: Route, result: SearchResult) -> bool:
    """Whether a question took, or was to take, a route with remote arms."""
    decision = result.reply.decision
    if decision is None:
        return route in COSTLY
    # Without a score nothing was found here, but a remote arm may have something.
    return decision.route in COSTLY or decision.score is None


def _cut(result: SearchResult, k: int) -> SearchResult:
    """Cut a result to k hits."""
    reply = result.reply
    ranking = replace(reply.ranking, hits=reply.ranking.hits[:k])
    cut = replace(reply, ranking=ranking, relevance=reply.relevance[:k])
    return replace(result, reply=cut)


class RemoteCollection(Collection):
    """A collection without an index; its router decides by what the simple arm returns.

    Everything that needs an index is refused with 409.
    """

    def __init__(
        self,
        name: str,
        routing: RoutingSettings,
        analyser: Callable[[], Analyser],
        *,
        has_graph: bool,
    ) -> None:
        """Set which routes there are; `load` reads the router, and `analyser` loads the models."""
        super().__init__(name)
        self._routing = routing
        self._load_analyser = analyser
        self._model: RoutingModel | None = None
        self._loaded = False
        routes = ROUTES if has_graph else tuple(route for route in ROUTES if route != Route.GRAPH)
        self.unavailable = {
            route: f"{NO_INDEX.format(name)} Use {', '.join(routes)}."
            for route in Route
            if route not in routes
        }

    has_index = False

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded."""
        return self._loaded

    @property
    def session(self) -> Session:
        """There is none: always a `Problem` 409."""
        raise Problem(409, "no-index", NO_INDEX.format(self.name))

    @property
    def analyser(self) -> Analyser:
        """The models that encode questions, loaded on first use."""
        return self._load_analyser()

    @property
    def policy(self) -> Policy | None:
        """The policy, which turns scores into routes; None without a router."""
        return self._model.policy if self._model else None

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" without one."""
        return self._model.name if self._model else ""

    def load(self) -> None:
        """Read the router; if it cannot be read, the route auto is unavailable and says why."""
        try:
            self._model = read_passage_router(self._routing)
        except RouterError as error:
            self._lacks(Route.AUTO, error)
        self._loaded = True
        LOG.info("loaded", extra=self.facts())

    def renew(self) -> bool:
        """Move to newer thresholds, and return whether there were any."""
        model, path = self._model, self._routing.thresholds
        if model is None or not path:
            return False
        policy = self._attempt(THRESHOLDS, lambda: read_policy(Path(path), model.name))
        if policy is None or policy == model.policy:
            return False
        self._model = model.with_policy(policy)
        LOG.info("refreshed", extra={**self.facts(), "of": THRESHOLDS})
        return True

    def decide(self, params: SearchParams, returned: ReturnedPassages) -> Decision:
        """Decide which route a question takes, by what the simple arm returned.

        Raises:
            Problem: 409 if the router cannot be read.
            QuestionError: The operating point is unknown.
        """
        if reason := self.unavailable.get(Route.AUTO):
            raise Problem(409, "no-such-route", reason)
        if self._model is None:
            return Decision(Route.FUSION, None, None, None, UNROUTED)
        return decide_by_passages(self._model, returned, explain=params.explain, point=params.point)


def remote_collections(
    settings: ServiceSettings,
    indexes: Sequence[str],
    arms: Mapping[str, Sequence[RemoteArm]],
    models: ModelCache,
) -> dict[str, Collection]:
    """The collections without an index, by name; `arms` is the result of `read_arms`."""
    names = [name for name in arms if name not in indexes]
    routers = router_settings(settings, [*indexes, *names])
    return {
        name: RemoteCollection(
            name,
            routers[name],
            lambda: models.analyser(settings.analyser),
            has_graph=any(arm.takes_graph for arm in arms[name]),
        )
        for name in names
    }
