"""Decides whether a question takes remote arms, and merges their lists with ours.

In a collection without an index, a simple arm replaces our text arms, and the router decides by
what it returns.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter

from wye.backends.types import Passage, RankedHit, Ranking
from wye.router.errors import QuestionError
from wye.router.evidence import FIRST_PASSAGES
from wye.router.remote import INDEX_SIGNALS, RemoteList, ReturnedPassages, fuse_remote
from wye.router.types import Decision, Reply, Route
from wye.service.arms.arm import ArmCall, RemoteArm, RemoteOutcome, usable
from wye.service.arms.budget import Budget
from wye.service.batching import Entry
from wye.service.http.problems import Problem
from wye.service.search import QueuedQuestion, SearchParams, SearchResult

COSTLY = frozenset({Route.FUSION, Route.GRAPH, Route.STEPS})
"""Routes that take remote arms; the others do without."""
NO_RELEVANCE = (
    "Without an index the relevance of passages is unknown; leave min_relevance out, or cut the "
    "list by k."
)
NOTHING = "degraded: the simple arm gave nothing to decide by"
_SHALLOWEST = 20
_GRAPH_SHARE = 0.7

Find = Callable[[SearchParams, float], Awaitable[SearchResult]]
"""Searches our arms within so many seconds."""
Decide = Callable[[SearchParams, ReturnedPassages], Awaitable[Decision]]
"""Decides which route a question takes, by what the simple arm returned."""


@dataclass(frozen=True, slots=True)
class _Query:
    """A question in progress, with its limits; times are `monotonic` seconds.

    Attributes:
        end: When it must be answered.
        usable: Until when arms are waited for.
        budget: The asking key's budget, if it has one.
        daily_money: What remained of the budget when the question arrived.
    """

    params: SearchParams
    item: QueuedQuestion
    started: float
    end: float
    usable: float
    budget: Budget | None
    daily_money: float | None

    @property
    def remaining(self) -> float:
        """Seconds until it must be answered."""
        return self.end - monotonic()

    def depth(self, arm: RemoteArm) -> int:
        """How many hits to ask an arm for; only lists that are fused are deeper than the answer."""
        is_fused = self.params.route != Route.GRAPH
        return max(self.params.k, arm.config.depth) if is_fused else self.params.k

    def money(self, daily: float | None) -> dict[str, float]:
        """Remaining money by the name of its limit, with `daily` remaining of the day's."""
        amounts = {"max_cost": self.params.max_cost, "max_cost_per_day": daily}
        return {limit: amount for limit, amount in amounts.items() if amount is not None}

    def remaining_ms(self) -> float | None:
        """Milliseconds that remain of `max_latency_ms`; None if the request does not set it."""
        limit = self.params.max_latency_ms
        return None if limit is None else limit - 1000 * (monotonic() - self.started)

    def refusal(self, arm: RemoteArm) -> ArmCall | None:
        """The outcome of an arm that may not be called; None if it may be."""
        if self.params.min_relevance > 0:
            reason = "relevance: that of its passages is unknown, and min_relevance is given"
            return arm.skipped(reason, "budget")
        if reason := arm.over_budget(self.money(self.daily_money), self.remaining_ms()):
            return arm.skipped(reason, "budget")
        if reason := arm.refusal():
            return arm.skipped(reason, "open")
        return None


async def _begin(
    arms: Sequence[RemoteArm],
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    budget: Budget | None,
) -> _Query:
    now = monotonic()
    if not any(arm.config.price for arm in arms):
        budget = None
    daily_money = None if budget is None else await budget.remaining()
    return _Query(params, item, now, now + seconds, now + usable(seconds), budget, daily_money)


class Gate:
    """The remote arms of a collection.

    Attributes:
        simple: The one that replaces our text arms, in a collection without an index.
    """

    def __init__(
        self, arms: Sequence[RemoteArm], *, by_scores: bool = False, decide: Decide | None = None
    ) -> None:
        """Keep the arms.

        Args:
            by_scores: Whether our fusion adds up scores.
            decide: For a collection without an index.
        """
        self.arms = tuple(arms)
        self.simple = next((arm for arm in arms if arm.is_simple), None)
        self._by_scores = self.simple.config.scores == "cosine" if self.simple else by_scores
        self._decide = decide

    def suitable(self, params: SearchParams) -> list[RemoteArm]:
        """The arms, but for the simple one, that a question with these parameters may take.

        Raises:
            FilterError: One of them cannot apply the filter.
        """
        arms = [arm for arm in self.arms if arm.suits(params.route) and not arm.is_simple]
        if params.filter is not None:
            for arm in arms:
                arm.check_filter(params.filter)
        return arms

    async def search(
        self,
        params: SearchParams,
        item: QueuedQuestion,
        seconds: float,
        find: Find | None = None,
        *,
        version: int = 0,
        budget: Budget | None = None,
    ) -> SearchResult:
        """Answer a question with our arms and the remote arms that its route takes.

        The relevance of remote passages is unknown, so no arm is called if `min_relevance` is set.

        Args:
            seconds: Time that the answer may take.
            find: Searches our arms; None without an index.
            version: Version of the index that they search.
            budget: The asking key's daily budget, if it has one.

        Raises:
            Problem: Our arms did not answer.
            QuestionError: `min_relevance` is given without an index.
            FilterError: An arm cannot apply the filter.
        """
        started, arms, first, ours = perf_counter(), self.suitable(params), None, params
        if find is None:
            first, ours = self._simple_search(params, arms, item, seconds, budget)
            find = first.find
        query = await _begin(arms, ours, item, seconds, budget)
        skipped = {arm.name: call for arm in arms if (call := query.refusal(arm))}
        callable_arms = [arm for arm in arms if arm.name not in skipped]
        if not callable_arms:
            result, remote = await find(ours, seconds), RemoteOutcome()
        else:
            search = self._search_auto if params.route == Route.AUTO else self._search_named
            result, remote = await search(callable_arms, query, find, version)
        if _is_costly(params.route, result):
            remote = replace(remote, calls={**skipped, **remote.calls})
        if first is not None and first.call is not None:
            calls = {first.arm.name: first.call, **remote.calls}
            without = INDEX_SIGNALS if result.reply.decision else ()
            remote = replace(remote, calls=calls, without=without)
        total = perf_counter() - started
        return replace(_cut(result, params.k), params=params, remote=remote, total=total)

    async def decide(
        self, params: SearchParams, item: QueuedQuestion, seconds: float, budget: Budget | None
    ) -> tuple[Decision, RemoteOutcome]:
        """Decide, without an index, which route a question would take; also what that took.

        Raises:
            FilterError: The simple arm cannot apply the filter.
        """
        arm = self._simple_arm(params)
        shallow = SearchParams(
            Route.AUTO, FIRST_PASSAGES, params.filter, collection=params.collection
        )
        call = await ask(arm, shallow, item, seconds, budget)
        return await self.decision(params, item.text, call), RemoteOutcome({arm.name: call})

    async def decision(self, params: SearchParams, question: str, call: ArmCall) -> Decision:
        """The router's decision by what the simple arm returned."""
        if call.reason or self._decide is None:
            return Decision(Route.HYBRID, None, None, None, NOTHING)
        texts = [(hit.title, hit.text) for hit in call.hits[:FIRST_PASSAGES]]
        return await self._decide(params, ReturnedPassages(question, texts))

    def _simple_arm(self, params: SearchParams) -> RemoteArm:
        if self.simple is None:
            raise ValueError(f"'{params.collection}' has an index")
        if params.filter is not None:
            self.simple.check_filter(params.filter)
        return self.simple

    def _simple_search(
        self,
        params: SearchParams,
        others: Sequence[RemoteArm],
        item: QueuedQuestion,
        seconds: float,
        budget: Budget | None,
    ) -> "tuple[_SimpleSearch, SearchParams]":
        """What replaces our arms, and the parameters for the other arms."""
        if params.min_relevance > 0:
            raise QuestionError(NO_RELEVANCE)
        arm = self._simple_arm(params)
        search = _SimpleSearch(self, arm, params, item, seconds, budget)
        money = params.max_cost
        if money is not None and params.route != Route.GRAPH:
            # First the price of each arm, then the simple arm's retries, then those of the others.
            price = arm.config.price
            spare = max(0.0, money - price - sum(other.config.price for other in others))
            simple_money = min(money, arm.most_cost, price + spare)
            search.params = replace(params, max_cost=simple_money)
            money -= simple_money
        return search, replace(params, max_cost=money)

    async def _search_auto(
        self, arms: Sequence[RemoteArm], query: _Query, find: Find, version: int
    ) -> tuple[SearchResult, RemoteOutcome]:
        """Decide the route, and call the arms only if it takes them."""
        del version
        params = query.params
        result = await find(_our_params(params, arms), query.remaining)
        if not _is_costly(params.route, result):
            # Without a decision something failed, so nothing was saved by choice.
            saved = {arm.name: arm.config.price for arm in arms if result.reply.decision}
            return result, RemoteOutcome(saved_by=saved)
        return await self._merge(arms, await _ask(arms, query), query, result, find)

    async def _search_named(
        self, arms: Sequence[RemoteArm], query: _Query, find: Find, version: int
    ) -> tuple[SearchResult, RemoteOutcome]:
        """Call the arms while ours search; for the route graph, only the arm that replaces it."""
        params = query.params
        if params.route == Route.GRAPH:
            calls = await _ask(arms, query)
            (call,) = calls.values()
            if not call.reason:
                return _list_as_answer(arms[0], call, query, version), RemoteOutcome(calls)
            money = None if params.max_cost is None else max(0.0, params.max_cost - call.spent)
            fused = replace(params, route=Route.FUSION, max_cost=money)
            return await find(fused, query.remaining), RemoteOutcome(calls)
        task = asyncio.ensure_future(_ask(arms, query))
        try:
            result = await find(_our_params(params, arms), query.remaining)
            return await self._merge(arms, await task, query, result, find)
        finally:
            task.cancel()

    async def _merge(
        self,
        arms: Sequence[RemoteArm],
        calls: Mapping[str, ArmCall],
        query: _Query,
        result: SearchResult,
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


@dataclass(slots=True)
class _SimpleSearch:
    """Replaces our arms by a remote arm, which is called once for a question."""

    gate: Gate
    arm: RemoteArm
    params: SearchParams
    item: QueuedQuestion
    seconds: float
    budget: Budget | None
    call: ArmCall | None = None
    _task: "asyncio.Task[SearchResult] | None" = None

    async def find(self, params: SearchParams, seconds: float) -> SearchResult:
        """The arm's list; for the route auto, with the router's decision by it."""
        del seconds  # the first call may take all the time
        if self._task is None:
            if self.params.route == Route.GRAPH:  # the arm that replaces the graph failed
                self.params = replace(self.params, max_cost=params.max_cost)
            self._task = asyncio.ensure_future(self._find())
        return replace(await self._task, params=params)

    async def _find(self) -> SearchResult:
        params, arm, text = self.params, self.arm, self.item.text
        end = monotonic() + self.seconds
        # It replaces our text arms, so it has the depth of hybrid search.
        hybrid = replace(params, route=Route.HYBRID)
        self.call = await ask(arm, hybrid, self.item, self.seconds, self.budget)
        remote_list, passages = _ranking_of(arm, self.call)
        ranking = remote_list.ranking
        decision = None
        if params.route == Route.AUTO:
            decision = await self.gate.decision(params, text, self.call)
        reply = Reply(text, Route.HYBRID, ranking, {arm.name: ranking}, {}, 0, decision=decision)
        entry = Entry(self.item, end, size=1)
        return SearchResult(params, entry, reply, passages, "", {arm.name: self.call.seconds})


async def ask(
    arm: RemoteArm,
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    budget: Budget | None,
) -> ArmCall:
    """Ask one arm for one question, under the same limits as for several."""
    query = await _begin([arm], params, item, seconds, budget)
    return query.refusal(arm) or (await _ask([arm], query))[arm.name]


async def _ask(arms: Sequence[RemoteArm], query: _Query) -> dict[str, ArmCall]:
    """Ask the arms concurrently, within the budget and `max_cost`."""
    budget, limit = query.budget, sum(arm.most_cost for arm in arms)
    if budget is None or not limit:
        return await _calls(arms, query, query.money(None))
    advance = await budget.take(limit)
    calls = await _calls(arms, query, query.money(advance[0]))
    await budget.settle(advance, sum(call.spent for call in calls.values()))
    return calls


async def _calls(
    arms: Sequence[RemoteArm], query: _Query, money: Mapping[str, float]
) -> dict[str, ArmCall]:
    """Ask the arms within some money: first the price of each, then the cost of retries."""
    params, remaining_ms = query.params, query.remaining_ms()
    seconds = query.usable - monotonic()
    if remaining_ms is not None:
        seconds = min(seconds, remaining_ms / 1000)
    skipped = {}
    for arm in arms:
        reason = arm.over_budget(money, remaining_ms)
        if reason or seconds <= 0:
            reason = reason or "was not asked: no time was left"
            skipped[arm.name] = arm.skipped(reason, "budget")
        else:
            money = {limit: amount - arm.config.price for limit, amount in money.items()}
    spare = min(money.values(), default=math.inf)
    searches = []
    for arm in arms:
        if arm.name not in skipped:
            max_cost = min(arm.most_cost, arm.config.price + spare)
            spare -= max_cost - arm.config.price
            text, depth = query.item.text, query.depth(arm)
            searches.append(arm.search(text, depth, params.filter, seconds, max_cost))
    calls = skipped | {call.name: call for call in await asyncio.gather(*searches)}
    return {arm.name: calls[arm.name] for arm in arms}


def _ranking_of(arm: RemoteArm, call: ArmCall) -> tuple[RemoteList, dict[str, Passage]]:
    """The list of an arm and its passages, by ids that are unique in the answer."""
    hits = tuple(
        RankedHit(arm.prefix + hit.id, hit.score, rank)
        for rank, hit in enumerate(call.hits, start=1)
    )
    passages = {
        hit.id: Passage(hit.id, each.title, each.text, each.metadata)
        for hit, each in zip(hits, call.hits, strict=True)
    }
    ranking = Ranking(arm.name, hits, len(hits), call.note)
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


def _list_as_answer(arm: RemoteArm, call: ArmCall, query: _Query, version: int) -> SearchResult:
    """The answer that is one arm's list alone; our arms did not search."""
    remote_list, passages = _ranking_of(arm, call)
    ranking = remote_list.ranking
    first = replace(ranking, hits=ranking.hits[: query.params.k])
    entry = Entry(query.item, query.end, size=1)
    reply = Reply(query.item.text, Route.GRAPH, first, {arm.name: ranking}, {}, version)
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
    ranking: Ranking = replace(reply.ranking, hits=reply.ranking.hits[:k])
    cut = replace(reply, ranking=ranking, relevance=reply.relevance[:k])
    return replace(result, reply=cut)
