"""How costs grow with an index: opening, memory, questions, and small writes.

The index consists of copies of another's rows. Each copy renames ids, titles, and names that few
passages mention, also in texts, and moves vectors a little; common names stay shared. So sizes grow
as in a larger corpus of the same kind, but recall means nothing, since each passage has
near-duplicates. `--to` keeps the index for the next run. Memory is a process's own, without mapped
files, which processes share. The first process derives what the next one maps.
"""

import argparse
import asyncio
import gc
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import psutil
import pyarrow as pa

from benchmarks import harness
from benchmarks.harness import BenchmarkError, ServerProcess, Table
from benchmarks.load import LoadClient, closed_loop
from wye.backends.errors import IndexNotFoundError
from wye.backends.files import address_of
from wye.backends.store.index import PassageStore, has_columns
from wye.backends.store.ingest import COMPACT_FROM, content_hash
from wye.backends.text import title_names
from wye.backends.types import Float32, Passage
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Route

RARE = 3
"""Names are renamed if at most this many passages mention them."""
MOVED = 0.3
"""Length of the noise that is added to a vector of length 1."""
FILTER = {"type": "eq", "key": "copy", "value": 0}
_LIST = pa.list_(pa.string())
QUESTIONS = 200
DELAY = 0.03
"""Seconds that each search, and each look-up of rows, may take longer in an object store."""
_ANONYMOUS = re.compile(r"^Anonymous: *(\d+) kB", re.MULTILINE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for data, sizes and durations."""
    harness.add_data(parser)
    parser.add_argument("--times", type=int, default=20, help="copies of each row (default 20)")
    parser.add_argument("--to", type=Path, help="folder or address to keep the larger index in")
    parser.add_argument("--engine", choices=("memory", "dataset"), default="memory")
    parser.add_argument("--seconds", type=float, default=20.0, help="per sample (default 20)")


def run(args: argparse.Namespace) -> None:
    """Make the index and print the tables."""
    questions = harness.read_questions(args.dataset)
    np.random.default_rng(args.seed).shuffle(questions)
    room = None if not args.to or address_of(args.to) else args.to.absolute().parent
    with harness.index_of(args) as source, tempfile.TemporaryDirectory(dir=room) as scratch:
        os.environ["WYE_ENGINE"] = args.engine  # of other processes, too
        folder = args.to or Path(scratch) / "index"
        try:
            store = PassageStore.open(folder)
        except IndexNotFoundError:
            store = grow(source, folder, args.times, args.seed)
        data = f"{harness.data_name(args)} x {args.times}, {store.count():,} passages"
        harness.print_header("What grows with an index", seed=args.seed, data=data)
        if args.engine == "dataset" and not has_columns(store.snapshot().schema):
            session = Session(load_settings(), store)
            print(f"Indices built in {harness.timed(session.build_indices):.0f} s.")
        print_opening(folder, questions[:QUESTIONS], questions[QUESTIONS : 2 * QUESTIONS])
        if store.is_remote:
            return
        print()
        # Written to, so links to its files, which no write changes: a copy would have cold pages.
        written = Path(scratch) / "written"
        shutil.copytree(
            folder, written, copy_function=os.link, ignore=shutil.ignore_patterns("jobs")
        )
        asyncio.run(print_service(written, questions[:QUESTIONS], args.seconds))


def grow(source: Path, folder: Path, times: int, seed: int) -> PassageStore:
    """Write an index of `times` copies of another's rows.

    Raises:
        BenchmarkError: The other index has no rows.
    """
    store = PassageStore.open(source)
    rows = store.snapshot().to_table()
    if not rows.num_rows:
        raise BenchmarkError(f"There is no passage in {source}.")
    with PassageStore.create(folder, store.dimension, store.fingerprint).writer() as writer:
        for batch in copies(rows, times, seed):
            writer.upsert(batch, replaced=())
            writer.merge_small(COMPACT_FROM)  # as `ingest` does
    return PassageStore.open(folder)


def copies(rows: pa.Table, times: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield copies of rows; the first changes only ids and metadata."""
    generator = np.random.default_rng(seed)
    schema = rows.schema
    plain = [name for name in schema.names if name not in ("vector", "sentences")]
    texts = rows.select(plain).to_pylist()
    lists = rows["sentences"].combine_chunks()
    flat = lists.flatten()
    mentioned = {name: flat.field(name).to_pylist() for name in ("text", "entities", "phrases")}
    lengths = lists.value_lengths().to_numpy()
    ends = np.cumsum(lengths).tolist()
    owners = np.repeat(np.arange(len(texts)), lengths).tolist()
    vectors, near = _matrix(rows["vector"].combine_chunks()), _matrix(flat.field("vector"))
    rare = _rare(texts, mentioned, ends)
    of = [rare[row] for row in owners]
    for number in range(times):
        made = [_renamed(row, names, number) for row, names in zip(texts, rare, strict=True)]
        structs = pa.StructArray.from_arrays(
            [
                pa.array(map(_in_text, of, mentioned["text"], repeat(number)), pa.string()),
                _moved(near, generator, number),
                *(
                    pa.array(map(_among, of, mentioned[name], repeat(number)), _LIST)
                    for name in ("entities", "phrases")
                ),
            ],
            fields=list(lists.type.value_type),
        )
        columns = {n: pa.array([row[n] for row in made], schema.field(n).type) for n in plain}
        columns["vector"] = _moved(vectors, generator, number)
        columns["sentences"] = pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), structs)
        yield pa.RecordBatch.from_pydict(columns, schema=schema)


def _in_text(rare: re.Pattern[str], text: str, number: int) -> str:
    """A text with the rare names of a copy."""
    return rare.sub(lambda match: match[0] + _suffix(number), text)


def _among(rare: re.Pattern[str], mentions: Sequence[str], number: int) -> list[str]:
    """Mentions with the rare names of a copy."""
    return [name + _suffix(number) if rare.fullmatch(name) else name for name in mentions]


def _suffix(number: int) -> str:
    """The ending of a copy's names; "" for the first copy."""
    return "q" + chr(97 + number // 26 % 26) + chr(97 + number % 26) if number else ""


def _rare(
    texts: Sequence[dict[str, Any]], mentioned: dict[str, list[Any]], ends: Sequence[int]
) -> list[re.Pattern[str]]:
    """A pattern of the rare names of each passage, the longest first."""
    each: list[set[str]] = []
    first = 0
    for row, last in zip(texts, ends, strict=True):
        mentions = [*mentioned["entities"][first:last], *mentioned["phrases"][first:last]]
        each.append({*title_names(row["title"]), *(name for names in mentions for name in names)})
        first = last
    often = Counter(name for names in each for name in names)
    patterns = []
    for names in each:
        rare = (name for name in names if name and often[name] <= RARE)
        longest = sorted(rare, key=lambda name: (-len(name), name))
        patterns.append(re.compile("|".join(map(re.escape, longest)) or "(?!)"))
    return patterns


def _renamed(row: dict[str, Any], rare: re.Pattern[str], number: int) -> dict[str, Any]:
    """The plain columns of a copy's row."""
    changed: dict[str, Any] = {name: f"{row[name]}~{number}" for name in ("id", "document")}
    changed |= {name: _in_text(rare, row[name], number) for name in ("title", "text")}
    passage = Passage(**changed, metadata={"copy": number}, chunk=row["chunk"])
    hashed = {"metadata": f'{{"copy":{number}}}', "content_hash": content_hash(passage)}
    return {**row, **changed, **hashed}


def _moved(vectors: Float32, generator: np.random.Generator, number: int) -> pa.FixedSizeListArray:
    """A copy's vectors, as a column: unit vectors with noise, unchanged for the first copy."""
    if number:
        length = np.linalg.norm(vectors, axis=1, keepdims=True) / vectors.shape[1] ** 0.5
        noise = generator.standard_normal(vectors.shape, dtype=np.float32)
        vectors = vectors + np.float32(MOVED) * length * noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    flat = pa.array(vectors.astype(np.float16).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _matrix(column: pa.FixedSizeListArray) -> Float32:
    """(n, d) vectors of a column."""
    flat: Float32 = column.flatten().to_numpy().astype(np.float32)
    return flat.reshape(len(column), -1)


def print_opening(folder: Path, questions: Sequence[str], others: Sequence[str]) -> None:
    """Print the costs of opening and of questions, without the models, in fresh processes."""
    table = Table(["opened in a process of its own", "first", "again"], width=36)
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        figures = [pool.apply(opened, (folder, questions, others)) for _ in range(2)]
    for name in figures[0]:
        table.row(name, *(each[name] for each in figures))


def opened(folder: Path, questions: Sequence[str], others: Sequence[str]) -> dict[str, float]:
    """Open an index and ask it; returns figures by name.

    The models read other questions before: their memory grows with the lengths that they met.
    """
    process = psutil.Process()
    with Session.open(load_settings(), folder) as session:
        for text in others:
            session.analyser.syntax_of(session.analyser.parse_questions([text]))
            session.analyser.encode_questions([text])
        _ = session.models.router, session.models.relevance
        gc.collect()
        before = private_memory(process)
        figures = {"opened, s": harness.timed(lambda: session.snapshot)}
        start = time.perf_counter()
        session.gateway.search(questions[:1], Ask(Route.AUTO, k=10))
        figures["first auto answer, s"] = time.perf_counter() - start
        figures["memory of its own by then, MB"] = private_memory(process) - before
        for route in (Route.DENSE, Route.GRAPH, Route.FUSION, Route.AUTO):
            figures |= _milliseconds(session, route, questions[1:], route, None)
        figures |= _milliseconds(session, "graph, filtered", questions[1:21], Route.GRAPH, FILTER)
        gc.collect()
        figures["memory of its own, MB"] = private_memory(process) - before
        if session.settings.engine == "dataset":  # with caches of its own
            figures |= _reads(session, questions[1:])
    return figures


def _milliseconds(
    session: Session, name: str, questions: Sequence[str], route: Route, filter_: object
) -> dict[str, float]:
    """Times of questions asked one by one: p50 and p95 without the models, and of the processor.

    The last is what to compare on a busy machine. It has the models' time the first time that a
    question is encoded or parsed.
    """
    seconds, processor = [], []
    for question in questions:
        start = time.process_time()
        (reply,) = session.gateway.search([question], Ask(route, k=10, filter=filter_))
        processor.append(time.process_time() - start)
        seconds.append(harness.search_seconds(reply))
    p50, p95, _ = harness.percentiles(seconds)
    figures = {f"{name} p50, ms": p50, f"{name} p95, ms": p95}
    return {**figures, f"{name}, processor p50, ms": harness.percentiles(processor)[0]}


def _reads(session: Session, questions: Sequence[str]) -> dict[str, float]:
    """What fusion reads of the passages, and its times if each search of Lance's takes longer."""
    index = PassageStore.open(session.folder)
    fresh = Session(session.settings, index)
    fresh.models = session.models
    several = questions[: QUESTIONS // 4]
    _milliseconds(fresh, "", several, Route.FUSION, None)
    stats = index.snapshot().io_stats_incremental()
    figures = {
        "reads of a fusion question": stats.read_iops / len(several),
        "kB read for it": stats.read_bytes / len(several) / 1000,
    }
    guard, searches = index.reading, count()

    def slow(*also: type[Exception]) -> AbstractContextManager[None]:
        next(searches)
        time.sleep(DELAY)
        return guard(*also)

    vars(index)["reading"] = slow
    further = questions[QUESTIONS // 4 : QUESTIONS // 2]
    figures |= _milliseconds(fresh, "fusion, 30 ms more a search", further, Route.FUSION, None)
    return {**figures, "searches of a fusion question": next(searches) / len(further)}


def private_memory(process: psutil.Process) -> float:
    """A process's anonymous memory in MB, without mapped files."""
    listed = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return float(_ANONYMOUS.findall(listed)[0]) / 1000


async def watch(server: ServerProcess, sizes: list[float]) -> None:
    """Note how much memory a server's processes have of their own, in MB, until cancelled."""
    while True:  # a look takes .02 s, in which the server waits for memory
        sizes.append(sum(map(private_memory, server.processes)))
        await asyncio.sleep(0.5)


async def print_service(folder: Path, questions: Sequence[str], seconds: float) -> None:
    """Print the times of small writes, and of searches meanwhile, over HTTP."""
    bodies = [{"question": text, "route": "fusion", "k": 10} for text in questions]
    sizes: list[float] = []
    with ServerProcess.of(folder) as server:
        client = LoadClient(server.url)
        try:
            await closed_loop(client, bodies, 1, min(2.0, seconds))
            quiet = await closed_loop(client, bodies, 1, seconds)
            watching = asyncio.create_task(watch(server, sizes))
            first = await put(server.url, 1 / seconds, 3 * seconds)
            deleted = await delete(server.url, 3)
            watching.cancel()
            busy, further = await asyncio.gather(
                closed_loop(client, bodies, 1, seconds), put(server.url, 1.0, seconds)
            )
        finally:
            await client.close()
    table = Table(["searching", "answers", "errors", "p50 ms", "p95 ms", "p99 ms"])
    for name, sample in (("nothing is written", quiet), ("1 document/s", busy)):
        counts = len(sample.answered), sample.failed + len(sample.refused)
        table.row(name, *counts, *harness.percentiles(sample.answered))
    print()
    table = Table(["a document", "count", "p50 ms", "p95 ms", "p99 ms"])
    stored, searchable = (a + b for a, b in zip(first, further, strict=True))
    for name, times in (("stored", stored), ("found", searchable), ("deleted", deleted)):
        table.row(f"until it is {name}", len(times), *harness.percentiles(times))
    print(f"\nmemory of the server: {sizes[0]:,.0f} MB, at most {max(sizes):,.0f} MB while written")


async def put(url: str, rate: float, seconds: float) -> tuple[list[float], list[float]]:
    """Put documents with a new and a known name; returns seconds until each is stored, or found."""
    stored: list[float] = []
    searchable: list[float] = []
    start = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            title, year = f"Bridge {1_000 + number}", 1900 + number % 100
            text = f"Town{1_000 + number} has a bridge. It was opened in {year} near London."
            body, path = {"title": title, "text": text}, f"/v1/documents/written-{1_000 + number}"
            started = time.perf_counter()
            reply = (await http.put(path, json=body)).raise_for_status()
            stored.append(time.perf_counter() - started)
            version = reply.json()["index_version"]
            question = {"question": title, "route": "lexical", "k": 1}
            while True:
                answer = (await http.post("/v1/retrieve", json=question)).raise_for_status()
                if answer.json()["index"]["version"] >= version:
                    break
                await asyncio.sleep(0.02)
            searchable.append(time.perf_counter() - started)
    return stored, searchable


async def delete(url: str, count: int) -> list[float]:
    """Delete some documents that `put` wrote; returns the seconds of each deletion."""
    seconds = []
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        for number in range(count):
            start = time.perf_counter()
            (await http.delete(f"/v1/documents/written-{1_000 + number}")).raise_for_status()
            seconds.append(time.perf_counter() - start)
    return seconds
