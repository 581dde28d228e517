"""The Model Context Protocol: tools for agents, on top of the HTTP API.

A tool sends one request to this server or another one, with its caller's credentials. So keys with
their scopes and bounds, limits and the request log apply as they do elsewhere.
"""

import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal
from urllib.parse import quote

import httpx2
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from wye.backends.documents import is_chunk_id
from wye.router.types import Route, answered

PAGE = 20_000  # most characters that one `fetch` returns: clients cut replies at 25,000 tokens

_INSTRUCTIONS = (
    "Searches collections of passages. Ask `search` a question in plain words and quote what it "
    "returns; `answered` is `no` where the collection has probably no answer. `fetch` reads the "
    "document of a result, page by page; `ask` answers a question with citations."
)
# Headers of a tool's caller that are sent along with its request.
_CREDENTIALS = ("authorization", "x-api-key", "x-request-id")
_INSIDE = "http://127.0.0.1"
_BETWEEN = "\n\n"

ToolQuestion = Annotated[str, Field(description="The question, in plain words.")]
ToolCollection = Annotated[
    str | None, Field(description="A collection's name, needed where there are several.")
]
Most = Annotated[int, Field(ge=1, le=100, description="Most passages to return.")]
Way = Annotated[Route, Field(description="`auto` lets the router choose.")]
Only = Annotated[
    dict[str, Any] | str | None,
    Field(
        description=(
            "Filter on metadata: a comparison such as year>=1850, or JSON such as "
            '{"type": "gte", "key": "year", "value": 1850}.'
        )
    ),
]
Offset = Annotated[
    int | None,
    Field(
        ge=0,
        description=(
            "First character of the document to return; by default that of the result's passage, "
            "or 0 for a document."
        ),
    ),
]


class ToolServer(MCPServer[Any]):
    """A server of tools, which also answers single requests over HTTP."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, without a session; a manager runs once, so each has its own."""
        manager = StreamableHTTPSessionManager(
            self._lowlevel_server,
            json_response=True,
            stateless=True,
            # `wye.service.http.edge` checks the request's host.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


class Tools:
    """The tools; each sends one request through `client`."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def ask(self, method: str, path: str, context: Context[Any], **values: Any) -> Any:  # noqa: ANN401 - JSON
        """Send a request with values that are not None in the body, or in the query of GET.

        Returns the reply, or raises a `ToolError` with its error, or why there is none.
        """
        received = context.headers or {}
        headers = {name: received[name] for name in _CREDENTIALS if name in received}
        arguments = {name: value for name, value in values.items() if value is not None}
        where: dict[str, Any] = {"params": arguments}
        if method != "GET":  # also NaN, which the server refuses in words
            where = {"content": json.dumps(arguments)}
            headers["content-type"] = "application/json"
        try:
            reply = await self._client.request(method, path, headers=headers, **where)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:  # or the id is too long for a URL
            raise ToolError(
                f"{self._client.base_url} cannot be asked ({error or type(error).__name__})."
            ) from None
        if reply.is_error:
            raise ToolError(_detail(reply))
        return reply.json()

    def server(self) -> "ToolServer":
        """A server of these tools."""
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        server = ToolServer("wye", title="Wye", version=version("wye"), instructions=_INSTRUCTIONS)
        root.handlers, root.level = handlers, level  # undo the library's setup of logging
        reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

        @server.tool(annotations=reads)
        async def search(
            query: ToolQuestion,
            context: Context[Any],
            *,
            collection: ToolCollection = None,
            k: Most = 5,
            route: Way = Route.AUTO,
            filter: Only = None,  # noqa: A002 - the word of the API
            min_relevance: Annotated[float, Field(ge=0, le=1)] = 0.0,
            duplicates: Literal["", "fold", "keep"] = "",
        ) -> dict[str, Any]:
            """Find passages for a question, best first.

            `relevance` is the probability that a passage is relevant; `answered` says whether the
            collection has an answer (yes, unsure or no), and `degraded` why this is not what was
            asked for. A `url` that begins with wye: names the document, but cannot be opened.
            """
            body = {"question": query, "collection": collection, "duplicates": duplicates, "k": k}
            limits = {"route": route, "filter": filter, "min_relevance": min_relevance}
            return tool_hits(await self.ask("POST", "/v1/retrieve", context, **body, **limits))

        # Without structured output, so that the text is sent once.
        @server.tool(annotations=reads, structured_output=False)
        async def fetch(
            id: Annotated[str, Field(description="Id of a result of `search`, or of a document.")],  # noqa: A002
            context: Context[Any],
            *,
            collection: ToolCollection = None,
            offset: Offset = None,
        ) -> dict[str, Any]:
            """Read a page of a document; `next_offset` is the `offset` of the next page."""
            document = id.rpartition("#")[0] if is_chunk_id(id) else id
            path = f"/v1/documents/{quote(document, safe='')}"
            try:
                reply = await self.ask("GET", path, context, collection=collection)
            except ToolError as error:
                raise ToolError(
                    f"{error} A document of another collection needs `collection`."
                ) from None
            start = 0
            for passage in reply["passages"] if offset is None else ():
                if passage["id"] == id:
                    offset = start
                start += len(passage["text"]) + len(_BETWEEN)
            text = _BETWEEN.join(passage["text"] for passage in reply["passages"])
            first = offset or 0
            end = first + PAGE
            del reply["passages"]
            return {
                **reply,
                "text": text[first:end],
                "url": link_of(reply["metadata"], reply["id"]),
                "offset": first,
                "next_offset": end if end < len(text) else None,
                "characters": len(text),
            }

        @server.tool(annotations=reads)
        async def ask(
            question: ToolQuestion,
            context: Context[Any],
            *,
            collection: ToolCollection = None,
            k: Most = 5,
            route: Way = Route.AUTO,
            filter: Only = None,  # noqa: A002 - the word of the API
        ) -> dict[str, Any]:
            """Answer a question from passages, with citations.

            The server's language model writes it; without one, sentences are quoted.
            """
            body = {"collection": collection, "k": k, "route": route, "filter": filter}
            reply = await self.ask("POST", "/v1/answer", context, question=question, **body)
            return {**reply, "retrieval": tool_hits(reply["retrieval"])}

        return server


def inside(app: ASGIApp) -> httpx2.AsyncClient:
    """A client of an app in this process, without a timeout: the app has deadlines."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=_INSIDE, timeout=None)


async def run_stdio(client: httpx2.AsyncClient) -> None:
    """Serve one agent over standard input and output until it disconnects."""
    await Tools(client).server().run_stdio_async()


def tool_hits(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a reply of `/v1/retrieve` to what an agent needs."""
    names = ("id", "title", "text", "score", "relevance", "metadata")
    results = [
        {
            **{name: passage[name] for name in names},
            "url": link_of(passage["metadata"], passage["document"]),
            "duplicates": passage.get("duplicates", []),
        }
        for passage in reply["passages"]
    ]
    return {
        "results": results,
        "route": reply["route"]["path"],
        "reason": reply["route"]["reason"],
        "answerability": reply["answerability"],
        "answered": answered(reply["answerability"]),
        "degraded": reply["degraded"],
        "request_id": reply["request_id"],
        "folded": reply.get("folded", 0),
    }


def _detail(reply: httpx2.Response) -> str:
    try:
        return str(reply.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The server replied {reply.status_code}."


def link_of(metadata: Mapping[str, Any], document: str) -> str:
    """The `url` in a document's metadata, or else a `wye:` name, which cannot be opened."""
    url = metadata.get("url")
    if isinstance(url, str) and url.startswith(("https://", "http://")):
        return url
    return f"wye:{quote(document, safe='')}"
