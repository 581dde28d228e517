"""Builds the web app from the settings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from wye.router.session import ModelCache, Session
from wye.service.api import (
    answer,
    chat,
    dify,
    documents,
    files,
    jobs,
    operations,
    rerank,
    retrieve,
    vector_stores,
)
from wye.service.arms.file import read_arms
from wye.service.collections import Collection
from wye.service.http.edge import Edge, from_our_pages, refuse_unknown
from wye.service.http.keys import refuse_open_server
from wye.service.http.openapi import DESCRIPTION, ERRORS, TAGS, describe
from wye.service.http.problems import handle
from wye.service.service import Service
from wye.service.settings import ServiceSettings, index_folders

if TYPE_CHECKING:
    from wye.service.mcp_tools import ToolServer

CONSOLE = Path(__file__).parent / "ui"
MCP = "/mcp"

# Each group of addresses is a file in `service/api`; list a new one here.
GROUPS = (retrieve, answer, chat, vector_stores, files, dify, rerank, documents, jobs, operations)

# Tags of addresses that refuse unknown query parameters; other programs' clients may send some.
_STRICT_TAGS = {"retrieval", "answers", "documents"}
_STRICT = [Depends(refuse_unknown)]

Opener = Callable[[], Session]


def build(
    settings: ServiceSettings,
    openers: Mapping[str, Opener] | None = None,
    loaded: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Build an app that loads its collections when it starts, and then calls `loaded`.

    `openers` open the collections, by default the settings' indexes. A `ServiceError` if the
    settings do not allow serving.
    """
    serve = settings.serve
    refuse_open_server(serve)
    models = ModelCache()
    if openers is None:
        openers = indexes(settings, models)
    arms = read_arms(settings.arms, list(openers), serve.deadline_ms / 1000)
    collections = {name: Collection(name, opener) for name, opener in openers.items()}
    service = Service(settings, collections, arms=arms, loaded=loaded)
    app = FastAPI(
        title="Wye",
        version=version("wye"),
        summary="One endpoint for questions of mixed difficulty over a text corpus.",
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url=None,  # `describe` serves it
        # FastAPI's pages for these load scripts from a CDN, and the service uses no network.
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
        generate_unique_id_function=lambda route: route.name,
        exception_handlers={RequestValidationError: handle, HTTPException: handle},
        lifespan=_lifespan,
        telemetry={"metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.service = service
    app.state.models = models
    describe(app, [documents.DocumentsRequest])
    for group in GROUPS:
        strict = not _STRICT_TAGS.isdisjoint(group.router.tags)
        app.include_router(group.router, dependencies=_STRICT if strict else [])
    # A GET would open a stream, and a DELETE end a session; there is neither.
    app.router.routes.append(Route(MCP, McpEndpoint(app), methods=["POST"]))
    app.router.default = ConsoleFiles(directory=CONSOLE, html=True)
    limit = settings.documents.upload_bytes
    app.add_middleware(Edge, ring=service.ring, upload_bytes=limit, metrics=service.metrics)
    return app


def indexes(settings: ServiceSettings, models: ModelCache) -> dict[str, Opener]:
    """What opens each index, by name, with shared `models`; a `ServiceError` for a bad name."""
    folders = index_folders(settings.serve.indexes, settings.index)
    return {name: partial(Session.open, settings, each, models) for name, each in folders.items()}


class ConsoleFiles(StaticFiles):
    """A folder with an index.html, at the addresses where nothing else is.

    The files hold no data, so they need no key; their requests do. Browsers revalidate them before
    each use, since those of two releases do not mix.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at an address, or a 404."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(404)
        reply = await super().get_response(path, scope)
        reply.headers["cache-control"] = "no-cache"
        return reply


class McpEndpoint:
    """Answers requests of the Model Context Protocol, without sessions so that any worker can.

    The protocol's library is imported with the first request: it takes a second of processor time
    and 25 MB.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Create the endpoint; its tools send their requests to `app`."""
        self._app = app
        self._server: ToolServer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; a `Problem` 403 for a foreign page's, to a server without keys."""
        await from_our_pages(Request(scope))
        if self._server is None:
            tools = await asyncio.to_thread(import_module, "wye.service.mcp_tools")
            self._server = tools.Tools(tools.inside(self._app)).server()
        await self._server.answer(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    await service.start()
    yield
    await service.stop()
    models: ModelCache = app.state.models
    models.close()
