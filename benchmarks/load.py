"""`wye serve` under load: latency alone, throughput of many clients, stages, and too much to do.

python -m benchmarks.load INDEX QUESTIONS [--routes auto,dense,graph] [--clients 1,64]

Starts a server of its own and asks it over HTTP, as clients do; it sees nothing of its inside but
/metrics. Client and server share the machine's processors, so figures are those of both.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2 as httpx
import numpy as np

from benchmarks.report import Table, parser, percentiles, print_header

PATIENCE = 180.0
REFUSED = (429, 503)

_HEAD = (
    "POST /v1/retrieve HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    "content-length: {length}\r\n\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BATCH = re.compile(rb'"batch": ?(\d+)')
_STAGE = re.compile(r'^wye_stage_seconds_(sum|count)\{stage="(\w+)"\} (\S+)$', re.MULTILINE)


@dataclass(slots=True)
class Sample:
    """What came of many requests.

    Attributes:
        seconds: Status -> how long each reply with it took.
        span: Seconds from the first request to the last reply.
        batch: Size of the batch of each answered question.
    """

    seconds: dict[int, list[float]] = field(default_factory=dict)
    span: float = 0.0
    batch: list[int] = field(default_factory=list)

    def add(self, status: int, seconds: float) -> None:
        """Count a reply."""
        self.seconds.setdefault(status, []).append(seconds)

    @property
    def answered(self) -> list[float]:
        """Seconds of the answers."""
        return self.seconds.get(200, [])

    @property
    def refused(self) -> list[float]:
        """Seconds of those told to come back."""
        return [taken for status in REFUSED for taken in self.seconds.get(status, [])]

    @property
    def failed(self) -> int:
        """How many replies were neither."""
        kept = len(self.answered) + len(self.refused)
        return sum(map(len, self.seconds.values())) - kept

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.answered) / self.span if self.span else 0.0


class Client:
    """Asks one server.

    Questions go over plain connections that are kept: an HTTP library's client spends as much
    processor time on a request as the server does on refusing it, which on the same machine would
    be measured as the server's.
    """

    def __init__(self, url: str) -> None:
        """Connect to nothing yet."""
        self._http = httpx.AsyncClient(base_url=url, timeout=PATIENCE)
        self._host = httpx.URL(url)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def close(self) -> None:
        """End all connections."""
        await self._http.aclose()
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()

    async def ask(self, sample: Sample, body: Mapping[str, object]) -> None:
        """Ask one question and note what came of it; a connection that breaks is status 0."""
        content = json.dumps(body).encode()
        request = _HEAD.format(host=self._host.netloc.decode(), length=len(content)).encode()
        started = time.perf_counter()
        try:
            reader, writer = await self._connection()
            writer.write(request + content)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            reply = await reader.readexactly(int(length[1]) if length else 0)
        except (OSError, asyncio.IncompleteReadError):
            sample.add(0, time.perf_counter() - started)
            return
        status = int(head.split(b" ", 2)[1])
        sample.add(status, time.perf_counter() - started)
        self._idle.append((reader, writer))
        if status == 200:
            found = _BATCH.search(reply)
            sample.batch.append(int(found[1]) if found else 0)

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One that is kept, unless the server has closed it for having been idle, or a new one."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host.host, self._host.port)

    async def stages(self) -> dict[str, tuple[float, float]]:
        """Stage -> seconds spent on it so far, and questions."""
        text = (await self._http.get("/metrics")).text
        found: dict[str, dict[str, float]] = {}
        for kind, stage, value in _STAGE.findall(text):
            found.setdefault(stage, {})[kind] = float(value)
        return {stage: (both["sum"], both["count"]) for stage, both in found.items()}

    async def has_router(self) -> bool:
        """Whether the server can choose routes."""
        models = (await self._http.get("/v1/models")).json()["data"]
        return any(model["id"] == "wye-auto" for model in models)


async def closed_loop(
    client: Client, bodies: Sequence[Mapping[str, object]], clients: int, seconds: float
) -> Sample:
    """So many clients, each asking its next question when it has the answer to the last."""
    sample = Sample()
    start = time.perf_counter()

    async def one(place: int) -> None:
        while time.perf_counter() - start < seconds:
            await client.ask(sample, bodies[place % len(bodies)])
            place += clients

    await asyncio.gather(*(one(number) for number in range(clients)))
    sample.span = time.perf_counter() - start
    return sample


async def open_loop(
    client: Client, bodies: Sequence[Mapping[str, object]], rate: float, seconds: float
) -> Sample:
    """So many questions a second, whether or not the server keeps up."""
    sample = Sample()
    start = time.perf_counter()
    tasks = []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        body = bodies[number % len(bodies)]
        tasks.append(asyncio.create_task(client.ask(sample, body)))
    await asyncio.gather(*tasks)
    sample.span = time.perf_counter() - start
    return sample


async def spent(client: Client, work: Awaitable[Sample]) -> tuple[Sample, dict[str, float]]:
    """A sample, and milliseconds a question by stage while it was taken."""
    before = await client.stages()
    sample = await work
    after = await client.stages()
    return sample, {
        stage: 1000 * (total - before.get(stage, (0.0, 0.0))[0]) / (count - earlier)
        for stage, (total, count) in after.items()
        if count > (earlier := before.get(stage, (0.0, 0.0))[1])
    }


@contextmanager
def server(index: Path, *options: str) -> Iterator[str]:
    """A server of its own; its address, once it is ready.

    Raises:
        RuntimeError: It ended, or was not ready in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from service.cli import main; main()", "serve"]
    command += ["--index", str(index), "--port", str(port), *options]
    log = open(os.devnull, "wb")  # noqa: PTH123, SIM115 - not a file of ours
    with log, subprocess.Popen(command, stderr=log) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(process, url)
            yield url
        finally:
            process.terminate()


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        if process.poll() is not None:
            raise RuntimeError(f"wye serve ended with {process.returncode}; run it by hand to see")
        try:
            if httpx.get(f"{url}/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"wye serve was not ready within {PATIENCE:.0f} s")


def read_questions(path: Path) -> list[str]:
    """Questions of a BEIR folder, or of a file with one a line."""
    if path.is_dir():
        lines = (path / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["text"] for line in lines]
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


async def run(url: str, questions: Sequence[str], given: argparse.Namespace) -> None:
    """Print every table."""
    client = Client(url)
    try:
        routes = given.routes.split(",")
        if "auto" in routes and not await client.has_router():
            print("# No router is installed, so the route auto is left out.\n")
            routes.remove("auto")
        columns = ["route", "clients", "answers", "errors", "per s", "p50 ms", "p95 ms", "p99 ms"]
        table = Table([*columns, "batch"], width=10)
        spans: dict[str, dict[str, float]] = {}
        capacity = 0.0
        for route in routes:
            bodies = [{"question": text, "route": route, "k": given.k} for text in questions]
            await closed_loop(client, bodies, 4, 1.0)
            for clients in map(int, given.clients.split(",")):
                work = closed_loop(client, bodies, clients, given.seconds)
                sample, stages = await spent(client, work)
                spans[f"{route}, {clients}"] = stages
                errors = float(sample.failed + len(sample.refused))
                cells = [float(clients), float(len(sample.answered)), errors, sample.rate]
                batch = float(np.mean(sample.batch)) if sample.batch else float("nan")
                table.row(route, *cells, *percentiles(sample.answered or [float("nan")]), batch)
                capacity = max(capacity, sample.rate) if route == routes[0] else capacity
        _print_stages(spans)
        await _overload(client, questions, routes[0], given, capacity)
    finally:
        await client.close()


def _print_stages(spans: Mapping[str, Mapping[str, float]]) -> None:
    stages = list(dict.fromkeys(stage for found in spans.values() for stage in found))
    print("\nMilliseconds a question by stage, where it was run; a batch's time is shared equally.")
    table = Table(["route, clients", *stages], width=16)
    for name, found in spans.items():
        table.row(name, *(found.get(stage, float("nan")) for stage in stages))


async def _overload(
    client: Client, questions: Sequence[str], route: str, given: argparse.Namespace, capacity: float
) -> None:
    rate = given.overload * capacity
    bodies = [
        {"question": text, "route": route, "k": given.k, "deadline_ms": given.deadline_ms}
        for text in questions
    ]
    sample = await open_loop(client, bodies, rate, given.seconds)
    print(
        f"\nOverload: {rate:.0f} questions a second over {route}, {given.overload:g} times what "
        f"it can do, with {given.deadline_ms} ms each."
    )
    table = Table(["replies", "count", "p50 ms", "p95 ms", "p99 ms", "max ms"], width=10)
    for status, seconds in sorted(sample.seconds.items()):
        table.row(str(status), float(len(seconds)), *percentiles(seconds), 1000 * max(seconds))
    late = sum(taken > given.deadline_ms / 1000 for taken in sample.answered)
    print(
        f"{late} of {len(sample.answered)} answers came after their deadline; {sample.rate:.0f}/s."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run it.

    Returns:
        0, or 2 for an index or questions that cannot be used.
    """
    options = parser(__doc__)
    options.add_argument("index", type=Path, help="folder of an index")
    options.add_argument("questions", type=Path, help="BEIR folder, or a file with one a line")
    options.add_argument("--url", help="of a server that runs already, instead of one of its own")
    options.add_argument("--routes", default="auto,dense,graph", help="the first is overloaded")
    options.add_argument("--clients", default="1,64")
    options.add_argument("--seconds", type=float, default=10.0, help="for each row (default 10)")
    options.add_argument("-k", type=int, default=5)
    options.add_argument("--overload", type=float, default=4.0, help="times its capacity")
    options.add_argument("--deadline-ms", type=int, default=2000, help="while overloaded")
    given = options.parse_args(argv)
    try:
        questions = read_questions(given.questions)
    except (OSError, ValueError, KeyError) as error:
        print(f"{given.questions} holds no questions ({error}).", file=sys.stderr)
        return 2
    np.random.default_rng(given.seed).shuffle(questions)
    data = f"{given.index.name}, {len(questions):,} questions"
    print_header("wye serve under load", seed=given.seed, data=data)
    try:
        if given.url:
            asyncio.run(run(given.url, questions, given))
        else:
            with server(given.index) as url:
                asyncio.run(run(url, questions, given))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
