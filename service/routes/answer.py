"""Answers with citations."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from service.answers.answering import AnswerParams, GeneratedAnswer
from service.http.auth import needs
from service.http.keys import Scope
from service.http.replies import answer_value, headers, retrieve_reply
from service.http.sse import event, reply
from service.routes.retrieve import search_params
from service.schemas.answer import AnswerReply, AnswerRequest
from service.schemas.retrieve import RetrieveReply
from service.service import Service, service_of

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[Depends(needs(Scope.READ))])


@router.post(
    "/answer",
    summary="Answer a question, with citations",
    operation_id="answer",
    response_model=AnswerReply,
    response_description="An answer; as server-sent events with `stream`.",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def answer(
    asked: AnswerRequest,
    request: Request,
    response: Response,
    service: Annotated[Service, Depends(service_of)],
) -> AnswerReply | Response:
    """Finds passages, then has the configured language model answer from them and nothing else.

    Without a language model the answer is made of the sentences that bear most on the question, and
    `note` says so. When one is configured but fails, the same happens, and `note` says why.
    """
    params = search_params(service, asked)
    (result,) = await service.search(request, params, [asked.question], asked.deadline_ms)
    retrieval = retrieve_reply(result)
    options = {} if asked.max_tokens is None else {"max_tokens": asked.max_tokens}
    wanted = AnswerParams(asked.question, retrieval.passages, params.collection, options=options)
    if asked.stream:
        return reply(_events(service, wanted, retrieval), headers(result))
    response.headers.update(headers(result))
    written = GeneratedAnswer()
    async for _ in service.writer.write(wanted, written):
        pass
    value = answer_value(written, retrieval.passages)
    return AnswerReply(**value.model_dump(), retrieval=retrieval)


async def _events(
    service: Service, wanted: AnswerParams, retrieval: RetrieveReply
) -> AsyncIterator[str]:
    yield event(retrieval, "retrieval")
    written = GeneratedAnswer()
    async for piece in service.writer.write(wanted, written):
        yield event({"text": piece}, "delta")
    if written.error:
        yield event({"detail": written.error, "request_id": retrieval.request_id}, "error")
    yield event(answer_value(written, retrieval.passages), "done")
