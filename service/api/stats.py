"""`/v1/stats`: recent figures, for the console."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

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


class ScoresValue(BaseModel):
    """Routes, scores and thresholds of one collection.

    Attributes:
        router: Name and version of its model; empty without a router.
        routes: The collection's remembered answers, by the route that answered.
        scores: Scores of the remembered answers, oldest first.
        thresholds: The present `low`, `high` and `steps`; they change when the thresholds file
            does. Null without a router.
        simple: The route for scores up to `low`; null without a router.
        latency_ms: Milliseconds that each route takes according to the thresholds file;
            `max_latency_ms` is compared with them.
        error: What is wrong with the newest index or thresholds file, so that the former one stays
            in use; empty if nothing is wrong.
    """

    collection: str
    router: str
    routes: dict[Route, RouteTimesValue]
    scores: list[float]
    thresholds: dict[str, float] | None
    simple: Route | None
    latency_ms: dict[str, float]
    error: str


class RemoteArmValue(BaseModel):
    """A remote arm and what it cost."""

    arm: str
    collection: str
    state: Literal["closed", "open", "half-open"] = Field(
        description="State of its circuit breaker."
    )
    spent: float = Field(description="What this server's calls of it cost since it started.")
    saved: float = Field(
        description="What the calls that the router avoided in that time would have cost."
    )


class StatsReply(BaseModel):
    """Figures of the server that answers this request, and of no other.

    Attributes:
        worker: Process id of this server.
        answered: Questions that this server answered since it started.
        remembered: Number of latest answers, at most a thousand, that routes and scores cover.
        last_minute: Remembered answers of the last minute.
        queue_depth: Questions that are waiting.
        routes: Remembered answers, by the route that answered.
        degraded: Remembered answers that were not what was asked for, by kind: `failed`, `late`, or
            `arm` for any other, such as one of a single arm that had nothing to go by.
        remote_arms: Remote arms in the arms file.
        spent: What this worker's calls of remote arms cost since it started.
        saved: What the calls of remote arms that the router avoided would have cost.
        max_cost_per_day: Most that the asking key may spend on remote arms in a day; null if
            unlimited.
        spent_today: What the asking key has spent with all servers since midnight UTC; null if it
            is unlimited or if the file of budgets cannot be read.
        keys_error: What is wrong with the keys file, so that some keys do not work; or empty.
        questions: The last questions, newest first. Null unless the server keeps a request log and
            the key has the scope `admin` or no keys are needed.
    """

    worker: int
    uptime_seconds: int
    answered: int
    remembered: int
    last_minute: int
    queue_depth: int
    routes: dict[Route, RouteTimesValue]
    degraded: dict[str, int]
    collections: list[ScoresValue]
    remote_arms: list[RemoteArmValue]
    spent: float
    saved: float
    max_cost_per_day: float | None
    spent_today: float | None
    keys_error: str
    questions: list[RecentQuestion] | None


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
    collections, now = service.collections, time.time()
    recent = [answer for answer in service.recent if answer.collection in collections]
    trusted = service.request_log is not None and ASKING.get().may(Scope.ADMIN)
    budget = service.budget
    arms = [(name, arm) for name in collections for arm in service.arms.get(name, ())]
    return StatsReply(
        worker=os.getpid(),
        uptime_seconds=int(now) - service.started,
        answered=sum(service.answered[name] for name in collections),
        remembered=len(recent),
        last_minute=sum(now - answer.time <= _MINUTE for answer in recent),
        queue_depth=service.batcher.depth,
        routes=route_times(recent),
        degraded=Counter(answer.degraded for answer in recent if answer.degraded),
        collections=[_scores(each, recent) for each in collections.values()],
        remote_arms=[
            RemoteArmValue(
                arm=arm.name,
                collection=name,
                state=arm.breaker.state.value,
                spent=arm.spent,
                saved=arm.saved,
            )
            for name, arm in arms
        ],
        spent=sum(arm.spent for _, arm in arms),
        saved=sum(arm.saved for _, arm in arms),
        max_cost_per_day=None if budget is None else budget.limit,
        spent_today=None if budget is None else await budget.spent(),
        keys_error=service.ring.fault,
        questions=list(recent[: -QUESTIONS - 1 : -1]) if trusted else None,
    )


def _scores(collection: Collection, recent: Sequence[RecentQuestion]) -> ScoresValue:
    policy = collection.policy
    answers = [answer for answer in recent if answer.collection == collection.name]
    return ScoresValue(
        collection=collection.name,
        router=collection.router_name,
        routes=route_times(answers),
        scores=[answer.score for answer in answers if answer.score is not None],
        thresholds=None if policy is None else asdict(policy.thresholds),
        simple=None if policy is None else policy.simple,
        latency_ms={} if policy is None else {str(r): ms for r, ms in policy.latency_ms.items()},
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
