"""`/health`, `/ready`, `/metrics`, `/v1/stats` and `/v1/feedback`: how the server fares."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from wye.router.request_log import FEEDBACK
from wye.router.types import Route
from wye.service.api.retrieve import examples
from wye.service.http.edge import ASKING, READ, Scope, Strict, unbound
from wye.service.http.problems import Problem
from wye.service.service import RecentQuestion, Served, Service

router = APIRouter(tags=["operations"])


# Load balancers also ask with HEAD; the server leaves the body out.
@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Is the process alive?", operation_id="health")
async def health(service: Served) -> dict[str, Any]:
    """Returns 200 whenever the process answers at all, and says what it serves."""
    return {"status": "ok", "ready": service.is_ready, **await _facts(service)}


@router.head("/ready", include_in_schema=False)
@router.get(
    "/ready",
    summary="Can it answer questions?",
    operation_id="ready",
    responses={503: {"description": "Loading, stalled, or an index cannot be read."}},
)
async def ready(service: Served) -> Response:
    """Returns 200 if every collection is loaded and has answered a question over every route.

    Returns 503 otherwise, and while one piece of work has kept the models busy for 10 seconds. It
    is meant for load balancers: a process that stops closes its port and finishes its requests.
    """
    fault, facts = service.fault, await _facts(service)
    is_unreadable = any(collection.read_fault for collection in service.collections.values())
    if service.is_ready and not fault and not is_unreadable:
        return JSONResponse({"status": "ready", **facts})
    state = {"status": "stalled", "error": fault} if service.is_ready else {"status": "loading"}
    if is_unreadable:
        state = {"status": "unavailable"}
    return JSONResponse({**state, **facts}, 503, headers={"retry-after": "1"})


@router.get(
    "/metrics",
    dependencies=[*READ, Depends(unbound)],
    summary="Metrics for Prometheus",
    operation_id="metrics",
)
async def metrics(service: Served) -> Response:
    """Returns counts and times of this server."""
    await service.jobs.count()
    return Response(service.metrics.text(), media_type=service.metrics.content_type)


async def _facts(service: Service) -> dict[str, Any]:
    """Facts for keys that may read: the addresses themselves are open to anybody."""
    key = ASKING.get()
    if not key.may(Scope.READ):
        return {"more": "with an API key"}
    facts: dict[str, Any] = {"collections": [each.facts() for each in service.collections.values()]}
    if key.filter:
        for each in facts["collections"]:
            each.pop("passages", None)
    arms = [arm for name in service.collections for arm in service.arms.get(name, ())]
    if arms:
        facts["arms"] = [arm.facts() for arm in arms]
    if service.ring.fault:
        facts["keys"] = service.ring.fault
    if service.log_fault:
        facts["request_log"] = f"cannot be written ({service.log_fault}); its lines are lost"
    faults = await service.jobs.faults()
    if own_faults := {name: fault for name, fault in faults.items() if name in service.collections}:
        facts["jobs"] = own_faults
    return facts


class RouteTimesValue(BaseModel):
    """Remembered answers of one route."""

    count: int
    share: float = Field(description="Share of the remembered answers, from 0 to 1.")
    p50_ms: float = Field(description="Median time from queueing to the passages.")
    p95_ms: float = Field(description="95th percentile of that time.")


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
    spent: float | None
    saved: float | None
    max_cost_per_day: float | None
    spent_today: float | None
    questions: list[RecentQuestion] | None


QUESTIONS = 30
_MINUTE = 60.0


@router.get(
    "/v1/stats", dependencies=READ, summary="Figures of recent answers", operation_id="stats"
)
async def stats(service: Served) -> StatsReply:
    """Returns routes and times of the last thousand answers, which the server remembers.

    Questions are listed only if the server writes a request log, and only for admins.
    """
    if ASKING.get().filter:
        raise Problem(403, "bound", "These figures are of all passages, but the key has a filter.")
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
        spent=sum(arm.spent for arm in arms) if arms else None,
        saved=sum(arm.saved for arm in arms) if arms else None,
        max_cost_per_day=None if budget is None else budget.limit,
        spent_today=None if budget is None else await budget.spent(),
        questions=list(recent[: -QUESTIONS - 1 : -1]) if trusted else None,
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


class FeedbackRequest(Strict):
    """A rating of a reply; the last one replaces all earlier ones.

    Attributes:
        request_id: Request id of the rated reply.
        rating: The rating; `none` withdraws it.
        passages: Ids of passages that answer the question, returned or not.
    """

    request_id: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    rating: Literal["good", "bad", "none"]
    passages: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(default_factory=list, max_length=100),
    ]
    comment: Annotated[str, Field(max_length=4_096)] = ""

    model_config = examples(
        {"request_id": "0f3a5c", "rating": "bad", "passages": ["neretva"]},
        {"request_id": "0f3a5c", "rating": "good", "comment": "Just what I needed."},
    )


class FeedbackReply(BaseModel):
    """The rating was written to the request log."""

    status: Literal["recorded"] = "recorded"
    request_id: str


@router.post(
    "/v1/feedback",
    dependencies=READ,
    status_code=201,
    summary="Rate a reply",
    operation_id="feedback",
    responses={
        404: {"description": "No such question was answered."},
        409: {"description": "This server keeps no request log."},
        503: {"description": "The request log cannot be written."},
    },
)
async def feedback(body: FeedbackRequest, service: Served) -> FeedbackReply:
    """Writes a rating to the request log, where the request id joins it to the decision.

    A rating counts only if it comes from the key that asked the question.
    """
    if service.request_log is None:
        raise Problem(
            409,
            "no-log",
            "This server keeps no request log, so feedback would be lost. Set "
            "WYE_SERVE__REQUEST_LOG to a file.",
        )
    log = service.request_log
    if not service.log_fault and not await asyncio.to_thread(log.has_question, body.request_id):
        raise Problem(
            404,
            "no-such-request",
            f"The request log has no question with the request id '{body.request_id}'. It is in "
            "each reply, as `request_id` and `x-request-id`; logs that were rotated are not read.",
        )
    values = body.model_dump(exclude={"request_id"})
    if not service.log(FEEDBACK, body.request_id, lambda: values):
        fault = f"The request log cannot be written now ({service.log_fault}). Send it again later."
        raise Problem(503, "not-logged", fault, retry_after=30)
    return FeedbackReply(request_id=body.request_id)
