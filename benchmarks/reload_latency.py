"""What a write costs those who search: building the next version, and serving meanwhile.

First the arms of a version are built from nothing, and after a version that differs in one passage.
Then a server of its own over a copy is asked by some clients, with and without documents being put.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2 as httpx

from backends.types import Passage
from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.load import Client, closed_loop, server
from router.session import Session, Snapshot
from router.settings import load_settings

ARMS = ("dense", "lexical", "graph")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add data, clients and writes."""
    harness.add_data(parser)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each sample (default 20)")
    parser.add_argument("--rate", type=float, default=1.0, help="documents a second (default 1)")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    questions = harness.read_questions(given.dataset)[:500]
    data = f"{harness.data_name(given)}, {len(questions)} questions, {given.clients} clients"
    harness.print_header("From a write to the version that is searched", seed=None, data=data)
    with harness.index_of(given, copied=True) as folder:
        print_builds(folder, changes=3)
        print()
        with server(folder) as url:
            asyncio.run(print_service(url, questions, given))


def document(number: int) -> Passage:
    """A short one, which names something that is new and something that is not."""
    text = f"Town{number} has a bridge. It was opened in {1900 + number % 100} near London."
    return Passage(f"written-{number}", f"Bridge {number}", text)


def build(table: Table, name: str, make: Callable[[], Snapshot]) -> Snapshot:
    """Build a version part by part, and print milliseconds."""
    started = time.perf_counter()
    snapshot = make()
    laps = [time.perf_counter() - started]
    for arm in ARMS:
        started = time.perf_counter()
        getattr(snapshot, arm)
        laps.append(time.perf_counter() - started)
    table.row(name, *(1000 * lap for lap in (*laps, sum(laps))))
    return snapshot


def print_builds(folder: Path, changes: int) -> None:
    """Milliseconds to build a version from nothing, and after each of some changes."""
    table = Table(["version built", "corpus ms", *(f"{arm} ms" for arm in ARMS), "all ms"])
    with Session.open(load_settings(), folder) as session:
        index, settings = session.index, session.settings
        snapshot = build(table, "from nothing", lambda: Snapshot(index, settings))
        for number in range(changes):
            session.ingest([document(number)])
            index.refresh()
            before = snapshot
            snapshot = build(
                table,
                "after one more",
                lambda: Snapshot(index, settings, before),  # noqa: B023
            )


async def put(url: str, rate: float, seconds: float) -> tuple[list[float], list[float]]:
    """Put documents one after the other; seconds until each is stored, and until it is found."""
    stored: list[float] = []
    found: list[float] = []
    start = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            passage = document(1_000 + number)
            started = time.perf_counter()
            body = {"title": passage.title, "text": passage.text}
            reply = (await http.put(f"/v1/documents/{passage.id}", json=body)).raise_for_status()
            stored.append(time.perf_counter() - started)
            version = reply.json()["index_version"]
            question = {"question": passage.title, "route": "lexical", "k": 1}
            while True:
                answer = (await http.post("/v1/retrieve", json=question)).raise_for_status()
                if answer.json()["index"]["version"] >= version:
                    break
                await asyncio.sleep(0.02)
            found.append(time.perf_counter() - started)
    return stored, found


async def print_service(url: str, questions: Sequence[str], given: argparse.Namespace) -> None:
    """Searches with and without writes, and how long a written document takes."""
    client = Client(url)
    bodies = [{"question": text, "route": "fusion", "k": 10} for text in questions]
    try:
        await closed_loop(client, bodies, given.clients, min(2.0, given.seconds))
        quiet = await closed_loop(client, bodies, given.clients, given.seconds)
        busy, (stored, found) = await asyncio.gather(
            closed_loop(client, bodies, given.clients, given.seconds),
            put(url, given.rate, given.seconds),
        )
    finally:
        await client.close()
    table = Table(["searching", "answers", "errors", "per s", "p50 ms", "p95 ms", "p99 ms"])
    for name, sample in (("nothing is written", quiet), (f"{given.rate:g} document/s", busy)):
        counts = len(sample.answered), sample.failed + len(sample.refused)
        table.row(name, *counts, sample.rate, *harness.percentiles(sample.answered))
    print()
    table = Table(["a document", "count", "p50 ms", "p95 ms", "p99 ms"])
    for name, seconds in (("until it is stored", stored), ("until it is found", found)):
        table.row(name, len(seconds), *harness.percentiles(seconds))
