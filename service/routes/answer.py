"""Answers with citations."""

import json
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event

from wye.service.answers.answer import GeneratedAnswer, Message
from wye.service.answers.generate import AnswerParams
from wye.service.http.auth import READ
from wye.service.http.replies import answer_value, event_stream, headers, retrieve_reply
from wye.service.routes.retrieve import params_of
from wye.service.schemas.answer import AnswerReply, AnswerRequest
from wye.service.schemas.retrieve import RetrieveReply
from wye.service.service import Served, Service

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=READ)


@router.post(
    "/answer",
    summary="Answer a question, with citations",
    operation_id="answer",
    response_model=AnswerReply,
    response_description="The answer; with `stream`, as server-sent events.",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def answer(
    asked: AnswerRequest, request: Request, response: Response, service: Served
) -> AnswerReply | Response:
    """Finds passages, and has the configured language model answer from them and nothing else.

    If the collection probably has no answer (`abstain_below`), the reply says so instead.

    A question that refers to `history`, such as "And who designed it?", is first rewritten by the
    language model; without one, the names of the last turn are appended. `retrieval.question` is
    what was searched for.

    Without a language model, or if it fails, the answer quotes the sentences that bear most on the
    question, and `note` says why.
    """
    params = params_of(service.collection(asked.collection).name, asked.route, asked)
    history = [Message(turn.role, turn.content) for turn in asked.history]
    question = await service.generator.standalone(asked.question, history)
    (result,) = await service.search(request, params, [question], asked.deadline_ms)
    retrieval = retrieve_reply(result)
    options = {} if asked.max_tokens is None else {"max_tokens": asked.max_tokens}
    answering = AnswerParams(
        question,
        retrieval.passages,
        params.collection,
        history=history,
        options=options,
        answerability=retrieval.answerability,
        abstain_below=asked.abstain_below,
    )
    if asked.stream:
        return event_stream(_events(service, answering, retrieval), headers(retrieval))
    response.headers.update(headers(retrieval))
    generated = await service.generator.complete(answering)
    value = answer_value(generated, retrieval.passages)
    return AnswerReply(**value.model_dump(), retrieval=retrieval)


async def _events(
    service: Service, params: AnswerParams, retrieval: RetrieveReply
) -> AsyncIterator[bytes]:
    yield format_sse_event(data_str=retrieval.model_dump_json(), event="retrieval")
    generated = GeneratedAnswer()
    async for piece in service.generator.stream(params, generated):
        yield format_sse_event(data_str=json.dumps({"text": piece}), event="delta")
    if generated.error:
        error = {"detail": generated.error, "request_id": retrieval.request_id}
        yield format_sse_event(data_str=json.dumps(error), event="error")
    value = answer_value(generated, retrieval.passages)
    yield format_sse_event(data_str=value.model_dump_json(), event="done")
