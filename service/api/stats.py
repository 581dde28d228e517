"""`/v1/stats`: recent figures, for the console."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

from wye.router.types import Route
from wye.service.http.edge import ASKING, READ, Scope
from wye.service.search import Collection
from wye.service.service import RecentQuestion, Served


class RouteTimesValue(BaseModel):
    """Remembered answers of one route."""

    count: int
    share: float = Field(description="Share of the remembered answers, from 0 to 1.")
    p50_ms: float = Field(description="Median time from queueing to the passages.")
    p95_ms: float = Field(description="95th percentile of that time.")


class RouterValue(BaseModel):
    """The router of one collection.

    Attributes:
        router: Name and version of its model; empty without a router.
        thresholds: The present `low`, `high` and `steps`; they change when the thresholds file
            does. Null without a router.
        error: What is wrong with the newest index or thresholds file, so that the former one stays
            in use; empty if nothing is wrong.
    """

    collection: str
    router: str
    thresholds: dict[str, float] | None
    error: str


class StatsReply(BaseModel):
    """Figures of the server that answers this request, and of no other.

    Attributes:
        worker: Process id of this server.
        answered: Questions that this server answered since it started.
        remembered: Number of latest answers, at most a thousand, that routes cover.
        last_minute: Remembered answers of the last minute.
        queue_depth: Questions that are waiting.
        routes: Remembered answers, by the route that answered.
        degraded: Remembered answers that were not what was asked for, by kind: `failed`, `late`, or
            `arm` for any other, such as one of a single arm that had nothing to go by.
        spent: What this server's calls of remote arms cost since it started; null without any.
        saved: What the calls that the router avoided in that time would have cost.
        max_cost_per_day: Most that the asking key may spend on remote arms in a day; null if
            unlimited.
        spent_today: What the asking key has spent with all servers since midnight UTC; null if it
            is unlimited or if the file of budgets cannot be read.
        questions: The last questions, newest first. Null unless the server keeps a request log and
            the key has the scope `admin` or no keys are needed.
    """

    worker: int
    answered: int
    remembered: int
    last_minute: int
    queue_depth: int
    routes: dict[Route, RouteTimesValue]
    degraded: dict[str, int]
    collections: list[RouterValue]
    spent: float | None
    saved: float | None
    max_cost_per_day: float | None
    spent_today: float | None
    questions: list[RecentQuestion] | None


router = APIRouter(prefix="/v1", tags=["operations"], dependencies=READ)

QUESTIONS = 30
_MINUTE = 60.0


@router.get("/stats", summary="Figures of recent answers", operation_id="stats")
async def stats(service: Served) -> StatsReply:
    """Returns routes and times of the last thousand answers, which the server remembers.

    Questions are listed only if the server writes a request log, and only for admins.
    """
    collections, now = service.collections, time.time()
    recent = [answer for answer in service.recent if answer.collection in collections]
    trusted = service.request_log is not None and ASKING.get().may(Scope.ADMIN)
    budget = service.budget
    arms = [arm for name in collections for arm in service.arms.get(name, ())]
    return StatsReply(
        worker=os.getpid(),
        answered=sum(service.answered[name] for name in collections),
        remembered=len(recent),
        last_minute=sum(now - answer.time <= _MINUTE for answer in recent),
        queue_depth=service.batcher.depth,
        routes=route_times(recent),
        degraded=Counter(answer.degraded for answer in recent if answer.degraded),
        collections=list(map(_router, collections.values())),
        spent=sum(arm.spent for arm in arms) if arms else None,
        saved=sum(arm.saved for arm in arms) if arms else None,
        max_cost_per_day=None if budget is None else budget.limit,
        spent_today=None if budget is None else await budget.spent(),
        questions=list(recent[: -QUESTIONS - 1 : -1]) if trusted else None,
    )


def _router(collection: Collection) -> RouterValue:
    policy = collection.policy
    return RouterValue(
        collection=collection.name,
        router=collection.router_name,
        thresholds=None if policy is None else asdict(policy.thresholds),
        error=collection.error,
    )


def route_times(recent: Sequence[RecentQuestion]) -> dict[Route, RouteTimesValue]:
    """Shares and times by the route that answered, in the order of `Route`."""
    times: dict[Route, list[float]] = {}
    for answer in recent:
        times.setdefault(answer.route, []).append(answer.ms)
    return {
        route: RouteTimesValue(
            count=len(milliseconds),
            share=len(milliseconds) / len(recent),
            p50_ms=np.quantile(milliseconds, 0.5, method="inverted_cdf"),
            p95_ms=np.quantile(milliseconds, 0.95, method="inverted_cdf"),
        )
        for route in Route
        if (milliseconds := times.get(route))
    }
