"""What becomes of requests whose client goes away, asked without a client in between."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from router.types import Route
from service.app import build
from service.settings import ServeSettings, ServiceSettings

if TYPE_CHECKING:
    from starlette.types import Message

    from tests.service.conftest import Library


class Visitor:
    """One client that may go away at any time."""

    def __init__(self, question: str) -> None:
        self._body = json.dumps({"question": question, "route": "dense"}).encode()
        self._sent = False
        self.left = asyncio.Event()
        self.replies: list[Message] = []

    async def receive(self) -> "Message":
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: "Message") -> None:
        self.replies.append(message)

    async def visit(self, app: Any) -> int:  # noqa: ANN401 - an ASGI app
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/retrieve",
            "raw_path": b"/v1/retrieve",
            "query_string": b"",
            "headers": headers,
            "http_version": "1.1",
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        await app(scope, self.receive, self.send)
        return int(self.replies[0]["status"])


def test_who_goes_away_is_not_worked_for(library: "Library") -> None:
    async def scene() -> list[int]:
        app = build(ServiceSettings(serve=ServeSettings()), {"default": lambda: library})
        async with app.router.lifespan_context(app):
            service = app.state.service
            while not service.is_ready:
                await asyncio.sleep(0.005)
            library.batches.clear()
            library.seconds = {Route.DENSE: 0.2}
            first, gone, stays = Visitor("first"), Visitor("gone"), Visitor("stays")
            visits = [asyncio.create_task(first.visit(app))]
            while not library.batches:
                await asyncio.sleep(0.005)
            visits += [asyncio.create_task(visitor.visit(app)) for visitor in (gone, stays)]
            while service.batcher.depth < 2:
                await asyncio.sleep(0.005)
            gone.left.set()
            return list(await asyncio.gather(*visits))

    assert asyncio.run(scene()) == [200, 499, 200]
    assert [questions for _, questions in library.batches] == [["first"], ["stays"]]
    assert library.closed
