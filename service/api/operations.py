"""`/health`, `/ready`, `/metrics` and `/v1/feedback`: how the server fares."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from wye.router.request_log import FEEDBACK
from wye.service.api.retrieve import examples
from wye.service.http.edge import ASKING, READ, Scope, Strict, unbound
from wye.service.http.problems import Problem
from wye.service.service import Served, Service

router = APIRouter(tags=["operations"])


# Load balancers also ask with HEAD; the server leaves the body out.
@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Is the process alive?")
async def health(service: Served) -> dict[str, Any]:
    """Returns 200 whenever the process answers at all, and says what it serves."""
    return {"status": "ok", "ready": service.is_ready, **await _facts(service)}


@router.head("/ready", include_in_schema=False)
@router.get(
    "/ready",
    summary="Can it answer questions?",
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


@router.get("/metrics", dependencies=[*READ, Depends(unbound)], summary="Metrics for Prometheus")
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
    if job_faults := {name: fault for name, fault in faults.items() if name in service.collections}:
        facts["jobs"] = job_faults
    return facts


class FeedbackRequest(Strict):
    """A rating of a reply; the last one replaces all earlier ones."""

    request_id: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    """Request id of the rated reply."""
    rating: Literal["good", "bad", "none"]
    """The rating; `none` withdraws it."""
    passages: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(default_factory=list, max_length=100),
    ]
    """Ids of passages that answer the question, returned or not."""
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
        lost = "This server keeps no request log, so feedback would be lost."
        raise Problem(409, "no-log", f"{lost} Set WYE_SERVE__REQUEST_LOG to a file.")
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
