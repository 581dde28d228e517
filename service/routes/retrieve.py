"""Passages for a question."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from service.auth import needs
from service.core import Service, service_of
from service.keys import Scope
from service.render_http import headers, retrieve_reply
from service.schemas.retrieve import RetrieveReply, RetrieveRequest
from service.searching import Ask

router = APIRouter(prefix="/v1", tags=["retrieval"], dependencies=[Depends(needs(Scope.READ))])


@router.post(
    "/retrieve",
    summary="Find passages for a question",
    operation_id="retrieve",
    response_description="Passages, and everything it takes to see how they were found.",
)
async def retrieve(
    wanted: RetrieveRequest,
    request: Request,
    response: Response,
    service: Annotated[Service, Depends(service_of)],
) -> RetrieveReply:
    """Scores the question, sends it to the arm that suits it, and returns passages with reasons.

    What other requests ask at the same moment is worked on together with it, without waiting for
    any. When there is more to do than time allows, the reply is 503 with `Retry-After` at once.

    ```
    curl http://127.0.0.1:8000/v1/retrieve -H 'content-type: application/json' -d \
      '{"question": "Into which sea does the river beneath the Old Bridge of Mostar flow?"}'
    ```
    """
    ask = Ask(
        service.collection(wanted.collection).name,
        wanted.route,
        wanted.k,
        wanted.filter,
        wanted.explain,
    )
    (answered,) = await service.find(request, ask, [wanted.question], wanted.deadline_ms)
    response.headers.update(headers(answered))
    return retrieve_reply(answered)
