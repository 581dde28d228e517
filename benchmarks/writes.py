"""What `load --writes N --hostile --kills N` does: changes documents, and checks what was said.

Each writer owns its documents, so it knows what must be there: what was acknowledged is found, and
what was deleted is not in the next reply. One more client sends costly or malformed documents, and
`--clients` ask. The server is killed with SIGKILL now and then, and started again over the index.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2 as httpx

from benchmarks import harness
from benchmarks.harness import PATIENCE, ServerProcess, Table
from benchmarks.load import LoadClient, closed_loop, print_statuses

BUSY = (409, 429, 503)
UNFIT = (400, 404, 413, 415, 422)
"""What may be said to a document that cannot be stored."""
WORDS = ("bridge", "river", "tower", "harbour", "museum", "painter", "engine", "island", "castle")
FAULTS = ("lost document", "lost revision", "deleted document", "document of another", "no reply")
HOSTILE_SECONDS = 600.0


@dataclass(slots=True)
class DocumentState:
    """What its writer knows of a document.

    Attributes:
        sent: Newest revision that was sent.
        sure: Newest revision that was acknowledged; 0 for none.
        deleting: Whether its deletion was sent.
        deleted: Whether its deletion was acknowledged.
    """

    sent: int = 0
    sure: int = 0
    deleting: bool = False
    deleted: bool = False


@dataclass(slots=True)
class Writers:
    """All writers of one server."""

    http: httpx.AsyncClient
    ends: float
    documents: dict[str, DocumentState] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in FAULTS})
    statuses: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str, what: str) -> None:
        """Record a fault."""
        self.faults.setdefault(kind, []).append(what)

    async def request(
        self,
        method: str,
        path: str,
        may: tuple[int, ...] = (),
        **options: Any,  # noqa: ANN401
    ) -> httpx.Response | None:
        """Repeat a request until it succeeds or has a status that it may have; None otherwise."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            try:
                reply = await self.http.request(method, path, **options)
            except httpx.TransportError:
                self.statuses["broken"] += 1
            else:
                self.statuses[str(reply.status_code)] += 1
                if reply.is_success or reply.status_code in may:
                    return reply
                if reply.status_code not in BUSY:
                    self.fault(f"status {reply.status_code}", f"{method} {path}: {reply.text}")
                    return None
            await asyncio.sleep(0.2)
        self.fault("no reply", f"{method} {path}")
        return None

    async def write(self, number: int, seed: int) -> None:
        """Change, delete, read and find the documents of one writer until the end."""
        chance, owner = random.Random(seed), f"w{number}"
        while time.monotonic() < self.ends:
            all_ids = [id_ for id_ in self.documents if id_.startswith(f"{owner}-")]
            living = [id_ for id_ in all_ids if not self.documents[id_].deleting]
            draw = chance.random()
            if draw < 0.5 or len(living) < 3:
                is_new = len(living) < 3 or chance.random() < 0.4
                await self._put(
                    f"{owner}-{len(all_ids)}" if is_new else chance.choice(living), chance
                )
            elif draw < 0.65:
                await self._delete(chance.choice(living))
            elif draw < 0.8:
                await self._read(chance.choice(all_ids))
            else:
                await self._find(chance.choice(all_ids), owner)

    async def _put(self, id_: str, chance: random.Random) -> None:
        document = self.documents.setdefault(id_, DocumentState())
        document.sent += 1
        revision = document.sent
        body = {
            "title": id_,
            "text": f"{id_} in revision {revision}: {' '.join(chance.choices(WORDS, k=12))}.",
            "metadata": {"revision": revision, "owner": id_.partition("-")[0]},
        }
        if await self.request("PUT", _path(id_), json=body):
            document.sure = revision

    async def _delete(self, id_: str) -> None:
        document = self.documents[id_]
        document.deleting = True
        # A repeated request finds nothing if the first was committed before its server was killed.
        if await self.request("DELETE", _path(id_), may=(404,)):
            document.deleted = True
            await self._find(id_, id_.partition("-")[0])

    async def _read(self, id_: str) -> None:
        document = self.documents[id_]
        reply = await self.request("GET", _path(id_), may=(404,))
        if reply is None or (document.deleting and not document.deleted):
            return
        if reply.status_code == 404:
            if document.sure and not document.deleted:
                self.fault("lost document", id_)
        elif document.deleted:
            self.fault("deleted document", f"{id_} is read")

    async def _find(self, id_: str, owner: str) -> None:
        body = {
            "question": f"What is {id_} in its revision?",
            "route": "fusion",
            "filter": {"type": "eq", "key": "owner", "value": owner},
        }
        deleted = {id_ for id_, document in self.documents.items() if document.deleted}
        # Until the first of the writer's documents is followed, its key may be unknown.
        reply = await self.request("POST", "/v1/retrieve", may=(422,), json=body)
        for passage in reply.json().get("passages", ()) if reply is not None else ():
            if passage["id"] in deleted:
                self.fault("deleted document", f"{passage['id']} is found")
            if not passage["id"].startswith(f"{owner}-"):
                self.fault("document of another", f"{passage['id']} for {owner}")

    async def harm(self, seed: int) -> None:
        """Send one hostile document after another until the end, and delete each."""
        chance, number = random.Random(seed), 0
        while time.monotonic() < self.ends:
            name, body = hostile_documents(chance)[number % 8]
            id_, number = f"hostile{number}", number + 1
            if isinstance(body, bytes):
                options: dict[str, Any] = {"files": {"file": (name, body)}}
                reply = await self.request("POST", "/v1/documents", may=UNFIT, **options)
                id_ = name
            else:
                reply = await self.request("PUT", _path(id_), may=UNFIT, json=body)
            if reply is not None and reply.status_code == 202:
                await self._ended(reply.json()["id"])
            await self.request("DELETE", _path(id_), may=UNFIT)

    async def _ended(self, job: str) -> None:
        give_up = time.monotonic() + HOSTILE_SECONDS
        while time.monotonic() < give_up:
            reply = await self.request("GET", f"/v1/jobs/{job}")
            if reply is None or reply.json()["state"] not in ("queued", "running"):
                return
            await asyncio.sleep(0.5)
        self.fault("no reply", f"job {job} did not end within {HOSTILE_SECONDS:.0f} s")

    async def compare(self) -> int:
        """Compare what is stored with what was acknowledged; returns how many are stored."""
        stored: dict[str, int] = {}
        after: str | None = ""
        while after is not None:
            params = {"after": after, "limit": "1000"}
            reply = await self.request("GET", "/v1/documents", params=params)
            if reply is None:
                break
            page = reply.json()
            stored |= {row["id"]: row["metadata"].get("revision", 0) for row in page["data"]}
            after = page["next"]
        for id_, document in self.documents.items():
            if document.deleted and id_ in stored:
                self.fault("deleted document", f"{id_} is listed")
            if document.sure and not document.deleting:
                if id_ not in stored:
                    self.fault("lost document", id_)
                elif stored[id_] < document.sure:
                    self.fault("lost revision", f"{id_}: {stored[id_]} after {document.sure}")
        return len(stored)


def hostile_documents(chance: random.Random) -> list[tuple[str, dict[str, Any] | bytes]]:
    """Eight kinds of documents: JSON bodies to put, or files to upload, by name."""
    metadata: dict[str, Any] = {f"key{n}": "x" * 100 for n in range(62)}
    noise = chance.randbytes(50_000)
    return [
        ("quotes", {"text": '"' * 96_000}),
        ("punctuation", {"text": "".join(chance.choices("\"!,()?;:'*/", k=96_000))}),
        ("metadata", {"text": "t", "metadata": {**metadata, "list": list(range(250))}}),
        ("deep.html", b"<div>" * 100_000 + b"A bridge." + b"</div>" * 10),
        ("wide.csv", b'"' + b'a,b",' * 100_000 + b"\n" + b"," * 100_000),
        ("junk.pdf", b"%PDF-1.7\n1 0 obj " + b"[" * 50_000 + noise + b"\n%%EOF"),
        ("junk.docx", b"PK\x03\x04" + noise),
        ("script.txt", b'."""' * 200_000),
    ]


def _path(id_: str) -> str:
    return f"/v1/documents/{quote(id_, safe='')}"


async def attack(serving: ServerProcess, args: argparse.Namespace) -> Writers:
    """Run all writers and kills until the end, then compare what is stored."""
    table = Table(["seconds", "RSS MB", "replies", "documents"], width=12)
    asker, clients = LoadClient(serving.url), max(map(int, args.clients.split(",")))
    bodies = [{"question": text, "k": args.k} for text in harness.read_questions(args.dataset)]
    began = time.monotonic()
    async with httpx.AsyncClient(base_url=serving.url, timeout=PATIENCE) as http:
        writers = Writers(http, began + args.seconds)
        tasks = [
            asyncio.create_task(writers.write(number, args.seed + number))
            for number in range(args.writes)
        ]
        if args.hostile:
            tasks.append(asyncio.create_task(writers.harm(args.seed)))
        asking = asyncio.create_task(closed_loop(asker, bodies, clients, args.seconds))
        for _ in range(args.kills + 1):
            await asyncio.sleep(args.seconds / (args.kills + 1))
            counts = writers.statuses.total(), len(writers.documents)
            table.row(f"{time.monotonic() - began:.0f}", serving.megabytes, *counts)
            if time.monotonic() < writers.ends:
                serving.kill()
                await asyncio.to_thread(serving.start)
        await asyncio.gather(*tasks)
        print(f"\nQuestions of {clients} clients:")
        print_statuses(sample := await asking, args.deadline_ms)
        stored = await writers.compare()
    if sample.failed > len(sample.seconds.get(0, ())):
        writers.fault("failed questions", f"{sample.failed}, broken connections included")
    print(f"\n{stored} documents are stored. Statuses: {json.dumps(writers.statuses)}")
    return writers


def run(args: argparse.Namespace) -> int:
    """Write, harm and kill; returns the number of kinds of faults."""
    harness.print_header("wye serve under writes", seed=args.seed, data=harness.data_name(args))
    with harness.index_of(args, copied=True) as index, ServerProcess.of(index) as serving:
        writers = asyncio.run(attack(serving, args))
    for kind, seen in writers.faults.items():
        print(f"{'FAIL' if seen else 'PASS'}  {kind}: {len(seen)} {'; '.join(seen[:3])[:300]}")
    return sum(map(bool, writers.faults.values()))
