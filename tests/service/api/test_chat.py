import json
from typing import Any

import openai
import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Endpoint, Library, Serve, official
from wye.backends.types import Passage
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key

QUESTION = "What river flows into the Adriatic?"
TALK: list[Any] = [{"role": "user", "content": QUESTION}]


def test_models_are_routes(serve: Serve) -> None:
    client = official(serve(engines={"main": Library(), "other": Library()}))
    names = [model.id for model in client.models.list()]
    assert {"wye-dense:main", "wye-fusion:main", "wye-dense:other"} <= {*names}
    assert "wye-dense" not in names
    assert client.models.retrieve("wye-graph:other").owned_by == "wye"
    with pytest.raises(openai.NotFoundError, match="There is no model 'gpt-4'"):
        client.models.retrieve("gpt-4")


def test_a_model_sees_the_conversation_and_the_last_question_is_searched_for(
    writing: TestClient, library: Library, endpoint: Endpoint
) -> None:
    client = official(writing)
    reply = client.chat.completions.create(
        model="wye-dense",
        messages=[
            {"role": "system", "content": "Speak like a sailor."},
            {"role": "user", "content": "Which bridge is in Mostar?"},
            {"role": "assistant", "content": "Stari Most [1]."},
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        ],
        temperature=0,
        extra_body={"wye": {"k": 1}, "chat_id": "what other clients send along"},
    )
    assert reply.choices[0].message.content == "It crosses the Neretva [1] . "
    assert reply.usage is not None
    assert reply.usage.total_tokens == 10
    assert library.batches[-1][1] == [QUESTION]
    sent = endpoint.seen[0][0]
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert sent["messages"][0]["content"].endswith("Speak like a sailor.")
    assert sent["messages"][-1]["content"].count("[2]") == 0
    assert (sent["temperature"], "chat_id" in sent) == (0, False)


def test_a_stream(writing: TestClient) -> None:
    chunks = list(
        official(writing).chat.completions.create(
            model="wye-graph", messages=TALK, stream=True, stream_options={"include_usage": True}
        )
    )
    texts = [c.choices[0].delta.content for c in chunks if c.choices]
    assert "".join(text or "" for text in texts) == "It crosses the Neretva [1] . "
    assert chunks[0].choices[0].delta.role == "assistant"
    assert (chunks[0].model_extra or {})["wye"]["passages"][0]["id"] == "neretva"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-2].model_extra or {})["citations"][0]["index"] == 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10
    assert len({chunk.id for chunk in chunks}) == 1


# What the backend of Open WebUI (`routers/openai.py`) sends beside a conversation.
OF_OPEN_WEBUI: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    **dict.fromkeys(["tool_ids", "tools", "functions", "tool_choice"]),
    **dict.fromkeys(["response_format", "stop", "seed"]),
    "files": [{"type": "file", "id": "3f", "name": "a.txt"}],
    "features": {"image_generation": False, "web_search": False, "memory": False},
    "variables": {"{{USER_NAME}}": "Ada", "{{CURRENT_DATE}}": "1843-08-01"},
    "model_item": {"id": "wye-auto", "owned_by": "openai", "urlIdx": 0, "tags": []},
    "chat_id": "6c1f8c0e-0000-4000-8000-000000000000",
    "metadata": {"task": None, "interface": "open-webui", "filter_ids": []},
    "user": {"name": "Ada", "id": "u-1", "email": "ada@example.org", "role": "user"},
    "max_tokens": 128_000,
    "temperature": 0.7,
    "top_k": 40,
    "num_ctx": 8192,
    "reasoning_effort": "low",
    "logit_bias": {"50256": -100},
}


def test_a_stream_comes_in_frames_that_open_webui_parses(
    writing: TestClient, library: Library, endpoint: Endpoint
) -> None:
    """Its HTTP client hands on a line of up to 131,072 bytes as one."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
    text = {"type": "text", "text": QUESTION, "cache_control": {"type": "ephemeral"}}
    talk = [{"role": "user", "content": [text, image]}]
    body = {"model": "wye-auto", "messages": talk, **OF_OPEN_WEBUI}
    reply = writing.post("/v1/chat/completions", json=body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    *frames, end, rest = reply.text.split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    assert max(map(len, frames)) < 131_072
    assert json.loads(frames[-1].removeprefix("data: "))["choices"] == []
    assert library.batches[0][1] == [QUESTION]
    sent = endpoint.seen[0][0]
    assert (sent["max_tokens"], sent["temperature"]) == (128_000, 0.7)
    assert {"chat_id", "metadata", "top_k", "user"}.isdisjoint(sent)


def test_a_stream_that_quotes(client: TestClient) -> None:
    stream = official(client).chat.completions.create(model="wye-graph", messages=TALK, stream=True)
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text.startswith("It flows into the Adriatic. [1] The Neretva is a river. [1]")
    extra: dict[str, Any] = chunks[-1].model_extra or {}
    assert extra["segments"][1] == {"text": " The Neretva is a river. ", "passages": [1]}
    assert extra["note"].startswith("No language model is configured")


def test_an_answer_that_breaks_off_is_an_error(writing: TestClient, endpoint: Endpoint) -> None:
    client = official(writing)
    endpoint.script = ["break", "break"]
    stream = client.chat.completions.create(model="wye-graph", messages=TALK, stream=True)
    seen = [next(stream).choices[0].delta.content for _ in range(3)]
    assert seen == ["", "It ", "crosses "]
    with pytest.raises(openai.APIError, match="broke off"):
        next(stream)
    with pytest.raises(openai.InternalServerError, match="broke off"):
        client.chat.completions.create(model="wye-graph", messages=TALK)


def test_another_collection_is_another_model(serve: Serve) -> None:
    other = Library([Passage("only", "", "A river of its own.")])
    client = official(serve(engines={"main": Library(), "other": other}))
    reply = client.chat.completions.create(model="wye-dense:other", messages=TALK)
    assert (reply.model_extra or {})["wye"]["passages"][0]["id"] == "only"
    secret, key = new_key("bound", [Scope.READ], ["other"])
    bound = official(serve(engines={"main": Library(), "other": other}, keys=(str(key),)), secret)
    for model in ("wye-dense:other", "wye-dense"):  # for this key it is the only one
        assert bound.chat.completions.create(model=model, messages=TALK).choices
    with pytest.raises(openai.NotFoundError):
        bound.models.retrieve("wye-dense:main")


def test_a_long_message_is_searched_for_by_its_end(client: TestClient, library: Library) -> None:
    long = "word " * 3000 + QUESTION
    talk: list[Any] = [{"role": "user", "content": long}]
    reply = official(client).chat.completions.create(model="wye-dense", messages=talk)
    query = (reply.model_extra or {})["wye"]["question"]
    assert (len(query), query.endswith(QUESTION)) == (4096, True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": []}, "body.messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "role user"),
        ({"messages": [{"role": "user", "content": " "}]}, "role user"),
        ({"messages": [{"role": "user", "content": "\u200b\u2060"}]}, "role user"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            " body.messages[0].content: Input should be a valid string or a valid list. See",
        ),
        ({"messages": [{"role": "robot", "content": "x"}]}, "body.messages[0].role"),
        ({"n": 2}, "body.n"),
        ({"temperature": 9}, "body.temperature"),
        ({"wye": {"k": 0}}, "body.wye.k"),
        ({"wye": {"kk": 1}}, "body.wye.kk"),
    ],
)
def test_mistakes_are_told_as_the_client_expects(
    client: TestClient, body: dict[str, Any], says: str
) -> None:
    sent = {"model": "wye-dense", "messages": TALK, **body}
    with pytest.raises(openai.UnprocessableEntityError) as error:
        official(client).post("/chat/completions", body=sent, cast_to=object)
    assert says in error.value.message
    assert error.value.type == "invalid_request_error"


def test_an_unknown_model(client: TestClient) -> None:
    with pytest.raises(openai.NotFoundError, match="wye-dense, ") as error:
        official(client).chat.completions.create(model="gpt-4", messages=TALK)
    assert error.value.code == "model_not_found"


def test_what_is_not_offered_has_no_address(client: TestClient) -> None:
    ai = official(client)
    for ask in (ai.batches.list, lambda: ai.embeddings.create(model="x", input="x")):
        with pytest.raises(openai.NotFoundError, match="nothing at this address"):
            ask()


def test_what_cannot_be_honoured_is_said_or_refused(client: TestClient) -> None:
    chat = official(client).chat.completions
    tools: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    reply = chat.create(model="wye-graph", messages=TALK, tools=tools)
    assert (reply.model_extra or {})["note"].startswith("degraded: tools are not called; No lang")
    forms: list[dict[str, Any]] = [
        {"response_format": {"type": "json_object"}},
        {"tools": tools, "tool_choice": "required"},
    ]
    for form in forms:
        with pytest.raises(openai.UnprocessableEntityError, match=r"Leave \w+ out"):
            chat.create(model="wye-graph", messages=TALK, **form)
    text: Any = {"type": "text"}
    assert chat.create(model="wye-graph", messages=TALK, response_format=text).choices
