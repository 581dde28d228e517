"""Servers on real sockets, in processes or threads of their own, on free ports."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx2 as httpx
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

# Seconds to wait for anything; even an overloaded machine takes less.
PATIENCE = 300.0
WYE = "from wye.service.cli import main; main()"
FAKED = """
import wye.router.session
from tests.hashing import FakeAnalyser
wye.router.session.Analyser = FakeAnalyser
from wye.service.cli import main
main()
"""
_ROOT = Path(__file__).parents[1]
_LISTENS = re.compile(r"running on (http://[\w.:\[\]]+)")
T = TypeVar("T")


def until(condition: Callable[[], T]) -> T:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def is_running(process: int) -> bool:
    """Whether a process is still running; a zombie, listed until its parent waits, is not."""
    command = ["ps", "-o", "stat=", "-p", str(process)]
    listed = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def children(process: int) -> list[int]:
    asked = ["ps", "-o", "pid=", "--ppid", str(process)]
    listed = subprocess.run(asked, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    return [int(line) for line in listed.stdout.split()]


class Live:
    """A server that is ready; `stop` or `kill` it.

    Attributes:
        url: Where it listens.
        process: Its process.
    """

    def __init__(
        self,
        words: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        program: str = WYE,
        folder: Path | None = None,
    ) -> None:
        """Start the server and wait until it answers.

        Args:
            words: Arguments of the program, such as `serve --index DIR`.
            settings: Further environment variables.
            program: The program, in Python.
            folder: Its working folder.
        """
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WYE_")},
            "PYTHONPATH": str(_ROOT),
            "WYE_SERVE__PORT": "0",
            # A slow machine is not an overloaded server.
            "WYE_SERVE__DEADLINE_MS": "60000",
            **(settings or {}),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            encoding="utf-8",
        )
        self._lines: list[str] = []
        # Read all the time: a pipe that is full would stop the server.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = ""
        until = time.monotonic() + PATIENCE
        try:
            while not (self.url and answers(self.url)):
                self.url = next((m[1] for m in map(_LISTENS.search, self._lines) if m), "")
                assert self.process.poll() is None, self.said
                assert time.monotonic() < until, self.said
                time.sleep(0.02)
        except BaseException:
            self.kill()
            raise

    @property
    def said(self) -> str:
        return "\n".join(self._lines)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines if line.startswith("{")]

    def stop(self) -> int:
        self.process.terminate()
        return self._ended()

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        if self.process.stderr:
            self.process.stderr.close()
        return code

    def _read(self) -> None:
        if self.process.stderr:
            self._lines.extend(line.rstrip() for line in self.process.stderr)


def answers(url: str, path: str = "/ready") -> bool:
    try:
        return httpx.get(f"{url}{path}", timeout=PATIENCE).status_code == 200
    except httpx.TransportError:
        return False


class LocalServer:
    """An HTTP server in a thread of its own, at a free port of this machine."""

    def __init__(
        self, answer: Callable[[BaseHTTPRequestHandler, bytes], None], version: str = "HTTP/1.0"
    ) -> None:
        """Start it; `answer` is given each request with its body, and replies, as by `send`."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = version

            def do_POST(self) -> None:
                answer(self, self.rfile.read(int(self.headers.get("content-length", 0))))

            do_GET = do_POST  # noqa: N815 - as the library calls it

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def send(to: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    to.send_response(status)
    for name, value in {**headers, "content-length": str(len(body))}.items():
        to.send_header(name, value)
    to.end_headers()
    to.wfile.write(body)


@contextmanager
def inside(app: FastAPI) -> Iterator[TestClient]:
    """A client of a server in this process, once it is ready."""
    with TestClient(app, base_url="http://localhost") as client:
        until(lambda: client.get("/ready").status_code == 200)
        yield client


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        until(lambda: answers(url))
        yield url
    finally:
        server.should_exit = True
        thread.join()
