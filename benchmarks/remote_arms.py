"""A remote graph arm with a delay and a price: what routing saves, and what faults do.

The arm is another `wye serve` over the same index, behind a proxy that delays replies as long as a
GraphRAG server takes, and fails on demand. The route fusion always asks it; `auto` asks only if the
router wants it. Quality is nDCG@10, with the 95 % bootstrap interval of the paired difference to
always asking. In the table of faults, each call meets one with the probability --faulty; 503 and
504 are replies of a gateway that had no time for its own arms. Delays are scaled by --scale.
"""

import argparse
import asyncio
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import httpx2
import numpy as np

from benchmarks import harness
from benchmarks.harness import PATIENCE, ServerProcess, Table
from wye.backends.types import Float64
from wye.training.data import Dataset, read_dataset

DELAY = 3.0
"""Seconds that a GraphRAG server takes to answer a question."""
PRICE = 0.02
FAULTS = ("refused", "hanging", "slow", "garbled", "busy", "broken")
DEPTH = 10
_BUSY = (503, 504)
_HEAD = "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for dataset, index, split, and the arm's behaviour."""
    harness.add_data(parser)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, help="most questions")
    parser.add_argument("--scale", type=float, default=1.0, help=f"factor of a {DELAY:g} s delay")
    parser.add_argument("--clients", type=int, default=8, help="number of concurrent clients")
    parser.add_argument("--faulty", type=float, default=0.5, help="share of calls with a fault")


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    dataset = read_dataset(args.dataset, args.split, args.limit)
    with harness.index_of(args) as folder:
        harness.print_header(
            "A remote graph arm",
            seed=args.seed,
            data=f"{dataset.name} ({dataset.split}), {len(dataset.questions)} questions, "
            f"{args.clients} clients, a delay of {DELAY * args.scale:g} s",
        )
        with ServerProcess.of(folder) as arm:
            asyncio.run(_measure(args, dataset, folder, arm.url))


async def _measure(args: argparse.Namespace, dataset: Dataset, index: Path, arm: str) -> None:
    async with Proxy(arm, DELAY * args.scale, args.seed) as proxy:
        with tempfile.TemporaryDirectory(prefix="wye-bench-") as scratch:
            file = Path(scratch) / "wye.toml"
            file.write_text(declared(proxy.url, round(2000 * DELAY * args.scale)), "utf-8")
            with ServerProcess.of(index, "--arms", str(file)) as gateway:
                url = gateway.url
                await _print_saved(args, dataset, url)
                proxy.faulty = args.faulty
                print()
                await _print_faults(args, dataset, url, proxy)


def declared(url: str, timeout_ms: int) -> str:
    """The text of the gateway's arms file."""
    return (
        f'[arms.remote]\nkind = "http"\nrole = "graph"\nurl = "{url}/v1/retrieve"\n'
        'request = {question = "{question}", route = "graph", k = "{k}", filter = "{filter}"}\n'
        'hits = "/passages"\nid = "/id"\ntext = "/text"\ntitle = "/title"\nscore = "/score"\n'
        'metadata = "/metadata"\nscores = "mass"\nsame_ids = true\nopen_seconds = 0.5\n'
        f"timeout_ms = {max(timeout_ms, 500)}\nprice = {PRICE}\nmax_concurrency = 64\n"
    )


def called(reply: httpx2.Response) -> bool:
    """Whether the arm was asked."""
    return bool(reply.json().get("arms", {}).get("remote", {}).get("remote", {}).get("calls"))


async def ask_all(
    url: str, questions: Sequence[str], clients: int, **fields: object
) -> list[httpx2.Response]:
    """Ask every question once with several clients; replies in the questions' order."""
    gate = asyncio.Semaphore(clients)

    async def ask(client: httpx2.AsyncClient, question: str) -> httpx2.Response:
        async with gate:
            body = {"question": question, "k": DEPTH, **fields}
            return await client.post("/v1/retrieve", json=body)

    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return await asyncio.gather(*(ask(client, question) for question in questions))


async def _print_saved(args: argparse.Namespace, dataset: Dataset, url: str) -> None:
    texts = [question.text for question in dataset.questions]
    deadline = min(round(4000 * DELAY * args.scale + 10_000), 60_000)
    for route in ("hybrid", "fusion"):  # load what is loaded on first use
        await ask_all(url, texts[: 2 * args.clients], args.clients, route=route)
    table = Table(["", "calls", "spent", "saved", "mean ms", "p95 ms", "nDCG@10", "difference"])
    baseline: Float64 | None = None
    for name, route in {"always asked": "fusion", "auto": "auto", "never asked": "hybrid"}.items():
        replies = await ask_all(url, texts, args.clients, deadline_ms=deadline, route=route)
        bodies = [reply.json() for reply in replies]
        hits = ([hit["id"] for hit in body.get("passages", [])] for body in bodies)
        values = harness.measured(dataset, hits, "nDCG@10")
        baseline = values if baseline is None else baseline
        seconds = [reply.elapsed.total_seconds() for reply in replies]
        table.row(
            name,
            sum(map(called, replies)),
            sum(body.get("spent", 0.0) for body in bodies),
            sum(body.get("saved", 0.0) for body in bodies),
            1000 * float(np.mean(seconds)),
            1000 * float(np.percentile(seconds, 95)),
            f"{values.mean():.4f}",
            *harness.intervals(values - baseline, np.zeros_like(values), seed=args.seed),
        )


async def _print_faults(
    args: argparse.Namespace, dataset: Dataset, url: str, proxy: "Proxy"
) -> None:
    texts = [question.text for question in dataset.questions]
    deadline = 2 * DELAY * args.scale + 1.0
    table = Table(["fault", "answered", "5xx", "503/504", "late", "missing", "untold", "mean ms"])
    for fault in (*FAULTS, "any"):
        proxy.faults = FAULTS if fault == "any" else (fault,)
        replies = await ask_all(
            url, texts, args.clients, route="auto", deadline_ms=round(1000 * deadline)
        )
        seconds = np.array([reply.elapsed.total_seconds() for reply in replies])
        answered = [reply for reply in replies if reply.json().get("passages")]
        complete = [reply for reply in answered if not reply.json()["missing"]]
        # The arm's list is missing, and the reply does not say so.
        untold = [r for r in complete if r.json()["route"]["path"] == "fusion" and not called(r)]
        busy = sum(reply.status_code in _BUSY for reply in replies)
        table.row(
            fault,
            f"{len(answered)}/{len(replies)}",
            sum(reply.is_server_error for reply in replies) - busy,
            busy,
            int((seconds > deadline).sum()),
            len(answered) - len(complete),
            len(untold),
            1000 * float(seconds.mean()),
        )


class Proxy:
    """Forwards requests to a server with delays and faults, in an `async with` block.

    Attributes:
        url: Its address.
        delay: Seconds before each reply.
        faulty: Share of the calls that meet a fault.
        faults: The faults to choose among.
    """

    def __init__(self, target: str, delay: float, seed: int) -> None:
        self.url = ""
        self.delay = delay
        self.faulty = 0.0
        self.faults: Sequence[str] = FAULTS
        self._random = random.Random(seed)
        self._client = httpx2.AsyncClient(base_url=target, timeout=PATIENCE)

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listening.close()
        await self._client.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while await self._answer(reader, writer):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the benchmark is over
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; returns whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, _ = head.split(" ", 2)
        length = re.search(r"\ncontent-length: *(\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        fault = self._random.choice(self.faults) if self._random.random() < self.faulty else ""
        if fault == "refused":
            return False
        if fault == "hanging":
            await reader.read()
            return False
        await asyncio.sleep(self.delay * (4 if fault == "slow" else 1))
        if fault == "broken":
            writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 10000\r\n\r\n{")
            return False
        if fault == "busy":
            return self._send(writer, 429, b"{}")
        if fault == "garbled":
            return self._send(writer, 200, b'{"passages": [{"id": 3')
        reply = await self._client.request(
            method, path, content=body, headers={"content-type": "application/json"}
        )
        return self._send(writer, reply.status_code, reply.content)

    def _send(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
        writer.write(_HEAD.format(status=status, length=len(body)).encode() + body)
        return True
