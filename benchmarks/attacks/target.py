"""A `wye` under attack, used from outside: its commands, a server, and a language model's endpoint.

The program is not imported, so any commit can be attacked by the path of its `wye`.
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
"""Seconds that a server may take to be ready; a busy machine loads models slowly."""
QUICK = {"question": "Which bridge crosses the river?", "route": "lexical", "k": 3}
"""A question that needs no model."""

_TOWNS = ("Mostar", "London", "Vienna", "Prague", "Ulm", "Bern", "Lyon", "Turin", "Oslo", "Porto")
_SCOPES = {"admin": "read,write,admin", "reader": "read", "hog": "read", "boss": "read"}
# Python loads this first, as sitecustomize: it shifts the program's clock as a file says.
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
    """The outcome of an attack: whether the program held, and what was seen."""

    held: bool
    seen: str


class AttackedServer:
    """A `wye serve` in a process group of its own.

    Attributes:
        url: Its address.
        index: Its own copy of the index.
        lines: The lines of its log.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], index: Path) -> None:
        """Start the server; `wait` waits until it is ready."""
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
        """Wait until the server is ready.

        Raises:
            BenchmarkError: It ended, or was not ready in time.
        """
        end = time.monotonic() + seconds
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                said = "\n".join(self.lines[-5:])
                raise BenchmarkError(f"wye serve ended or was not ready: {said}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        """Whether /ready says so."""
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200
        return False

    def kill(self) -> None:
        """Kill the server and everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def family(self) -> list[psutil.Process]:
        """Living processes of its group."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if os.getpgid(process.pid) == self.process.pid and not is_dead:
                    found.append(process)
        return found

    def memory_mb(self) -> float:
        """Resident memory of its first process in MB."""
        return float(psutil.Process(self.process.pid).memory_info().rss / 2**20)

    @contextmanager
    def files_up_to(self, most: int) -> Iterator[None]:
        """Simulate a full disk: no file can grow beyond `most` bytes."""
        process = psutil.Process(self.process.pid)
        _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most, hard))
        try:
            yield
        finally:
            process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))

    def connect(self, timeout: float = 5.0) -> socket.socket:
        """Open a plain TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def _read(self) -> None:
        if self.process.stderr:
            with self.process.stderr as stream:
                self.lines.extend(line.rstrip("\n") for line in stream)


class Generator:
    """A language model's endpoint with replies to choose.

    Attributes:
        url: Value for WYE_GENERATOR__URL.
        reply: Called with the open request, to write the reply.
        asked: Bodies of its requests.
    """

    def __init__(self) -> None:
        """Start to listen, in a thread of its own."""
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
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def begin(request: http.server.BaseHTTPRequestHandler) -> None:
    """Send the head of a stream."""
    request.send_response(200)
    request.send_header("content-type", "text/event-stream")
    request.end_headers()


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def say(text: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    """A correct streamed reply with this text."""

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        begin(request)
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
        request.wfile.write(event({"choices": [choice]}) + b"data: [DONE]\n\n")

    return reply


@dataclass(slots=True)
class Target:
    """One program under attack.

    Attributes:
        command: The command `wye` to attack.
        folder: A scratch folder, which is deleted afterwards.
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
        """The shared server's file of keys."""
        return self.folder / "keys"

    @property
    def request_log(self) -> Path:
        """The shared server's request log."""
        return self.folder / "requests.jsonl"

    @property
    def temporary(self) -> Path:
        """The temporary folder of all processes."""
        return self.folder / "tmp"

    def shift_clock(self, seconds: float) -> None:
        """Shift the shared server's clock."""
        (self.folder / "clock" / "seconds").write_text(str(seconds), encoding="utf-8")

    def index(self) -> Path:
        """A fresh copy of the index."""
        self._copies += 1
        copy = self.folder / f"index-{self._copies}"
        shutil.copytree(self.folder / "first", copy)
        return copy

    def run(self, *words: str, seconds: float = 90.0) -> "subprocess.CompletedProcess[str]":
        """Run a command; one that takes too long is killed with all it started (exit code -9)."""
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
        """Start a separate server, perhaps not ready yet.

        Args:
            files: Most files that it may open.
            settings: Settings such as SERVE__WORKERS.
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
        """The shared server, started again if it died.

        It has keys, a text log, a request log and a generator.
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
        """End the shared server and the generator."""
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
        """Status and text of a reply of the shared server, or another; status 0 without a reply."""
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
        """Store a document, its id encoded as in a URL; returns the status."""
        body = {"text": text, **fields}
        return self.send("PUT", f"/v1/documents/{id_}", json=body)[0]

    def has_ended(self, job: str, seconds: float = 60.0) -> bool:
        """Whether a job ends within so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status, text = self.send("GET", f"/v1/jobs/{job}")
            if status == 200 and json.loads(text)["state"] not in ("queued", "running"):
                return True
            time.sleep(0.2)
        return False

    @contextmanager
    def probing(self, body: Mapping[str, object] = QUICK) -> Iterator[list[tuple[float, int]]]:
        """Ask continually as another reader; the list fills with seconds and status of replies."""
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
    """Wait for a condition; returns whether it held within so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def longest(seen: Sequence[tuple[float, int]]) -> tuple[float, dict[int, int]]:
    """The longest wait of probes in seconds, and status -> number of replies."""
    statuses: dict[int, int] = {}
    for _, status in seen:
        statuses[status] = statuses.get(status, 0) + 1
    return max((taken for taken, _ in seen), default=0.0), statuses


@contextmanager
def attacked(command: Sequence[str], folder: Path) -> Iterator[Target]:
    """A program to attack, whose processes are ended afterwards."""
    with ExitStack() as stack:
        target = Target(command, folder)
        stack.callback(target.close)
        yield target
