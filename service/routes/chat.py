"""OpenAI's models and chat completions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from wye.backends.documents import is_blank
from wye.router.types import Route
from wye.service.answers.answer import Message
from wye.service.answers.chat import Completion, broken_off, is_chore
from wye.service.answers.generate import AnswerParams
from wye.service.http.auth import READ
from wye.service.http.problems import Problem, request_id_of
from wye.service.http.replies import event_stream, headers, retrieve_reply
from wye.service.routes.retrieve import params_of
from wye.service.schemas.chat import ChatRequest
from wye.service.schemas.common import LONGEST_QUESTION
from wye.service.schemas.retrieve import RetrieveReply
from wye.service.service import Served, Service

router = APIRouter(prefix="/v1", tags=["openai"], dependencies=READ)

PREFIX = "wye-"
_SYSTEM = ("system", "developer")
_TURNS = ("user", "assistant")


@router.get("/models", summary="List models", operation_id="list_models")
async def models(service: Served) -> dict[str, Any]:
    """Lists a model for each route: `wye-auto`, `wye-dense`, …; `:NAME` names a collection."""
    return {"object": "list", "data": [_model(service, name) for name in _names(service)]}


@router.get("/models/{model}", summary="Describe a model", operation_id="retrieve_model")
async def model_by_name(model: str, service: Served) -> dict[str, Any]:
    """Describes one of the models."""
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

    The last user message is the query, or its last 4,096 characters if it is longer. If it refers
    to earlier turns, as "And who designed it?" does, it is first rewritten by the language model;
    without one, the names of the last turn are appended. `wye.question` is what was searched for.
    A language model also gets the system message and the earlier turns. Without one, the answer
    quotes the passages, and `note` says so.

    `segments` are the parts of the answer with the numbers of their passages, which `citations`
    resolves; `wye` holds what `/v1/retrieve` would reply. A stream has `wye` in its first chunk,
    and `segments` and `citations` in its last.

    Clients such as Open WebUI also ask for titles and tags: in a single message that begins with
    `### Task:` and holds the conversation in `<chat_history>`. It goes to the language model as it
    is, nothing is searched for, and `wye` is null.

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
    turns = _turns_of([(m.role, m.text) for m in asked.messages])
    answering = AnswerParams(
        turns[-1].content,
        (),
        collection,
        system=[m.text for m in asked.messages if m.role in _SYSTEM and m.text],
        history=turns[:-1],
        options=asked.sampling(),
        is_chore=is_chore(turns),
    )
    retrieval: RetrieveReply | None = None
    if not answering.is_chore:
        said = answering.question.strip()[-LONGEST_QUESTION:]
        question = await service.generator.standalone(said, answering.history)
        own = asked.wye
        params = params_of(collection, route, own)
        (result,) = await service.search(request, params, [question], own.deadline_ms)
        retrieval = retrieve_reply(result)
        answering = replace(
            answering,
            question=question,
            passages=retrieval.passages,
            answerability=retrieval.answerability,
            abstain_below=own.abstain_below,
        )
    completion = Completion(request_id_of(request.scope), asked.model, answering, retrieval)
    told = {} if retrieval is None else headers(retrieval)
    if asked.stream:
        usage = asked.stream_options is not None and asked.stream_options.include_usage
        return event_stream(completion.chunks(service.generator, usage=usage), told)
    generated = await service.generator.complete(answering)
    if generated.error:
        raise broken_off(generated)
    return JSONResponse(completion.whole(generated), headers=told)


def _turns_of(messages: Sequence[tuple[str, str]]) -> list[Message]:
    """The messages of user and assistant, up to the user's last one with text.

    Args:
        messages: Role and text of each message.

    Raises:
        Problem: 422; no user message has any text.
    """
    places = [n for n, (role, text) in enumerate(messages) if role == "user" and not is_blank(text)]
    if not places:
        raise Problem(
            422,
            "no-question",
            "No message of the role user has any text; the last one that does is the question.",
            errors=[{"at": "body.messages", "says": "A user message with text is needed."}],
        )
    said = messages[: places[-1] + 1]
    return [Message(role, text) for role, text in said if role in _TURNS and text]


def _names(service: Service) -> list[str]:
    first = next(iter(service.collections), "")
    return [
        f"{PREFIX}{route}" if name == first else f"{PREFIX}{route}:{name}"
        for name, collection in service.collections.items()
        for route in Route
        if route not in collection.unavailable
    ]


def _route_of(service: Service, model: str) -> tuple[Route, str]:
    """Route and collection of a model, or a `Problem` 404."""
    names = _names(service)
    if model not in names:
        raise Problem(
            404,
            "model_not_found",
            f"There is no model '{model:.80}'; use one of {', '.join(names)}.",
        )
    route, _, collection = model.removeprefix(PREFIX).partition(":")
    return Route(route), service.collection(collection or None).name


def _model(service: Service, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": service.started, "owned_by": "wye"}
