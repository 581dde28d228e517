"""What happened lately, for the console."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from router.types import Route
from service.collections import Collection
from service.http.auth import needs
from service.http.keys import Scope
from service.http.problems import key_of
from service.recent import Sample, degradations_of, routes_of, scores_of
from service.schemas.stats import RecentQuestion, RouteTimesValue, ScoresValue, StatsReply
from service.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["operations"], dependencies=[Depends(needs(Scope.READ))])

QUESTIONS = 30
_MINUTE = 60.0


@router.get("/stats", summary="What happened lately", operation_id="stats")
async def stats(request: Request, service: Annotated[Service, Depends(service_of)]) -> StatsReply:
    """Route shares, times and scores of the last thousand answers, which this process remembers.

    Each collection has its own router and thresholds; `collections` says which, and what its
    questions scored.

    With several workers these are the figures of whichever answers; `/metrics` adds all up.
    Questions are told only where they are written to a request log anyway, and to admins.
    """
    samples, now = service.recent.samples, time.time()
    key = key_of(request.scope)
    trusted = service.journal is not None and key is not None and key.may(Scope.ADMIN)
    return StatsReply(
        worker=os.getpid(),
        workers=service.settings.serve.workers,
        uptime_seconds=int(now) - service.started,
        answered=service.recent.total,
        remembered=len(samples),
        last_minute=sum(now - sample.time <= _MINUTE for sample in samples),
        queue_depth=service.batcher.depth,
        routes=_routes(samples),
        degraded=degradations_of(samples),
        collections=[_scores(each, samples) for each in service.collections.values()],
        questions=_questions(samples) if trusted else None,
    )


def _scores(collection: Collection, samples: Sequence[Sample]) -> ScoresValue:
    policy = collection.policy
    own = [sample for sample in samples if sample.collection == collection.name]
    return ScoresValue(
        collection=collection.name,
        router=collection.router,
        routes=_routes(own),
        scores=scores_of(samples, collection.name),
        thresholds=None if policy is None else asdict(policy.thresholds),
        simple=None if policy is None else policy.simple,
        latency_ms={} if policy is None else {str(r): ms for r, ms in policy.latency_ms.items()},
        error=collection.error,
    )


def _routes(samples: Sequence[Sample]) -> dict[Route, RouteTimesValue]:
    return {route: RouteTimesValue(**asdict(times)) for route, times in routes_of(samples).items()}


def _questions(samples: tuple[Sample, ...]) -> list[RecentQuestion]:
    asked = [sample for sample in samples if sample.question is not None]
    return [RecentQuestion(**asdict(sample)) for sample in asked[: -QUESTIONS - 1 : -1]]
