"""Recent figures, for the console."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from fastapi import APIRouter

from wye.backends.errors import BackendError
from wye.backends.store.derived import FOLDER
from wye.router.types import Route
from wye.service.collections import Collection
from wye.service.http.auth import READ
from wye.service.http.keys import ASKING, Scope
from wye.service.memory import mapped_bytes, own_bytes
from wye.service.schemas.stats import (
    FilesValue,
    RecentQuestion,
    RemoteArmValue,
    RouteTimesValue,
    ScoresValue,
    StatsReply,
)
from wye.service.service import Served

router = APIRouter(prefix="/v1", tags=["operations"], dependencies=READ)

QUESTIONS = 30
_MINUTE = 60.0


@router.get("/stats", summary="Figures of recent answers", operation_id="stats")
async def stats(service: Served) -> StatsReply:
    """Returns routes, times and scores of the last thousand answers, which the server remembers.

    Each collection has its own router and thresholds; `collections` lists them with the scores of
    its questions.

    Questions are listed only if the server writes a request log, and only for admins.
    """
    seen, now = service.collections, time.time()
    recent = [one for one in service.recent if one.collection in seen]
    trusted = service.request_log is not None and ASKING.get().may(Scope.ADMIN)
    budget = service.budget
    arms = [(name, arm) for name in seen for arm in service.arms.get(name, ())]
    return StatsReply(
        worker=os.getpid(),
        own_bytes=own_bytes(),
        uptime_seconds=int(now) - service.started,
        answered=sum(service.answered[name] for name in seen),
        remembered=len(recent),
        last_minute=sum(now - one.time <= _MINUTE for one in recent),
        queue_depth=service.batcher.depth,
        routes=route_times(recent),
        degraded=Counter(one.degraded for one in recent if one.degraded),
        collections=[
            _scores(each, recent, await asyncio.to_thread(_files, each)) for each in seen.values()
        ],
        remote_arms=[
            RemoteArmValue(
                arm=arm.name,
                collection=name,
                state=arm.breaker.state.value,
                usual_ms=arm.usual_ms,
                spent=arm.spent,
                saved=arm.saved,
            )
            for name, arm in arms
        ],
        spent=sum(arm.spent for _, arm in arms),
        saved=sum(arm.saved for _, arm in arms),
        max_cost_per_day=None if budget is None else budget.most,
        spent_today=None if budget is None else await budget.spent(),
        keys_error=service.ring.fault,
        questions=list(recent[: -QUESTIONS - 1 : -1]) if trusted else None,
    )


def _files(collection: Collection) -> FilesValue | None:
    # They would tell a key with a filter how many passages it cannot see.
    if ASKING.get().filter or not (collection.is_ready and collection.has_index):
        return None
    try:
        found = collection.session.files()
    except BackendError:  # /ready says what is wrong
        return None
    if found is None:
        return None
    mapped = mapped_bytes(collection.session.folder / FOLDER)
    return FilesValue.model_validate({**found, "mapped_bytes": mapped})


def _scores(
    collection: Collection, recent: Sequence[RecentQuestion], files: FilesValue | None
) -> ScoresValue:
    policy = collection.policy
    own = [one for one in recent if one.collection == collection.name]
    return ScoresValue(
        collection=collection.name,
        router=collection.router_name,
        routes=route_times(own),
        scores=[one.score for one in own if one.score is not None],
        thresholds=None if policy is None else asdict(policy.thresholds),
        simple=None if policy is None else policy.simple,
        latency_ms={} if policy is None else {str(r): ms for r, ms in policy.latency_ms.items()},
        files=files,
        error=collection.error,
    )


def route_times(recent: Sequence[RecentQuestion]) -> dict[Route, RouteTimesValue]:
    """Shares and times by the route that answered, in the order of `Route`."""
    times: dict[Route, list[float]] = {}
    for one in recent:
        times.setdefault(one.route, []).append(one.ms)
    return {
        route: RouteTimesValue(
            count=len(own),
            share=len(own) / len(recent),
            p50_ms=np.quantile(own, 0.5, method="inverted_cdf"),
            p95_ms=np.quantile(own, 0.95, method="inverted_cdf"),
        )
        for route in Route
        if (own := times.get(route))
    }
