"""`wye mcp`: an agent starts it and talks over its standard input and output."""

import json
import os
import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.live import WYE, listening
from tests.service.fakes import Library
from wye.service.app import build
from wye.service.cli import run
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.settings import ServeSettings, ServiceSettings


async def test_it_asks_a_running_server_with_the_key_of_the_environment() -> None:
    secret, key = new_key("agent", [Scope.READ])
    settings = ServiceSettings(serve=ServeSettings(keys=(str(key),)))
    with listening(build(settings, {"default": Library})) as url:
        started = StdioServerParameters(
            command=sys.executable,
            args=["-c", WYE, "mcp", "--url", url],
            env={**os.environ, "WYE_KEY": secret},
        )
        async with Client(stdio_client(started)) as client:
            result = await client.call_tool("search", {"query": "Which bridge is in Mostar?"})
            assert not result.is_error
            assert result.structured_content
            assert result.structured_content["results"]
        started.env = {**os.environ, "WYE_KEY": "wye_wrong"}
        async with Client(stdio_client(started)) as client:
            refused = await client.call_tool("search", {"query": "Which bridge is in Mostar?"})
            assert refused.is_error
            assert "API key is unknown" in refused.content[0].text  # type: ignore[union-attr]


async def test_it_opens_an_index(tmp_path: Path) -> None:
    text = "Charles Babbage designed the Analytical Engine."
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"_id": "babbage", "title": "Babbage", "text": text}))
    index = tmp_path / "index"
    assert run(["index", str(corpus), "--index", str(index)]) == 0
    started = StdioServerParameters(
        command=sys.executable,
        args=["-c", WYE, "mcp", "--index", str(index)],
        # Keys are for those who come over a network, and other indexes for those who name none.
        env={
            **os.environ,
            "WYE_SERVE__KEYS_FILE": str(tmp_path / "none.txt"),
            "WYE_SERVE__INDEXES": f"other={tmp_path / 'other'}",
        },
    )
    async with Client(stdio_client(started)) as client:
        arguments = {"query": "Who designed the engine?", "k": 1}
        result = await client.call_tool("search", arguments)
        assert not result.is_error, result.content
        assert result.structured_content
        assert [each["text"] for each in result.structured_content["results"]] == [text]
        read = await client.call_tool("fetch", {"id": "babbage"})
        (page,) = read.content
        assert page.type == "text"
        assert json.loads(page.text)["text"] == text


def test_without_an_index_it_checks_those_that_a_server_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WYE_INDEX", raising=False)
    monkeypatch.setenv("WYE_SERVE__INDEXES", f"other={tmp_path / 'other'}")
    assert run(["mcp"]) == 2
    assert f"There is no index at {tmp_path / 'other'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--url", "http://127.0.0.1:1"], "No `wye serve` answers at http://127.0.0.1:1"),
        (["--url", "nonsense"], "No `wye serve` answers at nonsense"),
        (["--index", "/nonexistent/index"], "There is no index at /nonexistent/index"),
        (["--url", "http://127.0.0.1:1", "--index", "x"], "not both"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mcp", *words]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == "", "that is for the agent"
