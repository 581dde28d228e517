"""Jobs: uploads that are written while nobody waits, kept in SQLite beside their index."""

import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

from filelock import FileLock, Timeout

from backends.files import sync
from backends.filters import Columns, Filter
from backends.types import Passage
from service.logs import LOG


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
        passages: That its documents were cut into.
        done: Passages that are committed.
        removed: Former chunks that their documents no longer have.
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


FOLDER = "jobs"
DATABASE = "jobs.sqlite3"
_CLAIM = "claim.lock"
_OPENING = "opening.lock"
# How long one process waits for another to commit.
_PATIENCE_SECONDS = 60.0
# What was begun so long ago and is no job yet is of a process that was killed.
_ABANDONED_SECONDS = 3_600.0
# Passages to a commit, so that nobody waits long for his.
_BLOCK = 1_024

# The name of the collection is the server's.
_FIELDS = tuple(field.name for field in fields(Job) if field.name != "collection")
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM jobs WHERE is_accepted"
_UNFINISHED = "state IN ('queued', 'running')"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS jobs (
    {", ".join(_FIELDS)}, is_accepted DEFAULT 0, is_cancelled DEFAULT 0, PRIMARY KEY (id)
);
CREATE TABLE IF NOT EXISTS passages (
    job TEXT, number INTEGER, document TEXT, passage TEXT, PRIMARY KEY (job, number)
);
CREATE INDEX IF NOT EXISTS documents ON passages (document, job);
"""


class JobStore:
    """The jobs of one index; several processes may have one each, and any thread may ask.

    What was accepted outlives any process, and a power cut. A file lock, which dies with its
    holder, says which process does jobs.
    """

    def __init__(self, index: Path, collection: str) -> None:
        """Touch nothing yet in the folder of an index, which has this name here."""
        self.folder = index / FOLDER
        self._path = self.folder / DATABASE
        self._collection = collection
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._has_adopted = False

    def submit(self, passages: Iterable[Passage]) -> Job:
        """Make a job of passages; when this returns, it is on the disk.

        Raises:
            OSError: It cannot be written.
        """
        # Ids sort by time, so that jobs are done in the order in which they were accepted.
        id_ = f"job-{_time_of(time.time())}{secrets.token_hex(3)}"
        with self._change() as database:
            database.execute("INSERT INTO jobs (id) VALUES (?)", [id_])
        try:
            count = 0
            documents: set[str] = set()
            numbered = enumerate(passages)
            while block := list(islice(numbered, _BLOCK)):
                with self._change() as database:
                    _insert(database, id_, block)
                count += len(block)
                documents.update(passage.document for _, passage in block)
            job = Job(id_, self._collection, len(documents), count, time.time())
            self.save(job, accept=True)
        except BaseException:
            with suppress(OSError):
                self._forget(id_)
            raise
        return job

    def jobs(self) -> list[Job]:
        """All that are known, oldest first."""
        return [self._job(row) for row in self._rows(f"{_SELECT} ORDER BY id")]

    def unfinished(self) -> list[Job]:
        """Those that wait or run, oldest first."""
        return [self._job(row) for row in self._rows(f"{_SELECT} AND {_UNFINISHED} ORDER BY id")]

    def job(self, id_: str) -> Job | None:
        """A job by id; None if there is none."""
        return next(map(self._job, self._rows(f"{_SELECT} AND id = ?", id_)), None)

    def save(self, job: Job, *, accept: bool = False) -> None:
        """Write down where a job stands; `accept` it once all its passages are there.

        Raises:
            OSError: It cannot be written, or is there no more.
        """
        stands = ", ".join(f"{name} = :{name}" for name in _FIELDS)
        if accept:
            stands += ", is_accepted = 1"
        with self._change() as database:
            done = database.execute(f"UPDATE jobs SET {stands} WHERE id = :id", asdict(job))
            if done.rowcount != 1:
                raise OSError(f"job {job.id} was taken away")

    def passages(self, job: Job) -> Iterator[Passage]:
        """What a job still has to write, in order."""
        query = "SELECT passage FROM passages WHERE job = ? AND number >= ? ORDER BY number LIMIT ?"
        done = job.done
        while rows := self._rows(query, job.id, done, _BLOCK):
            yield from (Passage(**json.loads(passage)) for (passage,) in rows)
            done += len(rows)

    def cancel(self, job: Job) -> None:
        """Ask whoever works on a job to stop, in whichever process; one that waits ends at once."""
        with self._change() as database:
            database.execute("UPDATE jobs SET is_cancelled = 1 WHERE id = ?", [job.id])
            database.execute(
                "UPDATE jobs SET state = ?, finished = ? WHERE id = ? AND state = ?",
                [State.CANCELLED, time.time(), job.id, State.QUEUED],
            )

    def is_cancelled(self, job: Job) -> bool:
        """Whether somebody asked so."""
        return self._rows("SELECT is_cancelled FROM jobs WHERE id = ?", job.id) == [(1,)]

    def writing(self, documents: Iterable[str]) -> tuple[Job, str] | None:
        """An unfinished job that is about one of some documents, and which; None if none is."""
        rows = self._rows(
            "SELECT job, document FROM json_each(?) JOIN passages ON document = value "
            f"JOIN jobs ON jobs.id = job WHERE is_accepted AND {_UNFINISHED} ORDER BY job LIMIT 1",
            json.dumps(list(documents)),
        )
        for id_, document in rows:
            job = self.job(id_)
            return None if job is None else (job, document)
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
        rows = self._rows(
            "SELECT id FROM jobs WHERE finished < ? OR (NOT is_accepted AND id < ?)",
            now - keep_seconds,
            f"job-{_time_of(now - _ABANDONED_SECONDS)}",
        )
        for (id_,) in rows:
            self._forget(id_)
        if rows:
            with self._lock, _refused():
                # A script, since a single statement would give back a single page.
                self._open().executescript("PRAGMA incremental_vacuum")

    def close(self) -> None:
        """Let go of the database; whoever asks again opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _job(self, row: tuple[Any, ...]) -> Job:
        stored = dict(zip(_FIELDS, row, strict=True))
        return Job(**{**stored, "state": State(stored["state"]), "collection": self._collection})

    def _forget(self, id_: str) -> None:
        """Delete a job, or what was to become one, some passages at a time."""
        some = "SELECT rowid FROM passages WHERE job = ? LIMIT ?"
        deleted = 1
        while deleted:
            with self._change() as database:
                query = f"DELETE FROM passages WHERE rowid IN ({some})"
                deleted = database.execute(query, [id_, 8 * _BLOCK]).rowcount
        with self._change() as database:
            database.execute("DELETE FROM jobs WHERE id = ?", [id_])

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query gives; nothing where there never was a job.

        Raises:
            OSError: The database cannot be read.
        """
        with self._lock, _refused():
            if not self._path.exists() and not self._former_jobs():
                return []
            return self._open().execute(query, values).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction; on the disk, whole, when it ends without error.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock, _refused():
            database = self._open()
            with _transaction(database):
                yield database

    def _open(self) -> sqlite3.Connection:
        """The database, made if there is none."""
        if self._database is not None and not (
            self._path.exists() and self._path.stat().st_ino == self._inode
        ):
            self.close()  # somebody deleted the index
        if self._database is None:
            self._database = self._connect()
            self._inode = self._path.stat().st_ino
            self._has_adopted = False
        if not self._has_adopted:
            self._has_adopted = self._adopt(self._database)
        return self._database

    def _connect(self) -> sqlite3.Connection:
        self.folder.mkdir(exist_ok=True)
        address = self._path.absolute().as_uri()
        if not os.access(self.folder, os.W_OK):  # only to be looked at, as it is
            is_open = self._path.with_name(f"{DATABASE}-wal").exists()
            address += "?mode=ro" if is_open else "?immutable=1"
            return sqlite3.connect(address, uri=True, check_same_thread=False)
        with FileLock(self.folder / _OPENING, thread_local=False, fallback_to_soft=False):
            database = sqlite3.connect(
                address,
                timeout=_PATIENCE_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            database.executescript(_SCHEMA)
            sync(self.folder)
            sync(self.folder.parent)
        return database

    def _adopt(self, database: sqlite3.Connection) -> bool:
        """Take over jobs that are folders, as they used to be; True when none is left.

        A folder is deleted when its job is in the database; one that is in both, because a process
        was killed in between, stands as the database says.
        """
        folders = self._former_jobs()
        if not folders:
            return True
        with self.claim() as is_ours:
            for folder in folders if is_ours else ():
                try:
                    if not folder.name.startswith("."):  # else its process was killed too early
                        _adopt(folder, database)
                    shutil.rmtree(folder)
                except (ValueError, TypeError, KeyError) as error:
                    LOG.error("job not taken over", extra={"job": folder.name, "error": str(error)})
        return is_ours

    def _former_jobs(self) -> list[Path]:
        """Folders that are to be taken over; none where they cannot be, on a disk to be read."""
        found = [path for pattern in ("job-*", ".job-*") for path in self.folder.glob(pattern)]
        return sorted(found) if found and os.access(self.folder, os.W_OK) else []


def _adopt(folder: Path, database: sqlite3.Connection) -> None:
    """Copy a job that is a folder with `job.json` and `passages.jsonl`, and `cancel` if asked."""
    stored = json.loads((folder / "job.json").read_bytes())
    job = Job(**{**stored, "state": State(stored["state"])})
    with _transaction(database):
        names = ", ".join(_FIELDS)
        values = ", ".join(f":{name}" for name in _FIELDS)
        done = database.execute(
            f"INSERT OR IGNORE INTO jobs ({names}, is_accepted, is_cancelled) "
            f"VALUES ({values}, 1, :is_cancelled)",
            {**asdict(job), "is_cancelled": int((folder / "cancel").exists())},
        )
        if done.rowcount and not job.state.has_ended:
            with (folder / "passages.jsonl").open("rb") as file:
                passages = (Passage(**json.loads(line)) for line in file)
                _insert(database, job.id, enumerate(passages))


def _insert(
    database: sqlite3.Connection, job: str, passages: Iterable[tuple[int, Passage]]
) -> None:
    rows = ((job, n, each.document, json.dumps(asdict(each))) for n, each in passages)
    database.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def _refused() -> Iterator[None]:
    """A disk that refuses is the same to everybody, whoever asked it."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"{DATABASE}: {error}") from error


def _time_of(seconds: float) -> str:
    """Microseconds, in letters that sort as numbers do."""
    return f"{int(seconds * 1e6):014x}"
