"""Asks arms in the background, for a share of the questions that were answered without them.

Otherwise the log could not show whether the router was right to avoid an arm. In shadow mode the
arm is asked after the reply, and the request log has both rankings.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from router.remote_fusion import together
from service.arms import gate
from service.arms.arm import ArmCall, RemoteArm
from service.arms.budget import Budget
from service.arms.file import shadow_share
from service.errors import ServiceError
from service.logs import LOG
from service.search import QueuedQuestion, SearchResult
from service.settings import ServiceSettings

QUEUE = 64
"""Most questions that wait; further ones are dropped and counted."""
_AFTER = 0.05
_SECONDS = 60.0

Told = Callable[[QueuedQuestion, str, Mapping[str, Any]], object]
"""Writes a line for a question of a key to the request log."""


def share_of(settings: ServiceSettings) -> float:
    """The share of questions to ask in the background; 0 for none.

    Raises:
        ServiceError: There is a share, but no request log for the results.
    """
    share = shadow_share(settings.arms)
    if share and settings.serve.request_log is None:
        raise ServiceError(
            f"{settings.arms}: shadow: there is no request log for the results; name one in "
            "WYE_SERVE__REQUEST_LOG."
        )
    return share


class Shadow:
    """A queue of questions that are asked one after another; used by one event loop."""

    def __init__(
        self,
        share: float,
        told: Told,
        count: Callable[[str, str], None],
        spent: Callable[[str, ArmCall], None],
    ) -> None:
        """Keep the parts; `start` begins to ask.

        Args:
            share: Share of the questions answered without the arm, 0 to 1.
            told: Writes both rankings to the request log.
            count: Called with an arm's name and an outcome: asked, failed, busy or dropped.
            spent: Called with a collection and a call, to count its cost.
        """
        self.share = share
        self._told = told
        self._count = count
        self._spent = spent
        # An arm, an answer without it, and the name and the budget of the key that asked.
        self._queue: asyncio.Queue[tuple[RemoteArm, SearchResult, str, Budget | None]]
        self._queue = asyncio.Queue(QUEUE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask, if the share is not 0."""
        if self.share:
            self._task = asyncio.create_task(self._work(), name="wye-shadow")

    async def stop(self) -> None:
        """Stop asking; waiting questions are dropped, and the present call is cancelled."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        while not self._queue.empty():
            self._count(self._queue.get_nowait()[0].name, "dropped")

    def offer(
        self, arms: Sequence[RemoteArm], result: SearchResult, key: str, budget: Budget | None
    ) -> None:
        """Offer an answer; by chance, the arm that the router avoided is asked for it later."""
        remote = result.remote
        if not self.share or remote is None or not remote.saved_by:
            return
        dear = next((arm for arm in arms if arm.takes_graph and arm.name in remote.saved_by), None)
        if dear is None or random.random() >= self.share:
            return
        try:
            self._queue.put_nowait((dear, result, key, budget))
        except asyncio.QueueFull:
            self._count(dear.name, "dropped")

    async def _work(self) -> None:
        while True:
            arm, result, key, budget = await self._queue.get()
            await asyncio.sleep(_AFTER)  # let the reply go out first
            try:
                await self._ask(arm, result, key, budget)
            except Exception as error:  # noqa: BLE001 - the next question may succeed
                LOG.error("shadow failed", exc_info=error, extra={"arm": arm.name})
                self._count(arm.name, "failed")

    async def _ask(
        self, arm: RemoteArm, result: SearchResult, key: str, budget: Budget | None
    ) -> None:
        if not arm.has_room:
            self._count(arm.name, "busy")
            return
        # The request's limits applied only to its own answer.
        params = replace(result.params, max_cost=None, max_latency_ms=None)
        item = result.entry.item
        call = await gate.ask(arm, params, item, _SECONDS, budget)
        self._spent(params.collection, call)
        self._count(arm.name, "failed" if call.reason else "asked")
        if call.reason:
            return
        found, _ = gate.named(arm, call)
        # The answer as it would have been with this list.
        fused = together(result.reply.ranking, [found], result.params.k, by_scores=False)
        self._told(
            item,
            key,
            {
                "question": item.text,
                "collection": params.collection,
                "filter": params.filter,
                "simple": [hit.id for hit in result.reply.ranking.hits],
                **logged(arm, call),
                "fused": [hit.id for hit in fused.hits],
            },
        )


def logged(arm: RemoteArm, call: ArmCall) -> dict[str, object]:
    """An arm's ranking, time and cost, in the form that `wye train --from-log` reads."""
    return {
        "arm": arm.name,
        "found": [[hit.id, hit.score] for hit in call.hits],
        "ms": 1000 * call.seconds,
        "spent": call.spent,
    }
