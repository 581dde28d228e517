"""Answers where there is no index: by a simple arm, and by others where its answer will not do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic, perf_counter

from backends.types import Passage, Ranking
from router.errors import QuestionError
from router.gateway import NO_RELEVANCE
from router.passage_evidence import WITHOUT, Returned
from router.text_evidence import SEEN
from router.types import Decision, Reply, Route
from service.arms import gate
from service.arms.arm import ArmCall, RemoteArm, usable
from service.arms.fusion import named
from service.arms.gate import RemoteOutcome
from service.batching import Entry
from service.search import QueuedQuestion, RouteParams, SearchParams, SearchResult

Decide = Callable[[SearchParams | RouteParams, Returned], Awaitable[Decision]]
"""Which route a question takes, by what the simple arm returned."""
NOTHING = "degraded: the simple arm gave nothing to decide by"


async def search(
    simple: RemoteArm,
    others: Sequence[RemoteArm],
    params: SearchParams,
    item: QueuedQuestion,
    seconds: float,
    *,
    decide: Decide,
) -> SearchResult:
    """Answer a question by remote arms alone.

    Args:
        simple: Stands for our text arms.
        others: Those that suit the route, as `gate.wanted` gives them.
        seconds: That the answer may take.

    Raises:
        QuestionError: Relevance is asked for, of which nothing is known.
        FilterError: The simple arm cannot hold to the filter.
    """
    if params.min_relevance > 0:
        raise QuestionError(NO_RELEVANCE)
    if params.filter is not None:
        simple.check_filter(params.filter)
    started = perf_counter()
    own = _SimpleSearch(simple, params, item, seconds, decide)
    left = params.max_cost
    if left is not None and params.route != Route.GRAPH:
        left = max(0.0, left - simple.config.price)
    result = await gate.search(
        others,
        replace(params, max_cost=left),
        item,
        seconds,
        own.find,
        version=0,
        by_scores=simple.config.scores == "cosine",
    )
    remote = result.remote or RemoteOutcome()
    if own.call is not None:
        calls = {simple.name: own.call, **remote.calls}
        remote = replace(remote, calls=calls, without=WITHOUT if result.reply.decision else ())
    remote = replace(remote, degraded=gate.degraded(remote))
    reply = result.reply
    hits = reply.ranking.hits[: params.k]
    reply = replace(reply, ranking=replace(reply.ranking, hits=hits))
    total = perf_counter() - started
    return replace(result, params=params, reply=reply, remote=remote, total=total)


async def route(
    simple: RemoteArm, params: RouteParams, question: str, seconds: float, decide: Decide
) -> Decision:
    """Which route a question would take; the simple arm is asked.

    Raises:
        FilterError: The simple arm cannot hold to the filter.
    """
    if params.filter is not None:
        simple.check_filter(params.filter)
    call = await simple.search(
        question, simple.config.depth, params.filter, usable(seconds), max_cost=None
    )
    return await decide(params, _returned(question, call)) if not call.reason else _undecided()


@dataclass(slots=True)
class _SimpleSearch:
    """What `gate.search` has for our own arms: a remote one, asked once for a question."""

    arm: RemoteArm
    params: SearchParams
    item: QueuedQuestion
    seconds: float
    decide: Decide
    call: ArmCall | None = None
    _asking: "asyncio.Task[SearchResult] | None" = None

    async def find(self, params: SearchParams, seconds: float) -> SearchResult:
        """The arm's list, and a decision by it where the router is asked."""
        del seconds  # the first call has all that there is
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._find())
        return replace(await self._asking, params=params)

    async def _find(self) -> SearchResult:
        own, arm = self.params, self.arm
        now = monotonic()
        reason = arm.over_budget(own.max_cost, own.max_latency_ms) or arm.closed()
        if reason:
            self.call = arm.skipped(reason, "budget" if "budget" in reason else "open")
        else:
            depth = max(own.k, arm.config.depth)
            self.call = await arm.search(
                self.item.text, depth, own.filter, usable(self.seconds), own.max_cost
            )
        found, passages = named(arm, self.call)
        decision = None
        if own.route == Route.AUTO:
            decision = await self._decided(self.call)
        ranking: Ranking = found.ranking
        entry = Entry(self.item, now + self.seconds, now, now, 1)
        reply = Reply(
            self.item.text,
            Route.HYBRID,
            ranking,
            {arm.name: ranking},
            {},
            version=0,
            decision=decision,
        )
        shown: dict[str, Passage] = passages
        return SearchResult(own, entry, reply, shown, "", {arm.name: self.call.seconds})

    async def _decided(self, call: ArmCall) -> Decision:
        if call.reason:
            return _undecided()
        return await self.decide(self.params, _returned(self.item.text, call))


def _returned(question: str, call: ArmCall) -> Returned:
    return Returned(question, [(hit.title, hit.text) for hit in call.hits[:SEEN]])


def _undecided() -> Decision:
    return Decision(Route.HYBRID, None, None, None, NOTHING)
