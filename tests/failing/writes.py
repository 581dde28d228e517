"""Runs each kind of write on a disk that fails; `test_failing_writes.py` preloads `failing.c`.

    python -m tests.failing.writes FOLDER MODE SAMPLE KIND...

SAMPLE is "all" for every file operation, or "some" for the last of each sort. Prints a line of JSON
for each kind: how many operations of which sort it has, how often it ended in which way when one of
them failed, and what was lost.
"""

import ctypes
import errno
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from httpx2 import Response
from starlette.testclient import TestClient

import wye.backends.store.index
from tests.hashing import FakeAnalyser
from tests.live import inside, until
from wye.backends.errors import BackendError
from wye.backends.store.corpus import read_corpus
from wye.backends.store.documents import list_documents
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.repair import repair
from wye.backends.store.versions import PASSAGES
from wye.backends.types import Passage
from wye.router.session import Session
from wye.service.app import build
from wye.service.logs import LOG
from wye.service.settings import DocumentSettings, ServeSettings, ServiceSettings

# A write is said to be done, and is not: only of files that are compared with what they should be.
SILENTLY = "silently"
MODES = {"once": 0, "onwards": 1, SILENTLY: 2}
ERRORS = (errno.ENOSPC, errno.EIO)
State = dict[str, list[tuple[str, str, str]]]


def passage(document: str, chunk: int, text: str, **metadata: int) -> Passage:
    return Passage(f"{document}#{chunk:04d}", document, text, metadata, document, chunk)


def corpus(revision: int = 0, **metadata: int) -> list[Passage]:
    return [
        passage(
            f"d{n}", chunk, f"Anna{n} met Bob{chunk} in {revision if n < 3 else 0}.", **metadata
        )
        for n in range(6)
        for chunk in range(2)
    ]


def store(folder: Path, passages: list[Passage]) -> None:
    analyser = FakeAnalyser(ServiceSettings().analyser)
    index = PassageStore.create(folder, analyser.dimension, analyser.fingerprint)
    ingest(index, passages, analyser, entity_vectors=True)


def put(folder: Path) -> None:
    store(folder, [*corpus(revision=1), passage("new", 0, "Carl met Dora.")])


def delete(folder: Path) -> None:
    with PassageStore.open(folder).writer() as writer:
        writer.delete(["d1#0000", "d1#0001", "d4#0000", "d4#0001"])


def compact(folder: Path) -> None:
    with PassageStore.open(folder).writer() as writer:
        writer.compact()


def derive(folder: Path) -> None:
    read_corpus(PassageStore.open(folder))


class RefusedError(Exception):
    """A server answered 503, with a reason."""


def acknowledged(reply: Response, *codes: int) -> Response:
    """A reply that acknowledges a change; with any other it must be 503 and say why."""
    if reply.status_code in codes:
        return reply
    assert reply.status_code == 503, f"{reply.status_code} {reply.text:.200}"
    assert len(reply.json()["detail"]) > 40
    raise RefusedError(reply.json()["type"])


def http_put(client: TestClient) -> None:
    body = {"text": "Anna0 left. Carl met Dora.", "title": "d0", "metadata": {"year": 1850}}
    acknowledged(client.put("/v1/documents/d0", json=body), 200)


def http_metadata(client: TestClient) -> None:
    body = {"text": "Eve met Fred.", "title": "later", "metadata": {"year": 1850}}
    acknowledged(client.put("/v1/documents/later", json=body), 200, 201)


def job(client: TestClient) -> None:
    """Upload more documents than are written at once, and wait until a job of them rests."""
    lines = [json.dumps({"_id": f"up{n}", "text": f"Anna{n} met Gus."}) for n in range(7)]
    kind = {"content-type": "application/x-ndjson"}
    sent = client.post("/v1/documents", content="\n".join(lines), headers=kind)
    id_ = acknowledged(sent, 202).json()["id"]

    def rests() -> bool:
        reply = client.get(f"/v1/jobs/{id_}")
        seen = reply.json() if reply.status_code == 200 else {"waits_for": "a disk"}
        return bool(seen.get("waits_for") or seen["state"] in ("done", "failed"))

    until(rests)


def settle(client: TestClient) -> None:
    def jobs() -> list[dict[str, str]]:
        listed: list[dict[str, str]] = client.get("/v1/jobs").raise_for_status().json()["data"]
        return listed

    until(lambda: all(each["state"] in ("done", "failed") for each in jobs()))
    assert all(each["state"] == "done" for each in jobs()), jobs()


@contextmanager
def directly(work: Callable[[Path], object], folder: Path) -> Iterator[Callable[[], object]]:
    yield partial(work, folder)


@contextmanager
def served(work: Callable[[TestClient], object], folder: Path) -> Iterator[Callable[[], object]]:
    settings = ServiceSettings(
        serve=ServeSettings(refresh_seconds=0.02),
        documents=DocumentSettings(direct_passages=4, group_passages=4),
    )
    with (
        patch("wye.router.session.Analyser", FakeAnalyser),
        patch("wye.service.collections.Collection._warm_up"),  # nobody asks
        patch.multiple("wye.service.ingest.job_runner", _PAUSE=0.0, _POLL=0.02, _FIRST_PAUSE=0.02),
        patch.object(LOG, "disabled", True),
        inside(build(settings, {"default": partial(Session.open, settings, folder)})) as client,
    ):
        yield partial(work, client)
        settle(client)


Kind = Callable[[Path], AbstractContextManager[Callable[[], object]]]
KINDS: dict[str, Kind] = {
    "put": partial(directly, put),
    "metadata": partial(directly, lambda folder: store(folder, corpus(year=1850))),
    "delete": partial(directly, delete),
    "compact": partial(directly, compact),
    "repair": partial(directly, partial(repair, dry_run=False)),
    "derive": partial(directly, derive),
    "PUT": partial(served, http_put),
    "PUT metadata": partial(served, http_metadata),
    "DELETE": partial(served, lambda at: acknowledged(at.delete("/v1/documents/d1"), 200)),
    "job": partial(served, job),
}


def prepare(folder: Path, kind: str) -> None:
    """An index of several fragments with deleted rows.

    For a repair, the last chunks of a document are in a damaged file, and no version is whole.
    """
    store(folder, corpus())
    store(folder, [passage("later", 0, "Eve met Fred."), passage("gone", 0, "Gus met Hal.")])
    with PassageStore.open(folder).writer() as writer:
        writer.delete(["gone#0000"])
    if kind == "repair":
        half = corpus()
        half[1] = passage("d0", 1, "Ian met Jan.")
        store(folder, half)
        newest = max((folder / PASSAGES / "data").iterdir(), key=lambda path: path.stat().st_mtime)
        newest.write_bytes(newest.read_bytes()[:-50])
        for manifest in sorted((folder / PASSAGES / "_versions").glob("*.manifest"))[1:]:
            manifest.unlink()


def state(folder: Path) -> State:
    """The passages of each document, as a process that opens the index finds them."""
    read_corpus(PassageStore.open(folder))
    return {
        document.id: [(p.id, p.text, json.dumps(p.metadata)) for p in document.passages]
        for document in list_documents(folder).documents
    }


class Trials:
    """One kind of write, done again and again on a disk that fails at one operation."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Prepare an index, and count the operations of an undisturbed run."""
        self.failing = ctypes.CDLL(None)
        self.failing.operation.restype = ctypes.c_char_p
        self.kind = KINDS[kind]
        self.is_repair = kind == "repair"
        self.is_served = kind.partition(" ")[0] in ("PUT", "DELETE", "job")
        self.base, self.scratch = folder / "base", folder / "scratch"
        prepare(self.base, kind)
        self.before: State = {} if self.is_repair else state(self.base)
        self.operations: list[str] = []
        self.attempt(0, 0, 0)
        self.after = state(self.scratch)

    def attempt(self, number: int, mode: int, code: int) -> str:
        """Do it on a fresh copy, and note its operations, of which one fails; 0 for none.

        Returns:
            The kind of error, or "".
        """
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.base, self.scratch)
        with self.kind(self.scratch) as work:
            self.failing.fail_at(str(self.scratch).encode(), number, mode, code)
            try:
                work()
            except (OSError, BackendError) as error:  # a command ends with code 2 and a sentence
                assert not self.is_served
                return "OSError" if isinstance(error, OSError) else type(error).__name__
            except RefusedError as error:
                return str(error)
            finally:
                count = self.failing.counted()
                self.operations = [
                    str(self.failing.operation(n + 1), "utf-8") for n in range(count)
                ]
                self.failing.fail_at(b"", 0, 0, 0)
        return ""

    def harm(self, error: str) -> str:
        """What the last attempt did that it must not do; "" if nothing."""
        if not (self.is_repair and error):  # it is damaged until a repair succeeds
            now = state(self.scratch)
            if not error and now != self.after:
                return "acknowledged, and not there"
            if now not in (self.before, self.after):
                return f"neither the former nor the new state after {error}"
        with self.kind(self.scratch) as work:
            work()
        return "" if state(self.scratch) == self.after else f"not there in the end, after {error}"


def last_of_each(operations: list[str], *, by_folder: bool) -> set[int]:
    """The number of the last operation of each sort, and of each folder if wanted."""
    last: dict[object, int] = {}
    for number, operation in enumerate(operations, start=1):
        sort, _, name = operation.partition(" ")
        last[sort, by_folder and name.rpartition("/")[0]] = number
    return {*last.values()}


def run(folder: Path, kind: str, mode: str, sample: str) -> dict[str, object]:
    """Fail each operation of a sample, and report."""
    trials = Trials(folder, kind)
    undisturbed, faults = trials.operations, list[str]()
    ends = Counter[str]()
    numbers = [
        number
        for number, operation in enumerate(undisturbed, start=1)
        if mode != SILENTLY or re.match(r"\w*write \S+/(data|_deletions)/", operation)
    ]
    if sample == "some":  # requests take longer
        some = last_of_each(undisturbed, by_folder=not trials.is_served)
        numbers = [number for number in numbers if number in some]
    for number in numbers:
        ended = ""
        try:
            ended = trials.attempt(number, MODES[mode], ERRORS[number % 2])
            why = trials.harm(ended)
        except Exception as fault:  # noqa: BLE001 - every one is a finding
            why = f"{type(fault).__name__} after {ended or 'success'}: {fault}"[:300]
        ends[ended or "done"] += 1
        if why:
            faults.append(f"{undisturbed[number - 1]}: {why}")
    sorts = Counter(operation.partition(" ")[0] for operation in undisturbed)
    return {"kind": kind, "steps": len(numbers), "sorts": sorts, "ends": ends, "faults": faults}


def main(folder: Path, mode: str, sample: str, *kinds: str) -> None:
    vars(wye.backends.store.index)["DERIVED_FROM"] = (
        1  # all files are derived, of this small index too
    )
    for number, kind in enumerate(kinds):
        seen = run(folder / str(number), kind, mode, sample)
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
