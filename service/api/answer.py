"""`/v1/answer`: answers with citations."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel, Field

from wye.backends.types import Passage, Query
from wye.router.answers import keep_best, marks
from wye.router.types import ABSTAIN_BELOW, Answered, Route
from wye.service.answers.follow_up import Message
from wye.service.answers.generate import AnswerParams, GeneratedAnswer, Segment
from wye.service.api.replies import RetrieveReply
from wye.service.api.retrieve import Exact, SearchRequest, examples, retrieve_reply
from wye.service.collections import SearchParams, SearchResult
from wye.service.http.edge import READ
from wye.service.http.openapi import Described
from wye.service.service import Served, Service

AbstainBelow = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description=(
            "If `answerability` is lower, the reply says that the collection probably has no "
            "answer, and no language model is called. With 0, or if answerability is unknown, the "
            "question is always answered."
        ),
    ),
    Exact,
]
_QUESTION = "Who designed the bridge that crosses the Neretva in Mostar?"


class Turn(BaseModel):
    """An earlier turn of the conversation."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(max_length=16_384)]


class AnswerRequest(SearchRequest):
    """A question to be answered from passages."""

    stream: bool = Field(default=False, strict=True)
    """Send server-sent events: `retrieval` with the passages, a `delta` for each piece of text,
    `error` if the language model breaks off, and `done` with the whole answer."""
    abstain_below: AbstainBelow = ABSTAIN_BELOW
    history: Annotated[list[Turn], Field(max_length=50)] = Field(default_factory=list)
    """Earlier turns of the conversation, oldest first."""
    max_tokens: Annotated[int | None, Field(ge=1, le=32768), Exact] = None
    """Longest answer of a language model, in tokens."""

    model_config = examples(
        {"question": _QUESTION}, {"question": _QUESTION, "k": 3, "stream": True}
    )


class CitedSentence(Described):
    """A sentence of a passage that the answer quotes."""

    text: str
    """The sentence, or a question with its reply, verbatim."""
    start: int
    """Character offset in the passage's text, from 0."""
    end: int
    """Character offset after its last character."""
    marks: list[tuple[int, int]]
    """Offsets in `text` of the words that the question has, each with its end."""


class Citation(Described):
    """A passage that the answer cites by number."""

    index: int
    """Its number, as in [1]; from 1, in the order of the passages."""
    id: str
    title: str
    document: str
    sentences: list[CitedSentence] = Field(default_factory=list)
    """The sentences that are quoted; empty if a language model answered."""


class AnswerValue(Described):
    """An answer and its sources."""

    answer: str
    """The answer; a number in square brackets cites a passage of `retrieval`. If a quoted source
    itself has a number in such brackets, it appears as [ 5 ]. `segments` hold the same without
    brackets."""
    segments: list[Segment]
    """The answer in parts, in order."""
    citations: list[Citation]
    answered: Answered | None
    """Whether the collection has an answer: `yes`; `unsure`, where the reply also says so; `no`,
    where it says nothing else. Null if that is not known."""
    generator: str
    """Name of the language model, or `extractive` if sentences are quoted."""
    note: str = ""
    """Why no language model answered; empty if one did."""
    finish_reason: str
    """`stop`; `length` if the answer was cut off; `error` if it broke off."""
    usage: dict[str, int] = Field(default_factory=dict)
    """Tokens as counted by the language model's endpoint."""


class AnswerReply(AnswerValue):
    """An answer and the retrieval that it is based on."""

    retrieval: RetrieveReply


router = APIRouter(prefix="/v1", tags=["answers"], dependencies=READ)


@router.post(
    "/answer",
    summary="Answer a question, with citations",
    response_model=AnswerReply,
    response_description="The answer; with `stream`, as server-sent events.",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def answer(body: AnswerRequest, request: Request, service: Served) -> AnswerReply | Response:
    """Finds passages, and has the configured language model answer from them and nothing else.

    If the collection probably has no answer (`abstain_below`), the reply says so instead.

    A question that refers to `history`, such as "And who designed it?", is first rewritten by the
    language model; without one, the names of the last turn are appended. `retrieval.question` is
    what was searched for.

    Without a language model, or if it fails, the answer quotes the sentences that bear most on the
    question, and `note` says why.
    """
    options = {} if body.max_tokens is None else {"max_tokens": body.max_tokens}
    turns = [Message(turn.role, turn.content) for turn in body.history]
    answering, retrieval = await find_passages(
        service,
        request,
        body.params(service.collection(body.collection).name, body.route),
        [*turns, Message("user", body.question)],
        body.deadline_ms,
        options=options,
        abstain_below=body.abstain_below,
    )
    if body.stream:
        return event_stream(_events(service, answering, retrieval))
    generated = await service.generator.complete(answering)
    return AnswerReply(**answer_value(answering, generated).model_dump(), retrieval=retrieval)


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
    yield format_sse_event(data_str=answer_value(params, generated).model_dump_json(), event="done")


async def find_passages(
    service: Service,
    request: Request,
    params: SearchParams,
    turns: Sequence[Message],
    deadline_ms: int | None,
    **how: Any,  # noqa: ANN401 - further fields of `AnswerParams`
) -> tuple[AnswerParams, RetrieveReply]:
    """Search for the last question of a conversation, rewritten if it depends on earlier turns.

    Returns what to answer from, and the reply that `/v1/retrieve` would give.
    """
    *history, last = turns
    question = await service.generator.standalone(last.content, history)
    result = await service.search(request, params, question, deadline_ms)
    passages = [result.passages[hit.id] for hit in result.reply.ranking.hits]
    answering = AnswerParams(
        question,
        passages,
        params.collection,
        history=history,
        answerability=result.reply.answerability,
        texts=await _packed_texts(service, result, passages),
        searched=result.reply.searched,
        **how,
    )
    return answering, retrieve_reply(result)


async def _packed_texts(
    service: Service, result: SearchResult, passages: Sequence[Passage]
) -> list[str] | None:
    """What a language model is shown of the first passages; None for whole texts.

    With WYE_GENERATOR__PACK=zoom, Chunk-Zoom ranks their sentences in the models' thread. Passages
    of remote arms stay whole.
    """
    settings, params = service.settings.generator, result.params
    if settings.pack == "whole" or not settings.url:
        return None
    passages = passages[: settings.passages]
    session = service.collection(params.collection).session

    def scored() -> dict[str, list[tuple[str, float]]]:
        snapshot = session.snapshot
        ids = [*snapshot.passages([passage.id for passage in passages])]
        arm: Any = snapshot.further(Route.ZOOM)  # `backends/papers/zoom.py`
        question = result.reply.searched or result.reply.question
        query = Query(question, session.analyser.encode_questions([question])[0])
        scores = arm.score_sentences(query, ids, snapshot.allowed(params.filter))
        return dict(zip(ids, scores, strict=True))

    scores = await service.batcher.call(scored)
    texts = [passage.text for passage in passages]
    return keep_best(texts, [scores.get(passage.id, []) for passage in passages], settings.keep)


def answer_value(params: AnswerParams, answer: GeneratedAnswer) -> AnswerValue:
    """A finished answer as a reply."""
    citations = [
        Citation(
            index=number,
            id=passage.id,
            title=passage.title,
            document=passage.document,
            sentences=[
                CitedSentence(
                    text=quote.text,
                    start=(start := passage.text.find(quote.text)),
                    end=start + len(quote.text),
                    marks=marks(params.searched or params.question, quote.text),
                )
                for quote in answer.quotes
                if quote.number == number
            ],
        )
        for number, passage in answer.cited(params.passages)
    ]
    return AnswerValue(
        answer=answer.text,
        segments=answer.segments,
        citations=citations,
        answered=answer.answered,
        generator=answer.generator,
        note=answer.note or answer.error,
        finish_reason="error" if answer.error else answer.finish_reason,
        usage=answer.usage,
    )


def event_stream(events: AsyncIterator[bytes]) -> EventSourceResponse:
    """A reply that sends events as they come, and stops them when the client disconnects."""
    # These headers keep proxies from buffering the stream.
    direct = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return EventSourceResponse(events, headers=direct)
