"""`/mcp`: tools for agents over streamable HTTP."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from wye.service.http.edge import from_our_pages

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


PATH = "/mcp"


class McpEndpoint:
    """Answers requests of the Model Context Protocol, without sessions so that any worker can.

    The protocol's library is imported with the first request: it takes a second of processor time
    and 25 MB.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Create the endpoint; its tools send their requests to `app`."""
        self._app = app
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; a `Problem` 403 for a foreign page's, to a server without keys."""
        await from_our_pages(Request(scope))
        async with self._starting:
            if self._manager is None:
                started: asyncio.Future[StreamableHTTPSessionManager] = asyncio.Future()
                self._running = asyncio.create_task(self._run(started))
                self._manager = await started
        await self._manager.handle_request(scope, receive, send)

    async def _run(self, started: "asyncio.Future[StreamableHTTPSessionManager]") -> None:
        """Keep the client and the manager open, in one task as the library requires."""
        try:
            tools = await asyncio.to_thread(import_module, "wye.service.mcp_tools")
            client = tools.inside(self._app)
            manager: StreamableHTTPSessionManager = tools.http_manager(client)
            async with client, manager.run():
                started.set_result(manager)
                await self._stop.wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    async def close(self) -> None:
        """Close the client and the manager, if a request started them."""
        self._stop.set()
        if self._running is not None:
            await self._running
