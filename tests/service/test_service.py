"""The way of one question through the service, and what becomes of it when its client goes away."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

import wye.service
from tests.service.fakes import Library
from wye.router.types import Route
from wye.service.app import build
from wye.service.settings import ServeSettings, ServiceSettings

if TYPE_CHECKING:
    from starlette.types import Message

HERE = Path(wye.service.__file__).parent
MOST_FUNCTIONS = 42


class Way:
    """What is called between a request's handler and the end of its reply.

    Attributes:
        functions: Of the service, in order of their first call; what runs beside it is not in it.
        wrapped: Dataclasses of the service that were made.
    """

    def __init__(self) -> None:
        self.begin_again()

    def begin_again(self) -> None:
        self.functions: dict[str, None] = {}
        self.wrapped: dict[str, None] = {}
        self.begun = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename == "<string>" and code.co_name == "__init__" and self.begun:
            kind = type(frame.f_locals["self"])
            if kind.__module__.startswith("wye.service."):
                self.wrapped[kind.__name__] = None
        if not code.co_filename.startswith(str(HERE)) or code.co_name.startswith("<"):
            return
        path = Path(code.co_filename).relative_to(HERE).as_posix()
        self.begun = self.begun or (path, code.co_name) == ("api/retrieve.py", "retrieve")
        if self.begun and not path.startswith(("ingest/", "refresh.py", "http/edge.py")):
            self.functions[f"{path}:{code.co_qualname}"] = None


def test_a_question_takes_few_functions_and_one_wrapper_each_way(
    serve: Callable[..., TestClient], library: Library
) -> None:
    way, before = Way(), threading.getprofile()
    threading.setprofile(way)
    try:
        client = serve(library, refresh_seconds=60.0)
        client.post("/v1/retrieve", json={"question": "What river is it?"})
        way.begin_again()
        reply = client.post("/v1/retrieve", json={"question": "What river is it?"})
    finally:
        threading.setprofile(before)
    assert reply.status_code == 200
    assert library.batches
    assert len(way.functions) <= MOST_FUNCTIONS, [*way.functions]
    wrapped = [name for name in way.wrapped if name != "_Search"]  # which is of a batch
    assert wrapped == ["SearchParams", "QueuedQuestion", "Entry", "SearchResult"]
    assert "collections.py:Collection.work" in way.functions
    assert sys.getprofile() is None


class Visitor:
    """One client that may go away at any time."""

    def __init__(self, question: str) -> None:
        self._body = json.dumps({"question": question, "route": "dense"}).encode()
        self._sent = False
        self.departure = asyncio.Event()
        self.replies: list[Message] = []

    async def receive(self) -> "Message":
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.departure.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: "Message") -> None:
        self.replies.append(message)

    async def visit(self, app: Any) -> int:  # noqa: ANN401 - an ASGI app
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/retrieve", "query_string": b""}
        scope["headers"] = headers
        await app(scope, self.receive, self.send)
        return int(self.replies[0]["status"])


async def test_who_goes_away_is_not_worked_for(library: Library) -> None:
    app = build(ServiceSettings(serve=ServeSettings()), {"default": lambda: library})
    async with app.router.lifespan_context(app):
        service = app.state.service
        while not service.is_ready:
            await asyncio.sleep(0.005)
        library.batches.clear()
        library.seconds = {Route.DENSE: 0.2}
        first, leaving, stays = Visitor("first"), Visitor("gone"), Visitor("stays")
        visits = [asyncio.create_task(first.visit(app))]
        while not library.batches:
            await asyncio.sleep(0.005)
        visits += [asyncio.create_task(visitor.visit(app)) for visitor in (leaving, stays)]
        while service.batcher.depth < 2:
            await asyncio.sleep(0.005)
        leaving.departure.set()
        assert await asyncio.gather(*visits) == [200, 499, 200]
    assert [questions for _, questions in library.batches] == [["first"], ["stays"]]
    assert library.closed
