"""As the backend of Open WebUI (`routers/openai.py`) talks to a server over a socket."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx2 as httpx
import pytest
from openai import OpenAI

from tests.live import PATIENCE, listening
from tests.service.fakes import Endpoint, Library
from wye.service.app import build
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import GeneratorSettings, ServeSettings, ServiceSettings

# Longest line that its HTTP client hands on as one, where it is not told otherwise.
LONGEST_LINE = 131_072


def conversation(last: str) -> dict[str, Any]:
    """A request for the third turn of a conversation, as a page of the browser sends it."""
    return {
        "model": "wye-auto",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "You are a patient guide to bridges."},
            {"role": "user", "content": "Which bridge is in Mostar?"},
            {"role": "assistant", "content": "Stari Most, the Old Bridge [1]."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": last, "cache_control": {"type": "ephemeral"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
                ],
            },
        ],
        "params": {},
        "tool_servers": [],
        **dict.fromkeys(["tool_ids", "tools", "functions", "tool_choice"]),
        "files": [{"type": "file", "id": "3f", "name": "a.txt"}],
        "features": {"image_generation": False, "web_search": False, "memory": False},
        "variables": {"{{USER_NAME}}": "Ada", "{{CURRENT_DATE}}": "1843-08-01"},
        "model_item": {"id": "wye-auto", "owned_by": "openai", "urlIdx": 0, "tags": []},
        "session_id": "YjVk",
        "chat_id": "6c1f8c0e-0000-4000-8000-000000000000",
        "id": "b1946ac9-0000-4000-8000-000000000000",
        "background_tasks": {"title_generation": True, "tags_generation": True},
        "metadata": {"task": None, "interface": "open-webui", "filter_ids": []},
        "user": {"name": "Ada", "id": "u-1", "email": "ada@example.org", "role": "user"},
        "max_tokens": 128_000,
        "temperature": 0.7,
        "top_k": 40,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "mirostat": 0,
        "num_ctx": 8192,
        "reasoning_effort": "low",
        "logit_bias": {"50256": -100},
        **dict.fromkeys(["response_format", "stop", "seed"]),
    }


class WebUI:
    """Its backend, connected to a server with a key."""

    def __init__(self, url: str, secret: str) -> None:
        self.http = httpx.Client(
            base_url=f"{url}/v1",
            timeout=PATIENCE,
            headers={
                "authorization": f"Bearer {secret}",
                "x-openwebui-user-name": "Ada%20Lovelace",
                "x-openwebui-user-id": "u-1",
                "x-openwebui-user-email": "ada@example.org",
                "x-openwebui-user-role": "user",
                "x-openwebui-chat-id": "6c1f8c0e",
            },
        )
        self.openai = OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0)

    def close(self) -> None:
        self.http.close()
        self.openai.close()

    def lines(self, body: dict[str, Any]) -> list[str]:
        """A stream as it comes, empty lines left out."""
        with self.http.stream("POST", "/chat/completions", json=body) as reply:
            raw = reply.read()
            assert reply.status_code == 200, raw
            assert reply.headers["content-type"].startswith("text/event-stream")
        events = raw.decode().split("\n\n")
        assert events.pop() == ""
        return events


Connect = Callable[..., WebUI]


@pytest.fixture
def connect(library: Library) -> Iterator[Connect]:
    """Makes clients of a server of `library`; a language model writes, if one is given."""
    with ExitStack() as stack:

        def start(generator: GeneratorSettings | None = None) -> WebUI:
            secret, key = new_key("webui", [Scope.READ])
            settings = ServiceSettings(
                serve=replace(ServeSettings(deadline_ms=60_000), keys=(str(key),)),
                generator=generator or GeneratorSettings(),
            )
            url = stack.enter_context(listening(build(settings, {"default": lambda: library})))
            library.batches.clear()
            client = WebUI(url, secret)
            stack.callback(client.close)
            return client

        yield start


@pytest.mark.parametrize("writes", [True, False])
def test_a_conversation_streams_in_frames_that_clients_parse(
    connect: Connect,
    library: Library,
    endpoint: Endpoint,
    with_model: GeneratorSettings,
    writes: bool,
) -> None:
    client = connect(with_model if writes else None)
    chat = conversation("Which river does the Old Bridge of Mostar cross?")
    events = client.lines(chat)
    assert events[-1] == "data: [DONE]"
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    assert max(map(len, events)) < LONGEST_LINE
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert chunks[-1]["choices"] == []
    assert {"prompt_tokens", "completion_tokens", "total_tokens"} == {*chunks[-1]["usage"]}

    options = {name: chat.pop(name) for name in ("model", "messages", "stream", "stream_options")}
    parsed = list(client.openai.chat.completions.create(**options, extra_body=chat))
    assert len(parsed) == len(chunks)
    contents = [one.choices[0].delta.content or "" for one in parsed if one.choices]
    assert "".join(contents) == text
    assert [one.choices[0].finish_reason for one in parsed if one.choices][-1] == "stop"
    assert "[1]" in text
    if writes:
        payload = endpoint.seen[0][0]
        roles = [message["role"] for message in payload["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert (payload["max_tokens"], payload["temperature"]) == (128_000, 0.7)
        assert {"chat_id", "metadata", "top_k", "user"}.isdisjoint(payload)
    assert library.batches[0][1] == ["Which river does the Old Bridge of Mostar cross?"]
