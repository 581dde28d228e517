"""`/v1/feedback`: ratings of replies."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from wye.router.request_log import FEEDBACK
from wye.service.api.retrieve import (
    Strict,
    examples,
)
from wye.service.http.edge import READ
from wye.service.http.problems import Problem
from wye.service.service import Served


class FeedbackRequest(Strict):
    """A rating of a reply; the last one replaces all earlier ones.

    Attributes:
        request_id: Request id of the rated reply.
        rating: The rating; `none` withdraws it.
        passages: Ids of passages that answer the question, returned or not; `wye tune --from-log`
            learns from them.
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


router = APIRouter(prefix="/v1", tags=["operations"], dependencies=READ)


@router.post(
    "/feedback",
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
        raise Problem(
            503,
            "not-logged",
            f"The request log cannot be written now ({service.log_fault}). Send it again later.",
            retry_after=30,
        )
    return FeedbackReply(request_id=body.request_id)
