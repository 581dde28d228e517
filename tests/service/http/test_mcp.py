"""Agents over `/mcp`, as the protocol's own client asks, in its former and its present form."""

import json
from collections.abc import Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live import listening
from tests.service.fakes import Library
from wye.router.session import Session
from wye.service.app import build
from wye.service.http.edge import Scope
from wye.service.http.keys import new_key
from wye.service.mcp_tools import PAGE, Tools
from wye.service.settings import ServeSettings, ServiceSettings

FORMS = ("legacy", "auto")
TOOLS = ["search", "fetch", "ask"]
ACCEPT = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def connected(url: str, form: str, secret: str = "") -> Any:  # noqa: ANN401 - an iterator
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=form) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    app = build(ServiceSettings(), {"default": Library})
    with listening(app) as address:
        yield address


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    said: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    structured = None if tool == "fetch" else said  # the text is for clients that read it only
    assert result.structured_content == structured
    return said


@pytest.mark.parametrize("form", FORMS)
async def test_the_tools_say_what_the_addresses_do(url: str, form: str) -> None:
    async with connected(url, form) as client, httpx2.AsyncClient(base_url=url) as http:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        assert all(tool.description for tool in listed)
        assert [tool.name for tool in listed if not tool.output_schema] == ["fetch"]
        assert all(tool.annotations.read_only_hint for tool in listed)
        question = "Which bridge is in Mostar?"
        result = await call(client, "search", query=question, k=2, route="dense")
        body = {"question": question, "k": 2, "route": "dense"}
        direct = (await http.post("/v1/retrieve", json=body)).json()
        for part in ("id", "text"):
            parts = [[hit[part] for hit in result["results"]]]
            assert parts == [[hit[part] for hit in direct["passages"]]]
        assert result["route"] == "dense"
        answer = await call(client, "ask", question=question)
        assert answer["answer"]
        assert answer["citations"]
        assert (answer["answered"], result["answered"]) == ("yes", "yes")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search", {"query": ""}, "at least 1 character"),
        ("search", {"query": "x", "collection": "nope"}, "no collection 'nope'"),
        ("search", {"query": "x", "filter": {"type": "near"}}, "filter"),
        ("search", {"query": "x", "filter": "near Mostar"}, "neither a comparison"),
        ("search", {"query": "x", "k": 101}, "less than or equal to 100"),
        ("search", {"query": "x", "route": "fly"}, "'auto', 'dense'"),
        ("search", {}, "query"),
        ("fetch", {"id": "x" * 70_000}, "URL too long"),
    ],
)
async def test_mistakes_are_told(
    url: str, form: str, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with connected(url, form) as client:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        text = result.content[0].text
        assert said in text
        assert "Traceback" not in text


@pytest.mark.parametrize("form", FORMS)
async def test_a_tool_has_the_rights_of_the_key(form: str, folder: Path) -> None:
    secret, key = new_key("reader", [Scope.READ])
    settings = ServiceSettings(serve=ServeSettings(keys=(str(key),)))
    app = build(settings, {"default": partial(Session.open, settings, folder)})
    with listening(app) as url:
        with closing(httpx2.Client(base_url=url)) as http:
            assert http.post("/mcp", json={}).status_code == 401
        async with connected(url, form, secret) as client:
            unknown = await client.call_tool("fetch", {"id": "new"})
            assert "no document 'new'" in unknown.content[0].text
            assert "another collection needs `collection`" in unknown.content[0].text


async def test_a_long_document_is_read_in_pages() -> None:
    texts = [f"Clause {n}. {'x' * 9_000}" for n in range(5)]
    lease = {"id": "lease", "title": "Lease", "metadata": {}}
    passages = [{"id": f"lease#{n:04}", "text": text} for n, text in enumerate(texts)]

    def reply(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={**lease, "passages": passages})

    transport = httpx2.MockTransport(reply)
    http = httpx2.AsyncClient(transport=transport, base_url="http://wye")
    async with http, Client(Tools(http).server()) as client:
        first = await call(client, "fetch", id="lease")
        assert (first["offset"], first["next_offset"], len(first["text"])) == (0, PAGE, PAGE)
        text, offset = first["text"], first["next_offset"]
        while offset is not None:
            later = await call(client, "fetch", id="lease", offset=offset)
            text, offset = text + later["text"], later["next_offset"]
        assert text == "\n\n".join(texts)
        assert len(text) == first["characters"]
        assert (await call(client, "fetch", id="lease#0003"))["text"].startswith("Clause 3.")


async def test_a_number_that_json_lacks_is_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    filter_ = {"type": "eq", "key": "y", "value": float("nan")}
    call = {"name": "search", "arguments": {"query": "x", "filter": filter_}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    kind = {"content-type": "application/json"}
    async with httpx2.AsyncClient(base_url=url, headers=ACCEPT | kind) as http:
        reply = await http.post("/mcp", content=json.dumps(body))
    assert "filter.value must be a string, a number or a boolean, not nan" in reply.text
    assert "Traceback" not in caplog.text


async def test_what_is_no_message_is_refused(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers=ACCEPT) as http:
        for content in (b"", b"{", b"[]", b'"x"', b"\xff", b'{"jsonrpc": "2.0"}'):
            reply = await http.post(
                "/mcp", content=content, headers={"content-type": "application/json"}
            )
            assert 400 <= reply.status_code < 500, (content, reply.text)
        for method in ("GET", "DELETE", "PUT"):
            reply = await http.request(method, "/mcp")
            assert (reply.status_code, reply.headers["allow"]) == (405, "POST"), method
        assert (await http.post("/mcp", content=b"{}")).status_code in (400, 415)
