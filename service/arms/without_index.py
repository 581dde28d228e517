"""Answers without an index: by a simple arm, and by others if the route takes them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter

from wye.router.errors import QuestionError
from wye.router.evidence import FIRST_PASSAGES
from wye.router.remote import INDEX_SIGNALS, ReturnedPassages
from wye.router.types import Decision, Reply, Route
from wye.service.arms import gate
from wye.service.arms.arm import ArmCall, RemoteArm, RemoteOutcome
from wye.service.arms.budget import Budget
from wye.service.arms.gate import ranking_of
from wye.service.batching import Entry
from wye.service.search import QueuedQuestion, SearchParams, SearchResult

Decide = Callable[[SearchParams, ReturnedPassages], Awaitable[Decision]]
"""Decides which route a question takes, by what the simple arm returned."""
NO_RELEVANCE = (
    "Without an index the relevance of passages is unknown; leave min_relevance out, or cut the "
    "list by k."
)
NOTHING = "degraded: the simple arm gave nothing to decide by"


async def search(
    simple: RemoteArm,
    others: Sequence[RemoteArm],
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    *,
    decide: Decide,
    budget: Budget | None = None,
) -> SearchResult:
    """Answer a question by remote arms alone.

    Args:
        simple: The arm that replaces our text arms.
        others: The other arms that suit the route; see `gate.suitable_arms`.
        seconds: Time that the answer may take.
        budget: The asking key's daily budget, if it has one.

    Raises:
        QuestionError: `min_relevance` is given.
        FilterError: The simple arm cannot apply the filter.
    """
    if params.min_relevance > 0:
        raise QuestionError(NO_RELEVANCE)
    if params.filter is not None:
        simple.check_filter(params.filter)
    started = perf_counter()
    simple_search = _SimpleSearch(simple, params, item, seconds, decide, budget)
    money = params.max_cost
    if money is not None and params.route != Route.GRAPH:
        # First the price of each arm, then the simple arm's retries, then those of the others.
        price = simple.config.price
        spare = max(0.0, money - price - sum(arm.config.price for arm in others))
        simple_money = min(money, simple.most_cost, price + spare)
        simple_search.params = replace(params, max_cost=simple_money)
        money -= simple_money
    result = await gate.search(
        others,
        replace(params, max_cost=money),
        item,
        seconds,
        simple_search.find,
        version=0,
        by_scores=simple.config.scores == "cosine",
        budget=budget,
    )
    remote = result.remote or RemoteOutcome()
    if simple_search.call is not None:
        calls = {simple.name: simple_search.call, **remote.calls}
        without = INDEX_SIGNALS if result.reply.decision else ()
        remote = replace(remote, calls=calls, without=without)
    return replace(result, params=params, remote=remote, total=perf_counter() - started)


async def route(
    simple: RemoteArm,
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    *,
    decide: Decide,
    budget: Budget | None = None,
) -> tuple[Decision, RemoteOutcome]:
    """Decide which route a question would take; also returns the outcome of the simple arm.

    Raises:
        FilterError: The simple arm cannot apply the filter.
    """
    if params.filter is not None:
        simple.check_filter(params.filter)
    simple_params = SearchParams(
        Route.AUTO, FIRST_PASSAGES, params.filter, collection=params.collection
    )
    call = await gate.ask(simple, simple_params, item, seconds, budget)
    decision = await _decision(decide, params, item.text, call)
    return decision, RemoteOutcome({simple.name: call})


@dataclass(slots=True)
class _SimpleSearch:
    """Replaces our arms in `gate.search` by a remote arm, which is called once for a question."""

    arm: RemoteArm
    params: SearchParams
    item: QueuedQuestion
    seconds: float
    decide: Decide
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
        params, arm, now = self.params, self.arm, monotonic()
        # It replaces our text arms, so it has the depth of hybrid search.
        hybrid = replace(params, route=Route.HYBRID)
        self.call = await gate.ask(arm, hybrid, self.item, self.seconds, self.budget)
        remote_list, passages = ranking_of(arm, self.call)
        decision = None
        if params.route == Route.AUTO:
            decision = await _decision(self.decide, params, self.item.text, self.call)
        entry, arms = Entry(self.item, now + self.seconds, size=1), {arm.name: remote_list.ranking}
        text = self.item.text
        reply = Reply(text, Route.HYBRID, remote_list.ranking, arms, {}, 0, decision=decision)
        return SearchResult(params, entry, reply, passages, "", {arm.name: self.call.seconds})


async def _decision(decide: Decide, params: SearchParams, question: str, call: ArmCall) -> Decision:
    if call.reason:
        return Decision(Route.HYBRID, None, None, None, NOTHING)
    texts = [(hit.title, hit.text) for hit in call.hits[:FIRST_PASSAGES]]
    return await decide(params, ReturnedPassages(question, texts))
