"""A search service that fails as it is told to, and arms files that name it."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.live import LocalServer, send

SECRET = "sk-remote-secret"
HITS: list[dict[str, Any]] = [
    {
        "key": "span",
        "body": "A remote text about the river Neretva.",
        "name": "Remote",
        "points": 0.9,
        "facts": {"y": 1700},
    },
    {"key": "mostar", "body": "What others say of Mostar.", "name": "", "facts": {"y": 1566}},
]


class Remote:
    """An HTTP server on a free port of this machine.

    Attributes:
        mode: How it answers: ok, slow, hang, garbled, huge, drop, redirect, or a status.
        modes: Of the next requests, before `mode` counts again.
        reply: Of mode ok; or what makes it of a request.
        asked: Bodies of the requests that came.
        headers: Of the last one.
        paths: Of all.
        wait: What Retry-After says to a request that is refused; "" where it says nothing.
        most: Requests that were under way at once, at most.
    """

    def __init__(self) -> None:
        self.mode: str | int = "ok"
        self.modes: list[str | int] = []
        self.reply: Any = {"found": {"hits": HITS}}
        self.asked: list[Any] = []
        self.paths: list[str] = []
        self.headers: dict[str, str] = {}
        self.seconds = 0.05
        self.wait = ""
        self.most = 0
        self.under_way = 0
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = LocalServer(self._handle, "HTTP/1.1")
        self.url = self._server.url

    def close(self) -> None:
        self.released.set()
        self._server.close()

    def _handle(self, to: BaseHTTPRequestHandler, body: bytes) -> None:
        content = json.loads(body) if body else None
        self.asked.append(content)
        self.paths.append(to.path)
        self.headers = {name.lower(): value for name, value in to.headers.items()}
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        try:
            self._answer(to, content)
        except (BrokenPipeError, ConnectionResetError):
            to.close_connection = True
        finally:
            with self._lock:
                self.under_way -= 1

    def _answer(self, to: BaseHTTPRequestHandler, asked: Any) -> None:  # noqa: ANN401
        mode = self.modes.pop(0) if self.modes else self.mode
        if mode == "hang":
            self.released.wait(10)
            to.close_connection = True
        elif mode == "drop":
            to.close_connection = True
        elif mode == "garbled":
            send(to, 200, b'{"found": {"hits": [{"key": ')
        elif mode == "huge":
            send(to, 200, b" " * (9 << 20))
        elif mode == "redirect":
            send(to, 302, b"", location=f"{self.url}/elsewhere")
        elif isinstance(mode, int):
            more = {"retry-after": self.wait} if self.wait else {}
            send(to, mode, f'{{"error": "{SECRET} is wrong"}}'.encode(), **more)
        else:
            time.sleep(self.seconds if mode == "slow" else 0)
            reply = self.reply(asked) if callable(self.reply) else self.reply
            send(to, 200, json.dumps(reply).encode())


def table(address: str, name: str = "far", **changes: Any) -> str:  # noqa: ANN401
    """An arm of the kind http in TOML; a change to None leaves a key out."""
    values: dict[str, object] = {
        "kind": "http",
        "role": "graph",
        "url": address,
        "timeout_ms": 2_500,
        "price": 0.02,
        "retries": 0,
        "hits": "/found/hits",
        "id": "/key",
        "text": "/body",
        "title": "/name",
        "score": "/points",
        "metadata": "/facts",
        "request": {"q": "{question}", "top": "{k}", "where": "{filter}"},
        **changes,
    }
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    return "\n".join([f"[arms.{name}]", *lines, ""])


def arms_file(folder: Path, *tables: str) -> Path:
    path = folder / "wye.toml"
    path.write_text("\n".join(tables), encoding="utf-8")
    return path


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
