"""`wye serve` under load: latency alone, throughput of many clients, and overload.

Starts a server and asks it over HTTP, as clients do. Client and server share the machine's
processors, so figures include both. What a stage takes is in the server's /metrics.
"""

import argparse
import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np

from benchmarks import harness
from benchmarks.harness import ServerProcess, Table

REFUSED = (429, 503)

_HEAD = (
    "POST /v1/retrieve HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    "content-length: {length}\r\n\r\n"
)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Sample:
    """The results of many requests.

    Attributes:
        seconds: Status -> seconds of each reply.
        span: Seconds from the first request to the last reply.
    """

    seconds: dict[int, list[float]] = field(default_factory=dict)
    span: float = 0.0

    @property
    def answered(self) -> list[float]:
        """Seconds of the answers."""
        return self.seconds.get(200, [])

    @property
    def refused(self) -> list[float]:
        """Seconds of refusals."""
        return [taken for status in REFUSED for taken in self.seconds.get(status, [])]

    @property
    def failed(self) -> int:
        """Number of replies that are neither."""
        return sum(len(s) for status, s in self.seconds.items() if status not in (200, *REFUSED))

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.answered) / self.span if self.span else 0.0


class LoadClient:
    """A client of one server.

    It keeps plain connections open for questions. An HTTP library's client spends as much processor
    time on a request as the server does to refuse it, which on one machine would distort the
    figures.
    """

    def __init__(self, url: str) -> None:
        """Create the client, without connecting."""
        self._host = urlsplit(url)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def close(self) -> None:
        """End all connections."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()

    async def ask(self, sample: Sample, body: Mapping[str, object]) -> None:
        """Ask one question and record the result; a broken connection is status 0."""
        content = json.dumps(body).encode()
        request = _HEAD.format(host=self._host.netloc, length=len(content)).encode()
        status, started = 0, time.perf_counter()
        try:
            reader, writer = await self._connection()
            writer.write(request + content)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
            status = int(head.split(b" ", 2)[1])
            self._idle.append((reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.1)  # the server may be starting
        sample.seconds.setdefault(status, []).append(time.perf_counter() - started)

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """An open connection that the server has not closed, or else a new one."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host.hostname, self._host.port)


async def closed_loop(
    client: LoadClient, bodies: Sequence[Mapping[str, object]], clients: int, seconds: float
) -> Sample:
    """Run clients that each ask their next question once the last one is answered."""
    sample = Sample()
    start = time.perf_counter()

    async def ask_on(row: int) -> None:
        while time.perf_counter() - start < seconds:
            await client.ask(sample, bodies[row % len(bodies)])
            row += clients

    await asyncio.gather(*(ask_on(number) for number in range(clients)))
    sample.span = time.perf_counter() - start
    return sample


async def open_loop(
    client: LoadClient, bodies: Sequence[Mapping[str, object]], rate: float, seconds: float
) -> Sample:
    """Ask `rate` questions a second, whether or not the server keeps up."""
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for data, servers and load."""
    harness.add_data(parser)
    parser.add_argument("--routes", default="auto,dense,graph", help="routes; overloads the first")
    parser.add_argument("--clients", default="1,64")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds per row (default 10)")
    parser.add_argument("-k", type=int, default=5)
    parser.add_argument("--overload", type=float, default=4.0, help="factor on the capacity")
    parser.add_argument("--deadline-ms", type=int, default=2000, help="deadline while overloaded")


def run(args: argparse.Namespace) -> int:
    """Measure the server, and print the tables."""
    questions = harness.read_questions(args.dataset)
    np.random.default_rng(args.seed).shuffle(questions)
    data = f"{harness.data_name(args)}, {len(questions):,} questions"
    harness.print_header("wye serve under load", seed=args.seed, data=data)
    columns = ["route", "clients", "answers", "errors", "per s", "p50 ms", "p95 ms", "p99 ms"]
    table = Table(columns, width=12)
    with harness.index_of(args) as index, ServerProcess.of(index) as serving:
        overload = asyncio.run(measure(serving.url, questions, args, table))
    print(
        f"\nOverload: {args.overload:g} times the questions that each can answer, "
        f"with {args.deadline_ms} ms each."
    )
    print_statuses(overload, args.deadline_ms)
    return 0


async def measure(
    url: str, questions: Sequence[str], args: argparse.Namespace, table: Table
) -> Sample:
    """Measure every route with every number of clients, printing each; returns the overload."""
    client = LoadClient(url)
    routes, capacity = args.routes.split(","), 0.0
    try:
        for route in routes:
            bodies = [{"question": text, "route": route, "k": args.k} for text in questions]
            await closed_loop(client, bodies, 4, 1.0)
            for clients in map(int, args.clients.split(",")):
                sample = await closed_loop(client, bodies, clients, args.seconds)
                counts = clients, len(sample.answered), sample.failed + len(sample.refused)
                times = harness.percentiles(sample.answered or [np.nan])
                table.row(route, *counts, sample.rate, *times)
                if route == routes[0]:
                    capacity = max(capacity, sample.rate)
        bodies = [
            {"question": text, "route": routes[0], "k": args.k, "deadline_ms": args.deadline_ms}
            for text in questions
        ]
        return await open_loop(client, bodies, args.overload * capacity, args.seconds)
    finally:
        await client.close()


def print_statuses(sample: Sample, deadline_ms: int) -> None:
    """Print the latency of answers, refusals and failures; status 0 is a broken connection."""
    columns = ["status", "count", "p50 ms", "p95 ms", "p99 ms", "max ms", "late", "answers/s"]
    table = Table(columns, width=12)
    for status, seconds in sorted(sample.seconds.items()):
        late = sum(taken > deadline_ms / 1000 for taken in seconds)
        cells = [*harness.percentiles(seconds), 1000 * max(seconds), late]
        table.row(str(status), len(seconds), *cells, sample.rate if status == 200 else np.nan)
