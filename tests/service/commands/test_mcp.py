"""`wye mcp`: an agent starts it and talks over its standard input and output."""

import os
import sys

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from service.app import build
from service.cli import run
from service.http.keys import Scope, new_key
from service.settings import ServeSettings, ServiceSettings
from tests.live import WYE, listening
from tests.service.fakes import Library


@pytest.mark.anyio
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
            found = await client.call_tool("search", {"query": "Which bridge is in Mostar?"})
            assert not found.is_error
            assert found.structured_content
            assert found.structured_content["results"]
        started.env = {**os.environ, "WYE_KEY": "wye_wrong"}
        async with Client(stdio_client(started)) as client:
            refused = await client.call_tool("search", {"query": "Which bridge is in Mostar?"})
            assert refused.is_error
            assert "API key is unknown" in refused.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--url", "http://127.0.0.1:1"], "No `wye serve` answers at http://127.0.0.1:1"),
        (["--url", "nonsense"], "No `wye serve` answers at nonsense"),
        (["--index", "/nonexistent/index"], "There is no index at /nonexistent/index"),
        (["--url", "http://127.0.0.1:1", "--index", "x"], "not both"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mcp", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == "", "that is for the agent"
