"""What a write costs those who search: building the next version, and serving meanwhile.

python -m benchmarks.following INDEX QUESTIONS [--seconds 20] [--rate 1]

First the arms of a version are built from nothing, and after a version that differs in one passage.
Then a server of its own over a copy is asked by some clients, with and without documents being put.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx2 as httpx

from backends.store.index import Index
from backends.store.ingest import ingest
from backends.types import Passage
from benchmarks.load import Client, closed_loop, read_questions, server
from benchmarks.report import Table, parser, percentiles, print_header
from router.session import Session, Snapshot
from router.settings import load_settings

PARTS: dict[str, Callable[[Snapshot], object]] = {
    "dense": lambda snapshot: snapshot.dense,
    "lexical": lambda snapshot: snapshot.lexical,
    "graph": lambda snapshot: snapshot.graph,
}


def document(number: int) -> Passage:
    """A short one, which names something that is new and something that is not."""
    text = f"Town{number} has a bridge. It was opened in {1900 + number % 100} near London."
    return Passage(f"following-{number}", f"Bridge {number}", text)


def build(table: Table, name: str, make: Callable[[], Snapshot]) -> Snapshot:
    """Build a version part by part, and print milliseconds."""
    started = time.perf_counter()
    snapshot = make()
    laps = [time.perf_counter() - started]
    for part in PARTS.values():
        started = time.perf_counter()
        part(snapshot)
        laps.append(time.perf_counter() - started)
    snapshot.settle()
    table.row(name, *(1000 * lap for lap in (*laps, sum(laps))))
    return snapshot


def builds(folder: Path, changes: int) -> None:
    """The first table."""
    settings = load_settings()
    container = Session.open(settings, folder)
    index = container.index
    table = Table(["version built", "corpus ms", *(f"{part} ms" for part in PARTS), "all ms"])
    snapshot = build(table, "from nothing", lambda: Snapshot(index, settings))
    for number in range(changes):
        ingest(Index.open(folder), [document(number)], container.analyser)
        index.refresh()
        before = snapshot
        snapshot = build(table, "after one more", lambda: Snapshot(index, settings, before))  # noqa: B023
    container.close()


async def put(url: str, rate: float, seconds: float) -> tuple[list[float], list[float]]:
    """Put documents one after the other; seconds until each is stored, and until it is found."""
    stored: list[float] = []
    found: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for number in ticks(rate, seconds):
            await asyncio.sleep(max(0.0, number[1] - time.perf_counter()))
            passage = document(1_000 + number[0])
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


def ticks(rate: float, seconds: float) -> Iterator[tuple[int, float]]:
    """Number and moment of each document."""
    start = time.perf_counter()
    for number in range(int(rate * seconds)):
        yield number, start + number / rate


async def serve(
    url: str, questions: Sequence[str], clients: int, seconds: float, rate: float
) -> None:
    """The second table."""
    client = Client(url)
    bodies = [{"question": text, "route": "fusion", "k": 10} for text in questions]
    columns = ["searching", "answers", "errors", "per s", "p50 ms", "p95 ms", "p99 ms"]
    try:
        await closed_loop(client, bodies, clients, 2.0)
        table = Table(columns)
        quiet = await closed_loop(client, bodies, clients, seconds)
        busy, (stored, found) = await asyncio.gather(
            closed_loop(client, bodies, clients, seconds), put(url, rate, seconds)
        )
        for name, sample in (
            ("nothing is written", quiet),
            (f"{rate:g} document(s) a second", busy),
        ):
            errors = str(sample.failed + len(sample.refused))
            table.row(
                name, str(len(sample.answered)), errors, sample.rate, *percentiles(sample.answered)
            )
    finally:
        await client.close()
    print()
    table = Table(["a document", "count", "p50 ms", "p95 ms", "p99 ms"])
    for name, sample_ in (("until it is stored", stored), ("until it is found", found)):
        table.row(name, str(len(sample_)), *percentiles(sample_))


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    made = parser(__doc__)
    made.add_argument("index", type=Path)
    made.add_argument("questions", type=Path, help="a BEIR folder, or a file with one on each line")
    made.add_argument("--clients", type=int, default=4)
    made.add_argument("--seconds", type=float, default=20.0, help="of each sample")
    made.add_argument("--rate", type=float, default=1.0, help="documents a second")
    given = made.parse_args(argv)
    questions = read_questions(given.questions)[:500]
    with tempfile.TemporaryDirectory(prefix="wye-following-") as name:
        folder = Path(name) / "index"
        shutil.copytree(given.index, folder)
        size = Index.open(folder).count()
        data = f"{given.index}, {size} passages, {len(questions)} questions"
        print_header(f"Following an index: {given.clients} clients", seed=None, data=data)
        builds(folder, 3)
        print()
        with server(folder) as url:
            asyncio.run(serve(url, questions, given.clients, given.seconds, given.rate))
    return 0


if __name__ == "__main__":
    sys.exit(main())
