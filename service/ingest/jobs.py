"""A job: an upload that is written while nobody waits for it."""

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from backends.files import sync
from backends.filters import Columns, Filter
from backends.types import Passage


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of one; times are seconds since 1970.

    Attributes:
        id: Ids of later jobs are greater.
        collection: That it is written to.
        documents: Of the upload.
        passages: That they were cut into.
        created: When the upload was accepted.
        state: Where it stands.
        done: Passages that are committed.
        added: Of these, those that are new.
        updated: Those that replaced others.
        unchanged: Those that were there like this already.
        removed: Former chunks that their documents no longer have.
        started: When writing began; None before.
        finished: When it ended; None before.
        index_version: Of its newest commit; None before the first.
        attempts: How often it was begun since anything was committed.
        waits_for: Who is writing, while it waits for them.
        error: Why it failed, or "".
    """

    id: str
    collection: str
    documents: int
    passages: int
    created: float
    state: State = State.QUEUED
    done: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    started: float | None = None
    finished: float | None = None
    index_version: int | None = None
    attempts: int = 0
    waits_for: str = ""
    error: str = ""

    def rate(self, now: float) -> float | None:
        """Passages a second since it began; None before."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)


# Jobs on disk, in the folder `jobs` of an index: what was accepted outlives any process.
#
# A job is a folder: `passages.jsonl`, `documents.json` and `job.json`. It is made under a name that
# begins with a dot, written through to the disk, and renamed; only then is it a job.
# `claim.lock` is
# held by the one process that works on them, and dies with it.


FOLDER = "jobs"
_CLAIM = "claim.lock"
_JOB = "job.json"
_PASSAGES = "passages.jsonl"
_DOCUMENTS = "documents.json"
_CANCEL = "cancel"
_ID = re.compile(r"job-[0-9a-f]{20}")
# A folder that was begun so long ago and is no job yet is of a process that was killed.
_ABANDONED_SECONDS = 3_600.0
_BLOCK = 1_024


class JobStore:
    """The jobs of one index; several processes may have one each."""

    def __init__(self, index: Path, collection: str) -> None:
        """Touch nothing yet.

        Args:
            index: Folder of the index.
            collection: Its name here.
        """
        self.folder = index / FOLDER
        self._collection = collection
        self._documents: dict[str, frozenset[str]] = {}
        self._ended: set[str] = set()

    def submit(self, passages: Iterable[Passage]) -> Job:
        """Make a job of passages; when this returns, it is on the disk.

        Raises:
            OSError: It cannot be written.
        """
        self.folder.mkdir(exist_ok=True)
        # Ids sort by time, so that jobs are done in the order in which they were accepted.
        id_ = f"job-{time.time_ns() // 1000:014x}{secrets.token_hex(3)}"
        making = self.folder / f".{id_}"
        making.mkdir()
        try:
            count = 0
            documents: dict[str, None] = {}
            with (making / _PASSAGES).open("w", encoding="ascii") as file:
                for passage in passages:
                    file.write(json.dumps(asdict(passage)) + "\n")
                    documents[passage.document] = None
                    count += 1
                _through(file)
            job = Job(id_, self._collection, len(documents), count, time.time())
            _write(making / _DOCUMENTS, list(documents))
            _write(making / _JOB, asdict(job))
            sync(making)
            making.rename(self.folder / id_)
            sync(self.folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        return job

    def jobs(self) -> list[Job]:
        """All that are known, oldest first."""
        return [job for id_ in self._ids() if (job := self.job(id_)) is not None]

    def unfinished(self) -> list[Job]:
        """Those that wait or run, oldest first."""
        found = []
        known = self._ids()
        self._ended.intersection_update(known)
        for id_ in known:
            if id_ not in self._ended and (job := self.job(id_)) is not None:
                if job.state.has_ended:  # for good, so it need not be read again
                    self._ended.add(id_)
                    self._documents.pop(id_, None)
                else:
                    found.append(job)
        return found

    def job(self, id_: str) -> Job | None:
        """A job by id; None if there is none."""
        if not _ID.fullmatch(id_):
            return None
        try:
            stored = json.loads((self.folder / id_ / _JOB).read_bytes())
        except FileNotFoundError:
            return None
        return Job(**{**stored, "state": State(stored["state"]), "collection": self._collection})

    def save(self, job: Job) -> None:
        """Write down where a job stands, whole or not at all."""
        folder = self.folder / job.id
        _write(folder / f".{_JOB}", asdict(job))
        (folder / f".{_JOB}").replace(folder / _JOB)
        if job.state.has_ended:
            sync(folder)

    def passages(self, job: Job) -> Iterator[Passage]:
        """What a job still has to write, in order."""
        with (self.folder / job.id / _PASSAGES).open("rb") as file:
            for number, line in enumerate(file):
                if number >= job.done:
                    yield Passage(**json.loads(line))

    def cancel(self, job: Job) -> None:
        """Ask whoever works on a job to stop, in whichever process."""
        (self.folder / job.id / _CANCEL).touch()

    def is_cancelled(self, job: Job) -> bool:
        """Whether somebody asked so."""
        return (self.folder / job.id / _CANCEL).exists()

    def writing(self, documents: Iterable[str]) -> tuple[Job, str] | None:
        """An unfinished job that is about one of some documents, and which; None if none is."""
        asked = list(documents)
        for job in self.unfinished():
            known = self._documents_of(job)
            if found := next((document for document in asked if document in known), None):
                return job, found
        return None

    def matching(self, filter_: Filter) -> tuple[Job, str] | None:
        """An unfinished job that will write a document which a filter lets through, and which."""
        for job in self.unfinished():
            passages = self.passages(job)
            while block := list(islice(passages, _BLOCK)):
                mask = filter_.mask(Columns([passage.metadata for passage in block]))
                if mask.any():
                    return job, block[int(mask.argmax())].document
        return None

    @contextmanager
    def claim(self) -> Iterator[bool]:
        """Be the one who works on jobs; False when another process is."""
        lock = FileLock(
            self.folder / _CLAIM, blocking=False, thread_local=False, fallback_to_soft=False
        )
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def sweep(self, keep_seconds: float) -> None:
        """Forget jobs that ended long ago, and what killed processes left behind."""
        now = time.time()
        for job in self.jobs():
            if job.finished is not None and job.finished < now - keep_seconds:
                shutil.rmtree(self.folder / job.id, ignore_errors=True)
        for path in _entries(self.folder):
            if _ID.fullmatch(path.name.removeprefix(".")) and path.name.startswith("."):
                begun = int(path.name[5:19], 16) / 1e6
                if begun < now - _ABANDONED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)

    def _ids(self) -> list[str]:
        """Of all jobs, oldest first."""
        return sorted(path.name for path in _entries(self.folder) if _ID.fullmatch(path.name))

    def _documents_of(self, job: Job) -> frozenset[str]:
        if job.id not in self._documents:
            stored = (self.folder / job.id / _DOCUMENTS).read_bytes()
            self._documents[job.id] = frozenset(json.loads(stored))
        return self._documents[job.id]


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, which need not exist."""
    return list(folder.iterdir()) if folder.is_dir() else []


def _write(path: Path, value: object) -> None:
    with path.open("w", encoding="ascii") as file:
        json.dump(value, file)
        _through(file)


def _through(file: TextIO) -> None:
    """Have what was written to a file on the disk."""
    file.flush()
    os.fsync(file.fileno())
