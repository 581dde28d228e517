"""Ratings of replies."""

from fastapi import APIRouter

from wye.router.request_log import FEEDBACK
from wye.service.http.auth import READ
from wye.service.http.problems import Problem
from wye.service.schemas.feedback import FeedbackReply, FeedbackRequest
from wye.service.service import Served

router = APIRouter(prefix="/v1", tags=["operations"], dependencies=READ)


@router.post(
    "/feedback",
    status_code=201,
    summary="Rate a reply",
    operation_id="feedback",
    responses={
        409: {"description": "This server keeps no request log."},
        503: {"description": "The request log cannot be written."},
    },
)
async def feedback(said: FeedbackRequest, service: Served) -> FeedbackReply:
    """Writes a rating to the request log, where the request id joins it to the decision.

    Nothing checks that the id exists: the reply may be of another worker, or of yesterday. A
    rating counts only if it comes from the key that asked the question.
    """
    if service.request_log is None:
        raise Problem(
            409,
            "no-log",
            "This server keeps no request log, so feedback would be lost. Set "
            "WYE_SERVE__REQUEST_LOG to a file.",
        )
    values = said.model_dump(exclude={"request_id"})
    if not service.log(FEEDBACK, said.request_id, lambda: values):
        raise Problem(
            503,
            "not-logged",
            f"The request log cannot be written now ({service.log_fault}). Send it again later.",
            retry_after=30,
        )
    service.metrics.feedback.labels(said.rating).inc()
    return FeedbackReply(request_id=said.request_id)
