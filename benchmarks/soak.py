"""A soak test: reads, writes, hostile documents, clients that hang up, workers that die.

Starts a server over a copy of an index, and uses only HTTP. Each client owns its documents, so it
knows what must be there. One more client sends costly or malformed documents. Now and then a worker
is killed with SIGKILL; the oldest is spared for half of the run, so that growth shows. The exit
code is the number of kinds of faults that were seen.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import psutil

from benchmarks import harness
from benchmarks.harness import Table
from benchmarks.load import server

REFUSALS = (409, 429, 503)
# Allowed replies to a document that cannot be stored.
REFUSED = (400, 404, 413, 415, 422)
ROUTES = ("dense", "lexical", "graph", "fusion")
TAGS = ("red", "green", "blue")
WORDS = ("bridge", "river", "tower", "harbour", "museum", "painter", "engine", "island", "castle")
# How long a client retries a change, and the longest wait between two tries, in seconds.
PATIENCE, LONGEST_WAIT = 120.0, 2.0
BULK = 40
# The longest that a question may wait for the models, whatever is being stored, and the longest
# that a server may take for a hostile document.
LONGEST_QUEUE_MS = 2_000.0
HOSTILE_SECONDS = 1_500.0
# After so many seconds, a worker should have loaded its models.
LOADED = 20.0

# Faults that must not happen; they are listed even if they did not.
WANTED = (
    "lost document",
    "lost revision",
    "deleted document is back",
    "deleted passage in a reply",
    "filtered-out passage in a reply",
    "question that waited for more than 2 s",
    "row of another document",
    "hostile document without an end",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for data, duration and load."""
    harness.add_data(parser)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-seconds", type=float, default=30.0, help="mean between two kills")


def run(given: argparse.Namespace) -> int:
    """Soak a server, and print how often each fault happened."""
    harness.print_header(
        f"{given.clients} clients, {given.workers} workers, {given.minutes:g} minutes",
        seed=given.seed,
        data=harness.data_name(given),
    )
    with (
        harness.index_of(given, copied=True) as index,
        server(index, "--workers", str(given.workers)) as url,
    ):
        (serving,) = psutil.Process().children()
        oracle = asyncio.run(soak_server(url, serving, given))
    for kind in {**dict.fromkeys(WANTED), **oracle.faults}:
        seen = oracle.faults.get(kind, [])
        verdict = "FAIL" if seen else "PASS"
        print(f"{verdict}  {kind}: {len(seen)}{'; ' + '; '.join(seen[:3]) if seen else ''}")
    return len(oracle.faults)


@dataclass(slots=True)
class Known:
    """What its only owner knows of a document.

    Attributes:
        revision: Newest revision that was sent.
        sure: Newest revision that was acknowledged; 0 for none.
        gone: The first index version without it, once its deletion was acknowledged everywhere.
        leaving: Whether its deletion was requested.
        tag: Metadata to filter by.
    """

    revision: int
    sure: int = 0
    gone: int | None = None
    leaving: bool = False
    tag: str = ""


@dataclass(slots=True)
class OracleState:
    """The documents of all clients, and the faults seen.

    Attributes:
        documents: Documents by id; the id of a deleted one is not used again.
        faults: Kind -> descriptions of the faults.
    """

    documents: dict[str, Known] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str, what: str) -> None:
        """Record a fault."""
        self.faults.setdefault(kind, []).append(what)

    def living(self, prefix: str) -> list[str]:
        """Ids of a client's documents that must be there."""
        return [
            id_
            for id_, known in self.documents.items()
            if id_.startswith(prefix) and known.sure and not known.leaving
        ]

    def deleted(self) -> dict[str, int]:
        """Id -> the first version without it, for acknowledged deletions."""
        return {id_: known.gone for id_, known in self.documents.items() if known.gone is not None}

    def check_reply(
        self, reply: Mapping[str, Any], deleted: Mapping[str, int], tag: str | None
    ) -> None:
        """Check that a reply has no passage that it must not have.

        Args:
            reply: A reply of /v1/retrieve.
            deleted: Result of `deleted` from before the question was sent.
            tag: The tag that the filter asked for; None without a filter.
        """
        version = reply["index"]["version"]
        if (waited := reply["timings_ms"]["queue"]) > LONGEST_QUEUE_MS:
            self.fault(WANTED[5], f"{waited:.0f} ms")
        for passage in reply["passages"]:
            id_ = passage["document"]
            if id_ in deleted:
                what = f"{id_}: deleted in {deleted[id_]}, found in {version}"
                self.fault("deleted passage in a reply", what)
            if tag is not None and passage["metadata"].get("tag") != tag:
                self.fault("filtered-out passage in a reply", f"{id_}: {passage['metadata']}")

    def check_stored(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Compare with the documents of /v1/documents, after all changes have ended."""
        revisions = {each["id"]: each["metadata"].get("revision", 0) for each in stored}
        for id_, known in self.documents.items():
            if known.gone is not None:
                if id_ in revisions:
                    self.fault("deleted document is back", id_)
            elif known.sure and not known.leaving:
                if id_ not in revisions:
                    self.fault("lost document", id_)
                elif revisions[id_] < known.sure:
                    self.fault("lost revision", f"{id_}: {revisions[id_]} of {known.sure}")


class Soak:
    """The clients of a run, with their measurements."""

    def __init__(self, url: str, given: argparse.Namespace) -> None:
        """Prepare the clients."""
        self.oracle = OracleState()
        self.statuses = Counter[str]()
        self.seconds: dict[str, list[float]] = {}
        self.queued: list[float] = []
        self.jobs: list[str] = []
        self.ends = time.monotonic() + 60 * given.minutes
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=given.clients)
        self.http = httpx.AsyncClient(base_url=url, timeout=60, limits=limits)
        self._seed = given.seed

    async def client(self, number: int) -> None:
        """One client until the end."""
        chance = random.Random(self._seed * 1000 + number)
        prefix = f"c{number}-"
        acts: list[tuple[int, Callable[[random.Random, str], Awaitable[None]]]] = [
            (50, self._ask),
            (20, self._ask_filtered),
            (14, self._put),
            (6, self._delete),
            (2, self._delete_tagged),
            (1, self._bulk),
            (7, self._hang_up),
        ]
        while time.monotonic() < self.ends:
            (act,) = chance.choices([act for _, act in acts], [weight for weight, _ in acts])
            await act(chance, prefix)

    async def _ask_filtered(self, chance: random.Random, prefix: str) -> None:
        await self._ask(chance, prefix, chance.choice(TAGS))

    async def _ask(self, chance: random.Random, prefix: str, tag: str | None = None) -> None:
        body: dict[str, Any] = {
            "question": self._question(chance, prefix),
            "route": chance.choice(ROUTES),
            "k": 20,
        }
        if tag is not None:
            body["filter"] = {"type": "eq", "key": "tag", "value": tag}
        deleted = self.oracle.deleted()
        reply = await self._send("retrieve", "POST", "/v1/retrieve", json=body)
        if reply is not None and reply.status_code == 200:
            self.queued.append(reply.json()["timings_ms"]["queue"] / 1000)
            self.oracle.check_reply(reply.json(), deleted, tag)
        else:
            await asyncio.sleep(0.1)

    def _question(self, chance: random.Random, prefix: str) -> str:
        """A question about an own document; it would find a deleted one that is still there."""
        mine = [id_ for id_ in self.oracle.documents if id_.startswith(prefix)]
        about = chance.choice(mine) if mine and chance.random() < 0.7 else "nothing"
        return f"What does {about} say of the {chance.choice(WORDS)}?"

    async def _put(self, chance: random.Random, prefix: str) -> None:
        """Put a new document, or a new revision of one."""
        documents = self.oracle.documents
        living = self.oracle.living(prefix)
        if living and chance.random() < 0.5:
            id_ = chance.choice(living)
            documents[id_].revision += 1
        else:
            id_ = f"{prefix}{len(documents)}{chance.choice(('', '', '#0001'))}"
            documents[id_] = Known(1, tag=chance.choice(TAGS))
        known = documents[id_]
        revision = known.revision
        body = self._body(chance, id_, known)
        if await self._insist("put", "PUT", _path(id_), json=body):
            known.sure = max(known.sure, revision)

    def _body(self, chance: random.Random, id_: str, known: Known) -> dict[str, Any]:
        said = " ".join(chance.choices(WORDS, k=12))
        return {
            "title": id_,
            "text": f"{id_} in revision {known.revision} says: {said}. It stands in Town{id_[1:]}.",
            "metadata": {
                "revision": known.revision,
                "tag": known.tag,
                "owner": id_.split("-", maxsplit=1)[0],
            },
        }

    async def _delete(self, chance: random.Random, prefix: str) -> None:
        if not (living := self.oracle.living(prefix)):
            return
        known = self.oracle.documents[id_ := chance.choice(living)]
        known.leaving = True
        if reply := await self._insist("delete", "DELETE", _path(id_)):
            known.gone = self._gone(reply)

    async def _delete_tagged(self, chance: random.Random, prefix: str) -> None:
        tag = chance.choice(TAGS)
        mine = [
            known
            for id_ in self.oracle.living(prefix)
            if (known := self.oracle.documents[id_]).tag == tag
        ]
        parts = [
            {"type": "eq", "key": "owner", "value": prefix[:-1]},
            {"type": "eq", "key": "tag", "value": tag},
        ]
        for known in mine:
            known.leaving = True
        body = {"filter": {"type": "and", "filters": parts}}
        if reply := await self._insist("delete", "POST", "/v1/documents/delete", json=body):
            for known in mine:
                known.gone = self._gone(reply)

    def _gone(self, reply: httpx.Response) -> int | None:
        """The version without it; None if a process was behind, so that nothing is promised."""
        said = reply.json()
        if not said["everywhere"]:
            self.oracle.counts["deletions not seen everywhere in time"] += 1
            return None
        return int(said["index_version"])

    async def _bulk(self, chance: random.Random, prefix: str) -> None:
        """Upload a job, whose documents count as stored once it is accepted."""
        start = len(self.oracle.documents)
        ids = [f"{prefix}{start + n}" for n in range(BULK)]
        new = {id_: Known(1, tag=chance.choice(TAGS)) for id_ in ids}
        self.oracle.documents |= new
        rows = [{"_id": id_, **self._body(chance, id_, known)} for id_, known in new.items()]
        content = "\n".join(json.dumps(row) for row in rows)
        kind = {"content-type": "application/x-ndjson"}
        reply = await self._insist("bulk", "POST", "/v1/documents", content=content, headers=kind)
        if reply is None:
            return
        for known in new.values():
            known.sure = 1
        if reply.status_code == 202:
            self.jobs.append(reply.json()["id"])

    async def _hang_up(self, chance: random.Random, prefix: str) -> None:
        """Ask, and hang up before there is an answer."""
        body = {"question": self._question(chance, prefix), "route": "graph"}
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.uniform(0.001, 0.03)):
                await self._send("hung up", "POST", "/v1/retrieve", json=body)
                return
        self.statuses["hung up"] += 1

    async def begin(self) -> None:
        """Store a document with the keys of all filters, since unknown keys are refused."""
        body = self._body(random.Random(self._seed), "first-0", Known(1, tag=TAGS[0]))
        if not await self._insist("put", "PUT", _path("first-0"), json=body):
            raise harness.BenchmarkError("The server stores nothing; run it by hand.")
        await asyncio.sleep(3)  # until every worker has seen it

    async def hostile(self) -> None:
        """Send costly and malformed documents, and ones with ids like others', until the end.

        Each is deleted before the next, so that the index does not grow without end.
        """
        chance, number = random.Random(self._seed), 0
        while time.monotonic() < self.ends:
            kind, body = hostile_documents(chance)[number % HOSTILE]
            long, part = f"hostile{number}", f"hostile{number}#0001"
            number += 1
            started = time.monotonic()
            if isinstance(body, bytes):
                options: dict[str, Any] = {"files": {"file": (kind, body)}}
                reply = await self._insist("hostile", "POST", "/v1/documents", may=True, **options)
                long = kind
            else:
                options = {"json": body, "timeout": HOSTILE_SECONDS}
                reply = await self._insist("hostile", "PUT", _path(long), may=True, **options)
            if reply is not None and reply.status_code == 202:
                await self._ended(reply.json()["id"], HOSTILE_SECONDS)
            self.seconds.setdefault(f"  {kind}", []).append(time.monotonic() - started)
            await self._insist("put", "PUT", _path(part), json={"text": MINE})
            again = await self._insist("hostile", "PUT", _path(long), may=True, json=OTHER)
            read = await self._insist("read", "GET", _path(part))
            if read is None or MINE not in read.text:
                self.oracle.fault(WANTED[6], f"{part} after {kind}, {again and again.status_code}")
            for id_ in (part, long):
                await self._insist("delete", "DELETE", _path(id_), may=True)

    async def _ended(self, job: str, seconds: float) -> None:
        """Wait for a job, which may fail but must end."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            reply = await self._send("job", "GET", f"/v1/jobs/{job}")
            state = reply.json().get("state") if reply is not None else "queued"
            if state not in ("queued", "running"):
                return
            await asyncio.sleep(0.5)
        self.oracle.fault(WANTED[7], f"{job} after {seconds:.0f} s")

    async def _insist(
        self,
        kind: str,
        method: str,
        path: str,
        *,
        may: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response | None:
        """Retry a request until it succeeds, or is refused if it `may` be; None if neither is."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            reply = await self._send(kind, method, path, may=may, **options)
            if reply is not None and (reply.is_success or (may and reply.status_code in REFUSED)):
                return reply
            if reply is not None and reply.status_code not in REFUSALS:
                return None
            wait = float(reply.headers.get("retry-after", 0.2)) if reply is not None else 0.2
            await asyncio.sleep(min(wait, LONGEST_WAIT))
        self.oracle.counts[f"{kind} given up"] += 1
        return None

    async def _send(
        self,
        kind: str,
        method: str,
        path: str,
        *,
        may: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response | None:
        """Send one request; None if the connection broke."""
        started = time.perf_counter()
        try:
            reply = await self.http.request(method, path, **options)
        except httpx.TransportError as error:
            self.statuses[f"broken ({type(error).__name__})"] += 1
            return None
        self.statuses[str(reply.status_code)] += 1
        if reply.is_success:
            self.seconds.setdefault(kind, []).append(time.perf_counter() - started)
        elif reply.status_code not in (*REFUSALS, *(REFUSED if may else ())):
            self.oracle.fault(f"status {reply.status_code}", f"{method} {path}: {reply.text[:300]}")
        return reply

    async def settle(self) -> None:
        """Wait for all jobs, then compare what is stored with what was acknowledged."""
        for id_ in self.jobs:
            while True:
                reply = await self._send("job", "GET", f"/v1/jobs/{id_}")
                if reply is not None and reply.json().get("state") not in ("queued", "running"):
                    break
                await asyncio.sleep(0.2)
            if reply.json().get("state") != "done":
                self.oracle.fault("job not done", reply.text)
        stored: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            params = {"after": after, "limit": "1000"}
            reply = await self._send("list", "GET", "/v1/documents", params=params)
            if reply is not None and reply.is_success:
                stored += reply.json()["data"]
                after = reply.json()["next"]
        self.oracle.check_stored(stored)
        self.oracle.counts["documents stored"] = len(stored)


def _path(id_: str) -> str:
    return f"/v1/documents/{quote(id_, safe='')}"


MINE = "A document of my own, which nobody else may touch."
OTHER = {"text": "A sentence of the long document. " * 300}
HOSTILE = 8


def hostile_documents(chance: random.Random) -> list[tuple[str, dict[str, Any] | bytes]]:
    """`HOSTILE` kinds of documents: JSON bodies to put, or files to upload, by name."""
    marks = "".join(chance.choices("\"!,()?;:'*/", k=96_000))
    full = {f"key{n}": "x" * 100 for n in range(62)}
    noise = chance.randbytes(50_000)
    return [
        ("quotes", {"text": '"' * 96_000}),
        ("punctuation", {"text": marks}),
        ("metadata", {"text": "t", "metadata": {**full, "list": list(range(250))}}),
        ("deep.html", b"<div>" * 100_000 + b"A bridge." + b"</div>" * 10),
        ("wide.csv", b'"' + b'a,b",' * 100_000 + b"\n" + b"," * 100_000),
        ("junk.pdf", b"%PDF-1.7\n1 0 obj " + b"[" * 50_000 + noise + b"\n%%EOF"),
        ("junk.docx", b"PK\x03\x04" + noise),
        ("script.txt", b'."""' * 500_000),  # takes minutes, which no question may notice
    ]


def workers_of(serving: psutil.Process) -> list[psutil.Process]:
    """The worker processes, oldest first."""
    children = [child for child in serving.children() if child.status() != psutil.STATUS_ZOMBIE]
    answering = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return sorted(answering, key=lambda child: child.create_time())


async def kill(soak: Soak, serving: psutil.Process, every: float, chance: random.Random) -> None:
    """Kill workers now and then, but the oldest only once, in the middle of the run."""
    middle = time.monotonic() + (soak.ends - time.monotonic()) / 2
    is_late = False
    while True:
        await asyncio.sleep(chance.uniform(0.5, 1.5) * every)
        if time.monotonic() + every > soak.ends:
            return
        with suppress(psutil.Error):
            found = workers_of(serving)
            turn = not is_late and time.monotonic() > middle
            victims = found[:1] if turn else found[1:]
            if not victims:
                continue
            victim = chance.choice(victims)
            # Otherwise no worker could answer until both have loaded their models.
            if any(
                time.time() - other.create_time() > LOADED for other in found if other != victim
            ):
                victim.send_signal(signal.SIGKILL)
                soak.oracle.counts["workers killed"] += 1
                is_late = is_late or turn


async def watch(soak: Soak, serving: psutil.Process, every: float) -> None:
    """Print memory and file handles over time."""
    columns = ["seconds", "workers", "age s", "RSS MB", "files", "replies", "refused", "documents"]
    table = Table(columns, width=8)
    started = time.monotonic()
    while True:
        with suppress(psutil.Error):
            found = workers_of(serving)
            oldest = found[0]
            table.row(
                f"{time.monotonic() - started:.0f}",
                str(len(found)),
                f"{time.time() - oldest.create_time():.0f}",
                oldest.memory_info().rss / 2**20,
                str(oldest.num_fds()),
                str(soak.statuses.total()),
                str(sum(soak.statuses[str(status)] for status in REFUSALS)),
                str(len(soak.oracle.documents)),
            )
        await asyncio.sleep(every)


async def soak_server(url: str, serving: psutil.Process, given: argparse.Namespace) -> OracleState:
    """Run all clients until the end, then compare what is stored."""
    soak = Soak(url, given)
    chance = random.Random(given.seed)
    print("Memory and file handles are those of the oldest worker.")
    beside = [
        asyncio.create_task(kill(soak, serving, given.kill_seconds, chance)),
        asyncio.create_task(watch(soak, serving, max(5.0, 60 * given.minutes / 30))),
    ]
    try:
        await soak.begin()
        await asyncio.gather(
            soak.hostile(), *(soak.client(number) for number in range(given.clients))
        )
        await soak.settle()
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await soak.http.aclose()
    print()
    table = Table(["request", "replies", "p50 ms", "p95 ms", "p99 ms", "max ms"], width=14)
    for kind, seconds in sorted(soak.seconds.items()):
        cells = (*harness.percentiles(seconds), 1000 * max(seconds))
        table.row(kind, str(len(seconds)), *cells)
    waits = soak.queued or [0.0]
    p50, _, p99 = harness.percentiles(waits)
    print(
        f"\nA question waited for the models {p50:.0f} ms at the median, {p99:.0f} ms at p99 and "
        f"{1000 * max(waits):.0f} ms at most."
    )
    print(f"Statuses: {dict(sorted(soak.statuses.items()))}")
    print(f"Jobs: {len(soak.jobs)}; {dict(soak.oracle.counts)}")
    return soak.oracle
