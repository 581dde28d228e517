"""Decides whether a question takes remote arms, and merges their lists with ours."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter

from wye.backends.types import Passage, RankedHit, Ranking
from wye.router.remote import RemoteList, fuse_remote
from wye.router.types import Reply, Route
from wye.service.arms.arm import ArmCall, RemoteArm, RemoteOutcome, usable
from wye.service.arms.budget import Budget
from wye.service.batching import Entry
from wye.service.http.problems import Problem
from wye.service.search import QueuedQuestion, SearchParams, SearchResult

COSTLY = frozenset({Route.FUSION, Route.GRAPH, Route.STEPS})
"""Routes that take remote arms; the others do without."""
_SHALLOWEST = 20
_GRAPH_SHARE = 0.7

Find = Callable[[SearchParams, float], Awaitable[SearchResult]]
"""Searches our arms within so many seconds."""


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
    version: int
    by_scores: bool
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
        """How many hits to ask an arm for."""
        # A list that is not fused need not be deeper than the answer.
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


def suitable_arms(arms: Sequence[RemoteArm], params: SearchParams) -> list[RemoteArm]:
    """The arms that a question with these parameters may take.

    Raises:
        FilterError: One of them cannot apply the filter.
    """
    suitable = [arm for arm in arms if arm.suits(params.route)]
    if params.filter is not None:
        for arm in suitable:
            arm.check_filter(params.filter)
    return suitable


async def search(
    arms: Sequence[RemoteArm],
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    find: Find,
    *,
    version: int,
    by_scores: bool,
    budget: Budget | None = None,
) -> SearchResult:
    """Answer a question with our arms and the remote arms that its route takes.

    The relevance of remote passages is unknown, so no arm is called if `min_relevance` is set.

    Args:
        arms: The result of `suitable_arms`.
        seconds: Time that the answer may take.
        find: Searches our arms.
        version: Version of the index that they search.
        by_scores: Whether our fusion adds up scores.
        budget: The asking key's daily budget, if it has one.

    Raises:
        Problem: Our arms did not answer.
    """
    started, now = perf_counter(), monotonic()
    if not any(arm.config.price for arm in arms):
        budget = None
    daily_money = None if budget is None else await budget.remaining()
    ends = now + seconds, now + usable(seconds)
    query = _Query(params, item, version, by_scores, now, *ends, budget, daily_money)
    skipped = {arm.name: call for arm in arms if (call := _skipped(arm, query))}
    callable_arms = [arm for arm in arms if arm.name not in skipped]
    if not callable_arms:
        result, remote = await find(params, seconds), RemoteOutcome()
    elif params.route == Route.AUTO:
        result, remote = await _search_auto(callable_arms, query, find)
    else:
        result, remote = await _search_named_route(callable_arms, query, find)
    if _is_costly(params.route, result):
        remote = replace(remote, calls={**skipped, **remote.calls})
    total = perf_counter() - started
    return replace(_cut(result, params.k), params=params, remote=remote, total=total)


async def ask(
    arm: RemoteArm,
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    budget: Budget | None,
) -> ArmCall:
    """Ask one arm for one question, under the same limits as for several."""
    now = monotonic()
    if not arm.config.price:
        budget = None
    daily_money = None if budget is None else await budget.remaining()
    ends = now + seconds, now + usable(seconds)
    query = _Query(params, item, 0, False, now, *ends, budget, daily_money)
    return _skipped(arm, query) or (await _ask([arm], query))[arm.name]


def _skipped(arm: RemoteArm, query: _Query) -> ArmCall | None:
    """The outcome of an arm that may not be called; None if it may be."""
    if query.params.min_relevance > 0:
        reason = "relevance: that of its passages is unknown, and min_relevance is given"
        return arm.skipped(reason, "budget")
    if reason := arm.over_budget(query.money(query.daily_money), query.remaining_ms()):
        return arm.skipped(reason, "budget")
    if reason := arm.refusal():
        return arm.skipped(reason, "open")
    return None


async def _search_auto(
    arms: Sequence[RemoteArm], query: _Query, find: Find
) -> tuple[SearchResult, RemoteOutcome]:
    """Decide the route, and call the arms only if it takes them."""
    params = query.params
    result = await find(_our_params(params, arms), query.remaining)
    if not _is_costly(params.route, result):
        # Without a decision something failed, so nothing was saved by choice.
        saved = {arm.name: arm.usual_cost for arm in arms if result.reply.decision}
        return result, RemoteOutcome(saved_by=saved)
    calls = await _ask(arms, query)
    return await _merge(arms, calls, query, result, find)


async def _search_named_route(
    arms: Sequence[RemoteArm], query: _Query, find: Find
) -> tuple[SearchResult, RemoteOutcome]:
    """Call the arms while ours search; for the route graph, only the arm that replaces it."""
    params = query.params
    if params.route == Route.GRAPH:
        calls = await _ask(arms, query)
        (call,) = calls.values()
        if not call.reason:
            return _list_as_answer(arms[0], call, query), RemoteOutcome(calls)
        money = None if params.max_cost is None else max(0.0, params.max_cost - call.spent)
        result = await find(replace(params, route=Route.FUSION, max_cost=money), query.remaining)
        return result, RemoteOutcome(calls)
    task = asyncio.ensure_future(_ask(arms, query))
    try:
        result = await find(_our_params(params, arms), query.remaining)
        return await _merge(arms, await task, query, result, find)
    finally:
        task.cancel()


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


async def _merge(
    arms: Sequence[RemoteArm],
    calls: Mapping[str, ArmCall],
    query: _Query,
    result: SearchResult,
    find: Find,
) -> tuple[SearchResult, RemoteOutcome]:
    """Merge the lists that arrived; if the arm that replaces the graph failed, ask our graph."""
    remote = RemoteOutcome(calls)
    successful = [arm for arm in arms if not calls[arm.name].reason]
    if any(arm.takes_graph for arm in arms) and not any(arm.takes_graph for arm in successful):
        result = await _with_our_graph(result, query, find)
    if not successful:
        return result, remote
    reply = result.reply
    lists: list[RemoteList] = []
    passages: dict[str, Passage] = {}
    for arm in successful:
        remote_list, texts = ranking_of(arm, calls[arm.name])
        lists.append(remote_list)
        passages |= texts
    # Passages that are also in our index are shown as they are there.
    passages |= result.passages
    fused = fuse_remote(reply.ranking, lists, query.params.k, by_scores=query.by_scores)
    reply = replace(
        reply,
        route=Route.FUSION,
        ranking=fused,
        arms={
            **reply.arms,
            **{remote_list.ranking.retriever: remote_list.ranking for remote_list in lists},
        },
        relevance=(),
        answerability=None,
    )
    seconds = {**result.seconds, **{name: call.seconds for name, call in calls.items()}}
    return replace(result, reply=reply, passages=passages, seconds=seconds), remote


def ranking_of(arm: RemoteArm, call: ArmCall) -> tuple[RemoteList, dict[str, Passage]]:
    """The list of an arm and its passages, by ids that are unique in the answer."""
    config, prefix = arm.config, arm.prefix
    hits = tuple(
        RankedHit(prefix + hit.id, hit.score, rank) for rank, hit in enumerate(call.hits, start=1)
    )
    passages = {
        prefix + hit.id: Passage(prefix + hit.id, hit.title, hit.text, hit.metadata)
        for hit in call.hits
    }
    ranking = Ranking(arm.name, hits, len(hits), call.note)
    return RemoteList(ranking, config.scores, config.weight), passages


async def _with_our_graph(result: SearchResult, query: _Query, find: Find) -> SearchResult:
    """Our fusion with the graph; the present answer if there is no time for that."""
    params = replace(query.params, route=Route.FUSION, k=result.params.k)
    try:
        # Leave time to send the present answer if this takes too long.
        fused = await find(params, _GRAPH_SHARE * query.remaining)
    except Problem:
        return result
    return replace(fused, reply=replace(fused.reply, decision=result.reply.decision))


def _list_as_answer(arm: RemoteArm, call: ArmCall, query: _Query) -> SearchResult:
    """The answer that is one arm's list alone; our arms did not search."""
    remote_list, passages = ranking_of(arm, call)
    ranking = remote_list.ranking
    first = replace(ranking, hits=ranking.hits[: query.params.k])
    entry = Entry(query.item, query.end, size=1)
    reply = Reply(query.item.text, Route.GRAPH, first, {arm.name: ranking}, {}, query.version)
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
