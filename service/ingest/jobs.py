"""Jobs: uploads that are written in the background, in a SQLite database beside their index."""

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import FiniteFloat, Strict, TypeAdapter

from wye.backends.files import sync
from wye.backends.filters import Columns, Filter
from wye.backends.types import Passage
from wye.service.logs import LOG

FOLDER = "jobs"
DATABASE = "jobs.sqlite3"
# Prefix of folders of damaged databases, which are kept until somebody deletes them.
_DAMAGED = "damaged-"
# How long a process waits for another one's commit.
_PATIENCE_SECONDS = 10.0
# An upload that is not accepted after so long was left by a killed process.
_ABANDONED_SECONDS = 3_600.0
# Passages in a transaction, so that others need not wait long for theirs.
_BLOCK = 1_024


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether the state is final."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """A job and its progress; times are seconds since 1970.

    Attributes:
        documents: How many documents it has.
        passages: How many passages these were cut into.
        done: Passages that are committed.
        removed: Former chunks that the documents no longer have.
        index_version: Version of its newest commit; None before the first.
        attempts: How often it was begun since its last commit.
        waits_for: The writer, the models or the next try that it is waiting for, or "".
        error: What in its documents made it fail, or "".
    """

    id: Annotated[str, Strict()]  # a blob would be no row that can be changed
    collection: str
    documents: int
    passages: int
    created: FiniteFloat
    state: State = State.QUEUED
    done: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    started: FiniteFloat | None = None
    finished: FiniteFloat | None = None
    index_version: int | None = None
    attempts: int = 0
    waits_for: str = ""
    error: str = ""

    def rate(self, now: float) -> float | None:
        """Passages a second since it began; None before that."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)


COLUMNS = tuple(field.name for field in fields(Job) if field.name != "collection")
"""Stored fields; the name of a collection, which servers choose, is not stored."""

_JOB, _PASSAGE = TypeAdapter(Job), TypeAdapter(Passage)
_UNFINISHED = "state IN ('queued', 'running')"
_ASSIGNMENTS = ", ".join(f"{name} = :{name}" for name in COLUMNS)
_INSERT_PASSAGE = "INSERT OR IGNORE INTO passages VALUES (?, ?, ?, ?)"
# The number of the schema; a file with another is not a database of jobs.
_FORMAT = 1
# A job's row is stored after all of its passages, and makes it accepted. Row ids ascend in the
# order of acceptance, which times do not: a clock may be set back.
_SCHEMA = f"""
PRAGMA auto_vacuum = FULL;
PRAGMA user_version = {_FORMAT};
CREATE TABLE jobs ({", ".join(COLUMNS)}, is_cancelled DEFAULT 0, PRIMARY KEY (id));
CREATE TABLE passages (
    job TEXT, number INTEGER, document TEXT, passage TEXT, PRIMARY KEY (job, number)
);
CREATE INDEX documents ON passages (document, job);
"""


class JobStore:
    """The jobs of one index, for any thread; several processes may have a store each.

    Accepted jobs survive crashes and power cuts. A file lock, which ends with its holder, tells
    which process runs jobs. A job that cannot be read counts as failed. A damaged database is set
    aside, and the whole jobs in it move to a new one.

    All methods that read or write the database raise an `OSError` if they cannot.
    """

    def __init__(self, index: Path, collection: str) -> None:
        """Keep the folder of an index and its name here; nothing is created before a job."""
        self.folder = index / FOLDER
        self._collection = collection
        self._path = self.folder / DATABASE
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._opened = (0, False)
        self._opening = FileLock(
            self.folder / "opening.lock",
            timeout=_PATIENCE_SECONDS,
            thread_local=False,
            fallback_to_soft=False,
        )

    @property
    def fault(self) -> str:
        """Which jobs were damaged and what to do about it; "" for none."""
        damaged = ", ".join(sorted(path.name for path in self.folder.glob(f"{_DAMAGED}*")))
        return damaged and (
            f"Jobs that could not be read were set aside in the index's folder '{FOLDER}': "
            f"{damaged}. /v1/jobs lists those that are known; send missing documents again, then "
            "delete the damaged files."
        )

    def submit(self, passages: Iterable[Passage]) -> Job:
        """Make a job of passages; when this returns, it is on the disk, after all earlier ones."""
        id_ = f"job-{_time_digits(time.time())}{secrets.token_hex(3)}"
        count = 0
        documents: set[str] = set()
        numbered = enumerate(passages)
        try:
            while block := list(islice(numbered, _BLOCK)):
                rows = ((id_, n, p.document, json.dumps(asdict(p))) for n, p in block)
                with self.transaction() as database:
                    database.executemany(_INSERT_PASSAGE, rows)
                count += len(block)
                documents.update(passage.document for _, passage in block)
            job = Job(id_, self._collection, len(documents), count, time.time())
            with self.transaction() as database:
                if not _insert(database, job):
                    raise OSError(f"passages of {id_} were deleted")
        except BaseException:
            with suppress(OSError):
                self._delete([id_])
            raise
        return job

    def jobs(self) -> list[Job]:
        """All jobs, in the order of acceptance."""
        return self._select("ORDER BY rowid")

    def unfinished(self) -> list[Job]:
        """Jobs that are queued or running, in the order of acceptance."""
        jobs = self._select(f"WHERE {_UNFINISHED} ORDER BY rowid")
        return [job for job in jobs if not job.state.has_ended]

    def job(self, id_: str) -> Job | None:
        """A job by id; None if there is none."""
        return next(iter(self._select("WHERE id = ?", id_)), None)

    def save(self, job: Job) -> None:
        """Store a job's progress."""
        with self.transaction() as database:
            query = f"UPDATE jobs SET {_ASSIGNMENTS} WHERE id = :id"
            if database.execute(query, asdict(job)).rowcount != 1:
                raise OSError(f"job {job.id} was deleted")

    def passages(self, job: Job) -> Iterator[Passage]:
        """The passages that a job still has to write, in order.

        Raises:
            ValueError: A passage cannot be read, or is missing.
        """
        query = "SELECT passage FROM passages WHERE job = ? AND number >= ? ORDER BY number LIMIT ?"
        position = job.done
        while rows := self.rows(query, job.id, position, _BLOCK):
            yield from (_PASSAGE.validate_json(str(passage)) for (passage,) in rows)
            position += len(rows)
        if position != job.passages:
            raise ValueError(f"only {position} of its {job.passages} passages exist")

    def cancel(self, job: Job) -> None:
        """Cancel a queued job at once, or ask the process that runs it to stop."""
        with self.transaction() as database:
            database.execute("UPDATE jobs SET is_cancelled = 1 WHERE id = ?", [job.id])
            database.execute(
                "UPDATE jobs SET state = ?, finished = ? WHERE id = ? AND state = ?",
                [State.CANCELLED, time.time(), job.id, State.QUEUED],
            )

    def is_cancelled(self, job: Job) -> bool:
        """Whether a job is to stop."""
        return self.rows("SELECT is_cancelled FROM jobs WHERE id = ?", job.id) == [(1,)]

    def writing(self, documents: Iterable[str]) -> tuple[Job, str] | None:
        """An unfinished job that writes one of these documents, and which; None if none does."""
        rows = self.rows(
            "SELECT job, document FROM json_each(?) JOIN passages ON document = value "
            f"JOIN jobs ON jobs.id = job WHERE {_UNFINISHED} ORDER BY job LIMIT 1",
            json.dumps(list(documents)),
        )
        return next(((job, name) for id_, name in rows if (job := self.job(id_))), None)

    def shares_documents(self, job: Job, others: Sequence[Job]) -> bool:
        """Whether a job writes a document that another of some jobs writes."""
        rows = self.rows(
            "SELECT 1 FROM passages AS written JOIN passages AS others USING (document) "
            "JOIN json_each(?) ON others.job = value WHERE written.job = ? LIMIT 1",
            json.dumps([other.id for other in others]),
            job.id,
        )
        return bool(rows)

    def matching(self, filter_: Filter) -> tuple[Job, str] | None:
        """An unfinished job that writes a document that passes a filter, and which document."""
        for job in self.unfinished():
            passages = self.passages(job)
            with suppress(ValueError):  # an unreadable job fails when it is run
                while block := list(islice(passages, _BLOCK)):
                    mask = filter_.mask(Columns([passage.metadata for passage in block]))
                    if mask.any():
                        return job, block[int(mask.argmax())].document
        return None

    def ahead(self, job: Job) -> tuple[int, float]:
        """Passages to write until a job ends, and an estimate of the seconds that takes.

        The rate is that of the first unfinished job, or ten a second before it has written any.
        """
        unfinished = self.unfinished()
        ids = [each.id for each in unfinished]
        jobs = unfinished[: ids.index(job.id) + 1] if job.id in ids else []
        count = sum(each.passages - each.done for each in jobs)
        return count, count / ((jobs and jobs[0].rate(time.time())) or 10)

    def sweep(self, keep_seconds: float) -> None:
        """Delete jobs that ended long ago, and the passages that killed processes left."""
        self.jobs()  # stores when those that cannot be read ended
        now = time.time()
        rows = self.rows(
            "SELECT id FROM jobs WHERE finished < ? UNION SELECT DISTINCT job FROM passages "
            "WHERE job < ? AND job NOT IN (SELECT id FROM jobs)",
            now - keep_seconds,
            f"job-{_time_digits(now - _ABANDONED_SECONDS)}",
        )
        if rows:
            self._delete([id_ for (id_,) in rows])

    def claim(self) -> FileLock:
        """The lock of the process that runs the jobs; to enter it raises `Timeout` in any other."""
        return FileLock(self.folder / "claim.lock", blocking=False, fallback_to_soft=False)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none if there never was a job."""
        if not self._path.exists():
            return []
        with self._open() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is on the disk when the block ends without error."""
        with self._open() as database:
            with database:
                database.execute("BEGIN IMMEDIATE")
                yield database
            if self._file() != self._opened:
                raise OSError(f"{DATABASE} was set aside by another process")

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _select(self, condition: str, *values: object) -> list[Job]:
        query = f"SELECT rowid, {', '.join(COLUMNS)} FROM jobs {condition}"
        return [self._job(number, row) for number, *row in self.rows(query, *values)]

    def _job(self, number: int, row: Sequence[object]) -> Job:
        """Make a job of its row; an unreadable one is stored as failed."""
        try:
            return parse_job(row, self._collection)
        except ValueError as error:
            id_ = row[0] if isinstance(row[0], str) else f"job-{number}"
            LOG.error("job unreadable", extra={"job": id_, "error": str(error)})
            job = _unreadable(id_, "its entry is damaged", self._collection)
        with suppress(OSError), self.transaction() as database:
            query = f"UPDATE jobs SET {_ASSIGNMENTS} WHERE rowid = :number"
            database.execute(query, {**asdict(job), "number": number})
        return job

    def _delete(self, ids: Sequence[str]) -> None:
        """Delete jobs, accepted or not; their space returns to the disk."""
        named = "(SELECT value FROM json_each(?))"
        with self.transaction() as database:
            database.execute(f"DELETE FROM passages WHERE job IN {named}", [json.dumps(ids)])
            database.execute(f"DELETE FROM jobs WHERE id IN {named}", [json.dumps(ids)])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The open database, for one thread at a time; it is created if there is none.

        It is opened again if the index was deleted, another process has set the database aside,
        or the disk can be written again. If it shows damage, it is replaced.

        Raises:
            OSError: It cannot be opened, or the block raised an error of SQLite.
        """
        with self._lock:
            try:
                try:
                    if self._database is not None and self._file() != self._opened:
                        self.close()
                    if self._database is None:
                        self._database = self._connect()
                    yield self._database
                except sqlite3.Error as error:
                    self._replace(error)
                    raise
            except sqlite3.Error as error:
                raise OSError(f"{DATABASE}: {error}") from error
            except Timeout as error:
                raise OSError(f"{DATABASE}: another process is slow to open it") from error

    def _file(self) -> tuple[int, bool]:
        """Inode of the database, 0 if there is none, and whether it may be written."""
        may_write = os.access(self.folder, os.W_OK)
        if not self._path.exists():
            return 0, may_write
        return self._path.stat().st_ino, may_write and os.access(self._path, os.W_OK)

    def _connect(self) -> sqlite3.Connection:
        self.folder.mkdir(exist_ok=True)
        self._opened = self._file()
        if not self._opened[1]:  # open it for reading, as it is
            is_open = self._path.with_name(f"{DATABASE}-wal").exists()
            return _connection(self._path, "mode=ro" if is_open else "immutable=1")
        with self._opening:
            self._opened = self._file()
            if not self._path.exists():
                self._create()
            try:
                return _open_existing(self._path)
            except sqlite3.Error as error:
                self._replace(error)
            return _open_existing(self._path)

    def _create(self, damaged: sqlite3.Connection | None = None) -> None:
        """Make a database with what can be read of a damaged one, which is set aside."""
        path = self._path.with_suffix(".new")
        path.unlink(missing_ok=True)
        with closing(_connection(path)) as database:
            database.executescript(_SCHEMA)
            if damaged is not None:
                _rescue(damaged, database)
        sync(path)
        aside = f"{_DAMAGED}{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"
        # The write-ahead log first, so that it is not taken for one of the new database. It is left
        # without a database if somebody deleted only that.
        for suffix in ("-wal", "-shm", ""):
            old = self._path.with_name(DATABASE + suffix)
            if damaged is None:
                old.unlink(missing_ok=True)
            elif old.exists():
                (self.folder / aside).mkdir(exist_ok=True)
                old.rename(self.folder / aside / old.name)
        path.rename(self._path)
        sync(self.folder)
        sync(self.folder.parent)
        self._opened = self._file()

    def _replace(self, error: sqlite3.Error) -> None:
        """Replace a damaged database, unless another process has; raise any other error again."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_damage = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        if not (is_damage and self._file()[1]):
            raise error
        with self._opening:
            if self._file() != self._opened:
                return
            self.close()
            with closing(_connection(self._path)) as damaged:
                with suppress(sqlite3.Error):
                    damaged.execute("BEGIN IMMEDIATE")  # keeps others from writing meanwhile
                self._create(damaged)
        LOG.error("database of jobs damaged", extra={"error": str(error), "fault": self.fault})


def parse_job(row: Sequence[object], collection: str = "") -> Job:
    """Make a job of its stored values, in the order of `COLUMNS`, or raise a `ValueError`."""
    values = dict(zip(COLUMNS, row, strict=True))
    return _JOB.validate_python({**values, "collection": collection})


def _unreadable(id_: str, reason: str, collection: str = "") -> Job:
    """A failed job, listed instead of one that cannot be read."""
    error = f"It cannot be read ({reason}). Send its documents again."
    now = time.time()
    return Job(id_, collection, 0, 0, now, State.FAILED, finished=now, error=error)


def _insert(database: sqlite3.Connection, job: Job, *, is_cancelled: bool = False) -> bool:
    """Store a job after all others, if all passages of it are stored that it may still need."""
    ((count,),) = database.execute("SELECT count(*) FROM passages WHERE job = ?", [job.id])
    is_whole = job.state.has_ended or count == job.passages
    names = (*COLUMNS, "is_cancelled")
    query = f"INSERT OR IGNORE INTO jobs ({', '.join(names)}) VALUES (:{', :'.join(names)})"
    if is_whole:
        database.execute(query, {**asdict(job), "is_cancelled": is_cancelled})
    return is_whole


def _rescue(damaged: sqlite3.Connection, database: sqlite3.Connection) -> None:
    """Copy the jobs that can be read; of one that is not whole, an entry says that it failed."""

    def readable(query: str) -> Iterator[tuple[Any, ...]]:
        with suppress(sqlite3.Error):  # up to the first row that cannot be read
            yield from damaged.execute(query)

    with database:
        database.execute("BEGIN")
        # From both ends up to the damage, without indexes, which may be damaged too.
        for order in ("ASC", "DESC"):
            query = f"SELECT job, number, document, passage FROM passages ORDER BY rowid {order}"
            database.executemany(_INSERT_PASSAGE, readable(query))
        query = f"SELECT is_cancelled, {', '.join(COLUMNS)} FROM jobs ORDER BY rowid"
        for is_cancelled, *row in readable(query):
            reason = "the database was damaged"
            try:
                job = parse_job(row)
            except ValueError:
                job = _unreadable(str(row[0]), reason)
            if not _insert(database, job, is_cancelled=bool(is_cancelled)):
                _insert(database, _unreadable(job.id, reason))


def _connection(path: Path, how: str = "mode=rwc") -> sqlite3.Connection:
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        timeout=_PATIENCE_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    database.text_factory = lambda text: text.decode(errors="replace")
    return database


def _open_existing(path: Path) -> sqlite3.Connection:
    """Open an existing database for writing.

    Raises:
        sqlite3.Error: It is damaged, or not a database of jobs.
    """
    database = _connection(path)
    try:
        if database.execute("PRAGMA user_version").fetchone() != (_FORMAT,):
            error = sqlite3.DatabaseError("it is not a database of jobs")
            error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
            raise error
        database.execute("PRAGMA journal_mode = WAL").fetchall()
        database.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _time_digits(seconds: float) -> str:
    """Microseconds as hexadecimal digits that sort by time."""
    return f"{int(seconds * 1e6):014x}"
