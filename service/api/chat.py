"""OpenAI's models and chat completions, as far as they are supported."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool
from starlette.responses import JSONResponse

from wye.backends.text import is_blank
from wye.router.types import ABSTAIN_BELOW, Route
from wye.service.answers.follow_up import Message
from wye.service.answers.generate import AnswerGenerator, AnswerParams, GeneratedAnswer
from wye.service.api.answer import AbstainBelow, answer_value, event_stream, find_passages
from wye.service.api.replies import RetrieveReply
from wye.service.api.retrieve import Exact, SearchFields
from wye.service.http.edge import READ
from wye.service.http.openapi import Described
from wye.service.http.problems import Problem
from wye.service.service import Served, Service
from wye.service.settings import LONGEST_QUESTION

MOST_MESSAGES = 512
LONGEST_MESSAGE = 400_000
MOST_TOKENS = 1_048_576  # clients send the longest reply that their model could write
_CONVERSATION: dict[str, JsonValue] = {
    "model": "wye-auto",
    "messages": [
        {"role": "system", "content": "You are a patient guide to bridges."},
        {"role": "user", "content": "Which bridge is in Mostar?"},
        {"role": "assistant", "content": "Stari Most, the Old Bridge [1]."},
        {"role": "user", "content": "Which river does the Old Bridge of Mostar cross?"},
    ],
}


class ContentPart(BaseModel):
    """A part of a message; only text is read."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(max_length=64)]
    text: Annotated[str | None, Field(max_length=LONGEST_MESSAGE)] = None


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: (
        Annotated[str, Field(max_length=LONGEST_MESSAGE)]
        | Annotated[list[ContentPart], Field(max_length=64)]
        | None
    ) = None

    @property
    def text(self) -> str:
        """The text of the message, its parts joined by line breaks."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(BaseModel):
    """What a stream contains besides the answer."""

    include_usage: StrictBool = False


class WyeOptions(SearchFields):
    """Options beyond OpenAI's protocol; its Python client sends `extra_body={"wye": {...}}`."""

    abstain_below: AbstainBelow = ABSTAIN_BELOW


class ChatRequest(Described):
    """A conversation. Fields of OpenAI's protocol that are not listed are ignored."""

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        json_schema_extra={"examples": [_CONVERSATION, {**_CONVERSATION, "stream": True}]},
    )

    model: str = Field(max_length=200)
    """`wye-ROUTE`, or `wye-ROUTE:COLLECTION` where there are several collections."""
    messages: Annotated[
        list[ChatMessage], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)
    ]
    stream: StrictBool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[
        int | None, Field(ge=1, le=1, description="Only one answer is available."), Exact
    ] = None
    temperature: Annotated[float | None, Field(ge=0, le=2), Exact] = None
    top_p: Annotated[float | None, Field(ge=0, le=1), Exact] = None
    max_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS), Exact] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS), Exact] = None
    stop: (
        Annotated[str, Field(max_length=200)] | Annotated[list[str], Field(max_length=4)] | None
    ) = None
    response_format: JsonValue = None
    """Only text; any other format is refused."""
    tools: JsonValue = None
    """No tool is called, which `note` says."""
    tool_choice: JsonValue = None
    """A choice that forces a call of a tool is refused."""
    seed: Annotated[int | None, Field(ge=-(2**63), le=2**63 - 1), Exact] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2), Exact] = None
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2), Exact] = None
    wye: WyeOptions = Field(default_factory=WyeOptions)

    @property
    def unused(self) -> str:
        """What has no effect, as a note, or ""; a `Problem` 422 if the request cannot be met."""
        format_ = self.response_format
        if format_ is not None and not (
            isinstance(format_, dict) and format_.get("type") == "text"
        ):
            text = "Answers are text. Leave response_format out, or set its type to 'text'."
            raise Problem(422, "unsupported", text)
        if self.tool_choice not in (None, "auto", "none"):
            none = "No tool can be called. Leave tool_choice out, or use 'auto'."
            raise Problem(422, "unsupported", none)
        return "degraded: tools are not called" if self.tools else ""

    def sampling(self) -> dict[str, Any]:
        """The options that are passed to a language model."""
        names = (
            "temperature top_p max_tokens max_completion_tokens stop seed frequency_penalty "
            "presence_penalty"
        )
        return self.model_dump(include={*names.split()}, exclude_none=True)


router = APIRouter(prefix="/v1", tags=["openai"], dependencies=READ)

PREFIX = "wye-"
_SYSTEM = ("system", "developer")
_TURNS = ("user", "assistant")


@router.get("/models", summary="List models")
async def list_models(service: Served) -> dict[str, Any]:
    """Lists a model for each route: `wye-auto`, `wye-dense`, …; `:NAME` names a collection."""
    return {"object": "list", "data": [_model(service, name) for name in _names(service)]}


@router.get("/models/{model}", summary="Describe a model")
async def retrieve_model(model: str, service: Served) -> dict[str, Any]:
    """Describes one of the models."""
    _route_of(service, model)
    return _model(service, model)


@router.post(
    "/chat/completions",
    summary="Chat over passages",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def chat(body: ChatRequest, request: Request, service: Served) -> Response:
    """Answers the last user message from passages, in OpenAI's protocol, streaming or not.

    The last user message is the query, or its last 4,096 characters if it is longer. If it refers
    to earlier turns, as "And who designed it?" does, it is first rewritten by the language model;
    without one, the names of the last turn are appended. `wye.question` is what was searched for.
    A language model also gets the system message and the earlier turns. Without one, the answer
    quotes the passages, and `note` says so.

    `segments` are the parts of the answer with the numbers of their passages, which `citations`
    resolves; `wye` holds what `/v1/retrieve` would reply. A stream has `wye` in its first chunk,
    and `segments` and `citations` in its last.

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
    route, collection = _route_of(service, body.model)
    note = body.unused
    answering, retrieval = await find_passages(
        service,
        request,
        body.wye.params(collection, route),
        _turns_of(body.messages),
        body.wye.deadline_ms,
        system=[each.text for each in body.messages if each.role in _SYSTEM and each.text],
        options=body.sampling(),
        abstain_below=body.wye.abstain_below,
    )
    completion = Completion(body.model, answering, retrieval, note)
    if body.stream:
        usage = body.stream_options is not None and body.stream_options.include_usage
        return event_stream(completion.chunks(service.generator, usage=usage))
    generated = await service.generator.complete(answering)
    if generated.error:
        raise broken_off(generated)
    return JSONResponse(completion.body(generated))


def _turns_of(messages: Sequence[ChatMessage]) -> list[Message]:
    """Turns up to the user's last one with text; a `Problem` 422 if no user message has any."""
    turns = [Message(each.role, each.text) for each in messages if each.role in _TURNS]
    while turns and (turns[-1].role != "user" or is_blank(turns[-1].content)):
        turns.pop()
    if not turns:
        raise Problem(
            422,
            "no-question",
            "No message of the role user has any text; the last one that does is the question.",
            errors=[{"at": "body.messages", "says": "A user message with text is needed."}],
        )
    last = turns[-1].content.strip()[-LONGEST_QUESTION:]
    return [*(turn for turn in turns[:-1] if turn.content), Message("user", last)]


def _names(service: Service) -> list[str]:
    several = len(service.collections) > 1
    return [
        f"{PREFIX}{route}:{name}" if several else f"{PREFIX}{route}"
        for name, collection in service.collections.items()
        for route in Route
        if route not in collection.unavailable
    ]


def _route_of(service: Service, model: str) -> tuple[Route, str]:
    """Route and collection of a model, or a `Problem` 404; the only collection may be named."""
    names, collections = _names(service), [*service.collections]
    name = model.removesuffix(f":{collections[0]}") if len(collections) == 1 else model
    if name not in names:
        unknown = f"There is no model '{model:.80}'; use one of {', '.join(names)}."
        raise Problem(404, "model_not_found", unknown)
    route, _, collection = name.removeprefix(PREFIX).partition(":")
    return Route(route), collection or collections[0]


def _model(service: Service, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service.started, "owned_by": "wye"}


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion; all its chunks share an id, a time and a model.

    Attributes:
        note: What of the request has no effect.
    """

    model: str
    params: AnswerParams
    retrieval: RetrieveReply
    note: str
    created: int = field(default_factory=lambda: int(time.time()))

    def body(self, answer: GeneratedAnswer) -> dict[str, Any]:
        """A complete answer as one reply."""
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        return {
            **self._part("chat.completion", answer.finish_reason, message=message),
            "usage": _usage(answer),
            **self._extras(answer),
            "wye": self.retrieval.model_dump(mode="json"),
        }

    async def chunks(self, generator: AnswerGenerator, *, usage: bool) -> AsyncIterator[bytes]:
        """Stream an answer as server-sent events, with its counts of tokens if `usage`."""
        answer, kind = GeneratedAnswer(), "chat.completion.chunk"
        first = self._part(kind, delta={"role": "assistant", "content": ""})
        yield _event({**first, "wye": self.retrieval.model_dump(mode="json")})
        async for piece in generator.stream(self.params, answer):
            yield _event(self._part(kind, delta={"content": piece}))
        if answer.error:
            yield _event({"error": broken_off(answer).body(self.retrieval.request_id)["error"]})
            return
        last = self._part(kind, answer.finish_reason, delta={})
        yield _event({**last, **self._extras(answer)})
        if usage:
            yield _event({**last, "choices": [], "usage": _usage(answer)})
        yield format_sse_event(data_str="[DONE]")

    def _part(
        self, kind: str, finish_reason: str | None = None, **content: dict[str, Any]
    ) -> dict[str, Any]:
        """All of an answer or a piece of it, in OpenAI's shape."""
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        facts = {"created": self.created, "model": self.model, "object": kind}
        return {"id": f"chatcmpl-{self.retrieval.request_id}", **facts, "choices": [choice]}

    def _extras(self, answer: GeneratedAnswer) -> dict[str, Any]:
        value = answer_value(self.params, answer)
        value.note = "; ".join(note for note in (self.note, value.note) if note)
        return value.model_dump(include={"answered", "citations", "segments", "generator", "note"})


def _event(data: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=json.dumps(data))


def broken_off(answer: GeneratedAnswer) -> Problem:
    """The problem of an answer that broke off."""
    return Problem(502, "generator", f"{answer.error} Ask again.")


def _usage(answer: GeneratedAnswer) -> dict[str, int]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: answer.usage.get(name, 0) for name in names}
