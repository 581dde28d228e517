"""OpenAI's models and chat completions."""

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import JSONResponse

from router.types import Route
from service.answering import EXTRACTIVE, Wanted, Written
from service.auth import needs
from service.core import Service, service_of
from service.generator import Message
from service.keys import Scope
from service.problems import Problem
from service.render_http import headers, retrieve_reply
from service.routes.answer import answer_value
from service.schemas.chat import ChatMessage, ChatRequest
from service.schemas.common import LONGEST_QUESTION
from service.schemas.retrieve import RetrieveReply
from service.searching import Ask
from service.sse import event, reply

router = APIRouter(prefix="/v1", tags=["openai"], dependencies=[Depends(needs(Scope.READ))])

PREFIX = "wye-"
_SYSTEM = ("system", "developer")
_TURNS = ("user", "assistant")

Served = Annotated[Service, Depends(service_of)]


@router.get("/models", summary="List models", operation_id="list_models")
async def models(service: Served) -> dict[str, Any]:
    """A model is a route: `wye-auto`, `wye-dense`, …; with `:NAME` over another collection."""
    return {"object": "list", "data": [_model(service, name) for name in _names(service)]}


@router.get("/models/{model}", summary="Describe a model", operation_id="retrieve_model")
async def model_by_name(model: str, service: Served) -> dict[str, Any]:
    """One of the models."""
    _route_of(service, model)
    return _model(service, model)


@router.post(
    "/chat/completions",
    summary="Chat over passages",
    operation_id="chat",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def chat(asked: ChatRequest, request: Request, service: Served) -> Response:
    """Answers the last user message from passages, in OpenAI's protocol, streaming or not.

    The last user message is what passages are searched for (of one over 4,096 characters its last
    4,096). A language model also sees the system message and the turns before. Without one, the
    answer quotes the passages and begins by saying so.

    Numbers in square brackets are citations; `citations` resolves them, and `wye` holds what
    `/v1/retrieve` would reply. A stream has `wye` in its first chunk and `citations` in its last.

    ```python
    from openai import OpenAI

    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    reply = client.chat.completions.create(
        model="wye-auto",
        messages=[{"role": "user", "content": "Which river does the Old Bridge cross?"}],
        extra_body={"wye": {"k": 3}},
    )
    print(reply.choices[0].message.content)
    ```
    """
    route, collection = _route_of(service, asked.model)
    question, history = _question(asked.messages)
    options = asked.wye
    ask = Ask(collection, route, options.k, options.filter, options.explain, options.max_latency_ms)
    (answered,) = await service.find(request, ask, [question], options.deadline_ms)
    retrieval = retrieve_reply(answered)
    wanted = Wanted(
        question,
        retrieval.passages,
        collection,
        system=[m.text for m in asked.messages if m.role in _SYSTEM and m.text],
        history=history,
        options=asked.sampling(),
    )
    head = _Head(retrieval.request_id, asked.model)
    if asked.stream:
        usage = asked.stream_options is not None and asked.stream_options.include_usage
        chunks = _chunks(service, wanted, retrieval, head, usage=usage)
        return reply(chunks, headers(answered))
    written = Written()
    async for _ in service.writer.write(wanted, written):
        pass
    if written.error:
        raise Problem(502, "generator", f"{written.error} Ask again.")
    return JSONResponse(
        {
            **head.of("chat.completion"),
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": _preface(written) + written.text,
                        "refusal": None,
                    },
                    "logprobs": None,
                    "finish_reason": written.ending.reason,
                }
            ],
            "usage": _usage(written),
            **_extras(written, retrieval),
            "wye": retrieval.model_dump(mode="json"),
        },
        headers=headers(answered),
    )


class _Head:
    """What every piece of one completion has in common."""

    def __init__(self, request_id: str, model: str) -> None:
        self._id = f"chatcmpl-{request_id}"
        self._model = model
        self._created = int(time.time())

    def of(self, kind: str) -> dict[str, Any]:
        """The common part of an object."""
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """A piece of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self.of("chat.completion.chunk"), "choices": [choice]}


async def _chunks(
    service: Service, wanted: Wanted, retrieval: RetrieveReply, head: _Head, *, usage: bool
) -> AsyncIterator[str]:
    first = head.chunk({"role": "assistant", "content": ""})
    yield event({**first, "wye": retrieval.model_dump(mode="json")})
    written = Written()
    started = False
    async for piece in service.writer.write(wanted, written):
        text = piece if started else _preface(written) + piece
        started = True
        yield event(head.chunk({"content": text}))
    if written.error:
        problem = Problem(502, "generator", f"{written.error} Ask again.")
        yield event({"error": problem.body(retrieval.request_id)["error"]})
        return
    yield event({**head.chunk({}, written.ending.reason), **_extras(written, retrieval)})
    if usage:
        counted = {**head.of("chat.completion.chunk"), "choices": [], "usage": _usage(written)}
        yield event(counted)
    yield event("[DONE]")


def _question(messages: list[ChatMessage]) -> tuple[str, list[Message]]:
    """What to search for, and the turns before it.

    Raises:
        Problem: No user says anything.
    """
    places = [n for n, m in enumerate(messages) if m.role == "user" and m.text.strip()]
    if not places:
        raise Problem(
            422,
            "no-question",
            "No message of the role user has any text; the last one that does is the question.",
            errors=[{"at": "body.messages", "says": "A user message with text is needed."}],
        )
    earlier = [m for m in messages[: places[-1]] if m.role in _TURNS and m.text]
    question = messages[places[-1]].text.strip()[-LONGEST_QUESTION:]
    return question, [Message(m.role, m.text) for m in earlier]


def _preface(written: Written) -> str:
    """What a reader has to know first; a chat shows nothing but text."""
    return f"({written.note})\n\n" if written.generator == EXTRACTIVE else ""


def _extras(written: Written, retrieval: RetrieveReply) -> dict[str, Any]:
    value = answer_value(written, retrieval.passages)
    citations = [citation.model_dump() for citation in value.citations]
    return {"citations": citations, "generator": value.generator, "note": value.note}


def _usage(written: Written) -> dict[str, int]:
    found = written.ending.usage
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: found.get(name, 0) for name in names}


def _names(service: Service) -> list[str]:
    first = next(iter(service.collections))
    return [
        f"{PREFIX}{route}" if name == first else f"{PREFIX}{route}:{name}"
        for name, collection in service.collections.items()
        for route in Route
        if route not in collection.unavailable
    ]


def _route_of(service: Service, model: str) -> tuple[Route, str]:
    """Route and collection of a model.

    Raises:
        Problem: There is no such model.
    """
    names = _names(service)
    if model not in names:
        raise Problem(
            404, "model_not_found", f"There is no model '{model:.80}'; there is {', '.join(names)}."
        )
    route, _, collection = model.removeprefix(PREFIX).partition(":")
    return Route(route), service.collection(collection or None).name


def _model(service: Service, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service.started, "owned_by": "wye"}
