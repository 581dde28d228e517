"""A `wye` under attack: its commands, a server, and what stands beside it; all from outside.

Nothing of the program is imported, so any commit can be attacked by the path of its `wye`.
"""

import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil

from benchmarks.harness import BenchmarkError

START = 180.0
"""Seconds for a server to be ready; models are loaded on a busy machine."""
QUICK = {"question": "Which bridge crosses the river?", "route": "lexical", "k": 3}
"""A question that needs no model."""

_TOWNS = ("Mostar", "London", "Vienna", "Prague", "Ulm", "Bern", "Lyon", "Turin", "Oslo", "Porto")
_SCOPES = {"admin": "read,write,admin", "reader": "read", "hog": "read", "boss": "read"}
# Python loads it before anything else: the clock of a program stands where a file says.
_CLOCK = """\
import time
from pathlib import Path

_file, _now = Path(__file__).with_name("seconds"), time.time

def _shifted():
    return _now() + (float(_file.read_text() or 0) if _file.exists() else 0.0)

time.time = _shifted
time.time_ns = lambda: int(_shifted() * 1e9)
"""


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """What came of an attack: whether it was held off, and what was seen."""

    held: bool
    seen: str


class AttackedServer:
    """A `wye serve` in a process group of its own, ready.

    Attributes:
        url: Where it listens.
        index: What it serves; its own copy.
        lines: What it has logged.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], index: Path) -> None:
        """Start it; `wait` until it is ready."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.index = index
        self.lines: list[str] = []
        words = ["serve", "--index", str(index), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self, seconds: float = START) -> None:
        """Until it is ready.

        Raises:
            BenchmarkError: It ended, or was not in time.
        """
        end = time.monotonic() + seconds
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                said = "\n".join(self.lines[-5:])
                raise BenchmarkError(f"wye serve ended or was not ready: {said}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        """Whether it says so."""
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200
        return False

    def kill(self) -> None:
        """End it and all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def family(self) -> list[psutil.Process]:
        """Processes of its group that live."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if os.getpgid(process.pid) == self.process.pid and not is_dead:
                    found.append(process)
        return found

    def memory_mb(self) -> float:
        """Of its first process."""
        return float(psutil.Process(self.process.pid).memory_info().rss / 2**20)

    @contextmanager
    def files_up_to(self, most: int) -> Iterator[None]:
        """As on a disk without room: no file can be written beyond so many bytes."""
        process = psutil.Process(self.process.pid)
        _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most, hard))
        try:
            yield
        finally:
            process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))

    def connect(self, timeout: float = 5.0) -> socket.socket:
        """A connection of bytes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def _read(self) -> None:
        if self.process.stderr:
            with self.process.stderr as stream:
                self.lines.extend(line.rstrip("\n") for line in stream)


class Generator:
    """A language model's endpoint that replies as it is told to.

    Attributes:
        url: To be named in WYE_GENERATOR__URL.
        reply: Is given the open request, and writes.
        asked: Bodies that it was sent.
    """

    def __init__(self) -> None:
        """Listen, in a thread of its own."""
        self.asked: list[dict[str, Any]] = []
        self.reply: Callable[[http.server.BaseHTTPRequestHandler], None] = say("Yes [1].")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                with suppress(OSError):
                    outer.reply(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def begin(request: http.server.BaseHTTPRequestHandler) -> None:
    """Send the head of a stream."""
    request.send_response(200)
    request.send_header("content-type", "text/event-stream")
    request.end_headers()


def event(value: object) -> bytes:
    """One of a stream."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def say(text: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """A reply as it should be."""

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        begin(request)
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
        request.wfile.write(event({"choices": [choice]}) + b"data: [DONE]\n\n")

    return reply


@dataclass(slots=True)
class Target:
    """One program under attack.

    Attributes:
        command: Of the program `wye`.
        folder: Scratch, deleted afterwards.
        keys: Name -> API key of the shared server.
    """

    command: Sequence[str]
    folder: Path
    keys: dict[str, str] = field(default_factory=dict)
    generator: Generator = field(default_factory=Generator)
    _shared: AttackedServer | None = None
    _copies: int = 0

    def __post_init__(self) -> None:
        """Index a dozen documents, and make keys."""
        corpus = self.folder / "corpus.jsonl"
        rows = (
            {
                "_id": f"town-{n:02d}",
                "title": f"{town} Bridge",
                "text": f"The bridge of {town} crosses the river. Anna Keller of "
                f"{_TOWNS[n - 1]} opened it in {1800 + n}.",
                "metadata": {"acl": "public"},
            }
            for n, town in enumerate(_TOWNS)
        )
        corpus.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        for name in ("clock", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "clock" / "sitecustomize.py").write_text(_CLOCK, encoding="utf-8")
        made = self.run("index", str(corpus), "--index", str(self.folder / "first"), seconds=START)
        if made.returncode:
            raise BenchmarkError(f"'{self.command[0]}' makes no index: {made.stderr[-300:]}")
        for name, scopes in _SCOPES.items():
            words = ["keys", "new", "--name", name, "--scopes", scopes]
            made = self.run(*words, "--file", str(self.keys_file))
            self.keys[name] = next(w for w in made.stdout.split() if w.startswith("wye_"))

    @property
    def keys_file(self) -> Path:
        """Of the shared server."""
        return self.folder / "keys"

    @property
    def request_log(self) -> Path:
        """Of the shared server."""
        return self.folder / "requests.jsonl"

    @property
    def temporary(self) -> Path:
        """The temporary folder of all that runs."""
        return self.folder / "tmp"

    def shift_clock(self, seconds: float) -> None:
        """Move the clock of the shared server."""
        (self.folder / "clock" / "seconds").write_text(str(seconds), encoding="utf-8")

    def index(self) -> Path:
        """A fresh copy of the index."""
        self._copies += 1
        copy = self.folder / f"index-{self._copies}"
        shutil.copytree(self.folder / "first", copy)
        return copy

    def run(self, *words: str, seconds: float = 90.0) -> "subprocess.CompletedProcess[str]":
        """A command, until it ends or is killed with all that it started (exit code -9)."""
        with subprocess.Popen(
            [*self.command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment({}),
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    @contextmanager
    def serve(self, files: int | None = None, **settings: str) -> Iterator[AttackedServer]:
        """A server of its own, perhaps not ready, with settings such as SERVE__WORKERS.

        It may open so many files.
        """
        command = [*self.command]
        if files is not None:
            command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        server = AttackedServer(command, self._environment(settings), self.index())
        try:
            yield server
        finally:
            server.kill()

    def ready(self) -> AttackedServer:
        """The shared server, begun anew where it has not survived.

        It has keys, logs as text, a request log and a generator.
        """
        if self._shared is not None and not self._shared.is_ready():
            with suppress(BenchmarkError):
                self._shared.wait(20)
        if self._shared is None or not self._shared.is_ready():
            self.stop()
            settings = {
                "SERVE__KEYS_FILE": str(self.keys_file),
                "SERVE__LOGS": "text",
                "SERVE__REFRESH_SECONDS": "0.2",
                "SERVE__REQUEST_LOG": str(self.request_log),
                "GENERATOR__URL": self.generator.url,
                "GENERATOR__MODEL": "tiny",
                "GENERATOR__TIMEOUT_SECONDS": "3",
            }
            self._shared = AttackedServer(self.command, self._environment(settings), self.index())
            self._shared.wait()
        return self._shared

    def stop(self) -> None:
        """End the shared server."""
        if self._shared is not None:
            self._shared.kill()
            self._shared = None

    def close(self) -> None:
        """End all."""
        self.stop()
        self.generator.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "admin",
        timeout: float = 60.0,
        server: AttackedServer | None = None,
        **options: Any,  # noqa: ANN401
    ) -> tuple[int, str]:
        """Status and text of a reply of the shared server, or of another; 0 without a reply."""
        headers = dict(options.pop("headers", {}))
        if key is not None:
            headers["authorization"] = f"Bearer {self.keys[key]}"
        url = (server or self.ready()).url + path
        try:
            reply = httpx.request(method, url, headers=headers, timeout=timeout, **options)
        except httpx.HTTPError as error:
            return 0, type(error).__name__
        return reply.status_code, reply.text

    def put(self, id_: str, text: str, **fields: object) -> int:
        """Store a document whose id is as in a URL; the status."""
        body = {"text": text, **fields}
        return self.send("PUT", f"/v1/documents/{id_}", json=body)[0]

    def has_ended(self, job: str, seconds: float = 60.0) -> bool:
        """Whether a job does in so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, text = self.send("GET", f"/v1/jobs/{job}")
            if status == 200 and json.loads(text)["state"] not in ("queued", "running"):
                return True
            time.sleep(0.2)
        return False

    @contextmanager
    def probing(self, body: Mapping[str, object] = QUICK) -> Iterator[list[tuple[float, int]]]:
        """Ask as another reader all the while; seconds and status of each reply."""
        server, seen, done = self.ready(), list[tuple[float, int]](), threading.Event()

        def probe() -> None:
            while not done.wait(0.1):
                started = time.monotonic()
                options = {"key": "reader", "server": server, "timeout": 20.0, "json": body}
                status, _ = self.send("POST", "/v1/retrieve", **options)  # type: ignore[arg-type]
                seen.append((time.monotonic() - started, status))

        thread = threading.Thread(target=probe)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join()

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("WYE_")}
        paths = [str(self.folder / "clock"), *filter(None, [own.get("PYTHONPATH")])]
        return {
            **own,
            "PYTHONPATH": os.pathsep.join(paths),
            "TMPDIR": str(self.temporary),
            **{f"WYE_{name}": value for name, value in settings.items()},
        }


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether something holds within so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def longest(seen: Sequence[tuple[float, int]]) -> tuple[float, dict[int, int]]:
    """Of probes: the longest wait in seconds, and status -> how many."""
    statuses: dict[int, int] = {}
    for _, status in seen:
        statuses[status] = statuses.get(status, 0) + 1
    return max((taken for taken, _ in seen), default=0.0), statuses


@contextmanager
def attacked(command: Sequence[str], folder: Path) -> Iterator[Target]:
    """A program, ready to be attacked."""
    with ExitStack() as stack:
        target = Target(command, folder)
        stack.callback(target.close)
        yield target
