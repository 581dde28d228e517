"""Jobs: uploads that are written in the background, in the order in which they were accepted.

A job is a file beside its index, with a passage on each line, and a row of a SQLite table, which is
stored after the file and makes the job accepted. When a job ends, its file goes.
"""

import json
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

from wye.backends.files import sync, write_atomically
from wye.backends.filters import Columns, Filter
from wye.backends.types import Passage
from wye.service.logs import LOG

FOLDER = "jobs"
DATABASE = "jobs.sqlite3"
# Prefix of folders of damaged databases, which are kept until somebody deletes them.
_DAMAGED = "damaged-"
# How long a process waits for another one's commit.
_PATIENCE_SECONDS = 10.0
# The file of an upload that is not accepted after so long was left by a killed process.
_ABANDONED_SECONDS = 3_600.0
# Passages that are filtered together.
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
_INSERT = (
    f"INSERT OR REPLACE INTO jobs ({', '.join(COLUMNS)}, names) VALUES (:{', :'.join(COLUMNS)}, "
    ":names)"
)
# The number of the schema; a file with another is not a database of jobs.
_FORMAT = 2
# Row ids ascend in the order of acceptance, which times do not: a clock may be set back. `names`
# has the ids of the documents.
_SCHEMA = f"""
PRAGMA user_version = {_FORMAT};
CREATE TABLE jobs ({", ".join(COLUMNS)}, names, is_cancelled DEFAULT 0, PRIMARY KEY (id));
"""


class JobStore:
    """The jobs of one index, for any thread; several processes may have a store each.

    Accepted jobs survive crashes and power cuts. A file lock, which ends with its holder, tells
    which process runs jobs. A job that cannot be read counts as failed. A damaged database is set
    aside, and a new one has the jobs whose files are there, which begin again.

    All methods that read or write the database raise an `OSError` if they cannot.
    """

    def __init__(self, index: Path, collection: str) -> None:
        """Keep the folder of an index and its name here; nothing is created before a job."""
        self.folder = index / FOLDER
        self._collection = collection
        self._path = self.folder / DATABASE
        self._lock = RLock()
        self._making = self._file_lock("making", _PATIENCE_SECONDS)

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
        id_ = f"job-{int(time.time() * 1e6):014x}{secrets.token_hex(3)}"
        self.folder.mkdir(exist_ok=True)
        count, names = 0, dict[str, None]()
        try:
            with write_atomically(self.file(id_)) as file:
                for passage in passages:
                    file.write(json.dumps(asdict(passage)).encode() + b"\n")
                    names[passage.document] = None
                    count += 1
            job = Job(id_, self._collection, len(names), count, time.time())
            with self.transaction() as database:
                database.execute(_INSERT, {**asdict(job), "names": json.dumps([*names])})
        except BaseException:
            with suppress(OSError):
                self.file(id_).unlink(missing_ok=True)
                with self.transaction() as database:
                    database.execute("DELETE FROM jobs WHERE id = ?", [id_])
            raise
        return job

    def file(self, id_: str) -> Path:
        """The file of a job's passages."""
        return self.folder / f"{id_}.jsonl"

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
        if job.state.has_ended:
            self.file(job.id).unlink(missing_ok=True)

    def passages(self, job: Job) -> Iterator[Passage]:
        """The passages that a job still has to write, in order.

        Raises:
            ValueError: A passage cannot be read, or is missing.
        """
        count = 0
        if self.file(job.id).exists():
            with self.file(job.id).open("rb") as file:
                for count, line in enumerate(file, start=1):
                    if count > job.done:
                        yield _PASSAGE.validate_json(line)
        if count != job.passages:
            raise ValueError(f"only {count} of its {job.passages} passages exist")

    def cancel(self, job: Job) -> None:
        """Cancel a queued job at once, or ask the process that runs it to stop."""
        with self.transaction() as database:
            database.execute("UPDATE jobs SET is_cancelled = 1 WHERE id = ?", [job.id])
            query = "UPDATE jobs SET state = ?, finished = ? WHERE id = ? AND state = ?"
            values = State.CANCELLED, time.time(), job.id, State.QUEUED
            has_ended = database.execute(query, values).rowcount
        if has_ended:
            self.file(job.id).unlink(missing_ok=True)

    def is_cancelled(self, job: Job) -> bool:
        """Whether a job is to stop."""
        return self.rows("SELECT is_cancelled FROM jobs WHERE id = ?", job.id) == [(1,)]

    def writing(self, documents: Iterable[str]) -> tuple[Job, str] | None:
        """An unfinished job that writes one of these documents, and which; None if none does."""
        rows = self.rows(
            f"SELECT jobs.id, value FROM jobs, json_each(names) WHERE {_UNFINISHED} "
            "AND value IN (SELECT value FROM json_each(?)) ORDER BY jobs.rowid LIMIT 1",
            json.dumps(list(documents)),
        )
        return next(((job, name) for id_, name in rows if (job := self.job(id_))), None)

    def shares_documents(self, job: Job, others: Sequence[Job]) -> bool:
        """Whether a job writes a document that another of some jobs writes."""
        ids = "(SELECT value FROM json_each(?))"
        names = f"SELECT value FROM jobs, json_each(names) WHERE jobs.id IN {ids}"
        query = f"{names} INTERSECT {names} LIMIT 1"
        values = json.dumps([job.id]), json.dumps([other.id for other in others])
        return bool(self.rows(query, *values))

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
        """Delete jobs that ended long ago, and the files that killed processes left."""
        self.jobs()  # stores when those that cannot be read ended
        now = time.time()
        ended = self.rows("SELECT id FROM jobs WHERE finished < ?", now - keep_seconds)
        if ended:
            with self.transaction() as database:
                database.executemany("DELETE FROM jobs WHERE id = ?", ended)
        stored = {self.file(id_) for (id_,) in self.rows("SELECT id FROM jobs")}
        for path in [*self.folder.glob("job-*"), *self.folder.glob(".job-*")]:
            with suppress(FileNotFoundError):
                if path not in stored and path.stat().st_mtime < now - _ABANDONED_SECONDS:
                    path.unlink()

    def claim(self) -> FileLock:
        """The lock of the process that runs the jobs; to enter it raises `Timeout` in any other."""
        return self._file_lock("claim", 0)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none if there never was a job."""
        if not self._path.exists():
            return []
        with self._open() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is on the disk when the block ends without error."""
        if not self._path.exists():
            self._make()
        before = self._inode()
        with self._open() as database:
            with database:
                database.execute("BEGIN IMMEDIATE")
                yield database
            if self._inode() != before:
                raise OSError(f"{DATABASE} was set aside by another process")

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
        job = _unreadable(id_, self._collection)
        with suppress(OSError), self.transaction() as database:
            query = f"UPDATE jobs SET {_ASSIGNMENTS} WHERE rowid = :number"
            database.execute(query, {**asdict(job), "number": number})
        return job

    def _file_lock(self, name: str, timeout: float) -> FileLock:
        path = self.folder / f"{name}.lock"
        return FileLock(path, timeout=timeout, thread_local=False, fallback_to_soft=False)

    def _inode(self) -> int:
        """Identifies the database's file; 0 if there is none."""
        return self._path.stat().st_ino if self._path.exists() else 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database, which must exist. If it shows damage, it is replaced.

        Raises:
            OSError: It cannot be opened, or the block raised an error of SQLite.
        """
        inode = self._inode()
        try:
            with closing(_connection(self._path)) as database:
                ((version,),) = database.execute("PRAGMA user_version")
                if version != _FORMAT:
                    error = sqlite3.DatabaseError("it is not a database of jobs of this version")
                    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
                    raise error
                yield database
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                self._make(inode)
                LOG.error("jobs set aside", extra={"error": str(error), "fault": self.fault})
            raise OSError(f"{DATABASE}: {error}") from error

    def _make(self, replaced: int = 0) -> None:
        """Make a database of the jobs whose files are there.

        Args:
            replaced: Inode of a damaged database, which is set aside; nothing is done if another
                process was faster.
        """
        try:
            with self._lock, self._making:
                if self._inode() != replaced:
                    return
                path = self._path.with_suffix(".new")
                path.unlink(missing_ok=True)
                with closing(_connection(path)) as database, database:
                    database.executescript(_SCHEMA)
                    for file in sorted(self.folder.glob("job-*.jsonl")):
                        job, names = self._read(file)
                        database.execute(_INSERT, {**asdict(job), "names": json.dumps(names)})
                sync(path)
                name = f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"
                aside = self.folder / (_DAMAGED + name)
                for old in self.folder.glob(f"{DATABASE}*"):
                    aside.mkdir(exist_ok=True)
                    old.rename(aside / old.name)
                path.rename(self._path)
                sync(self.folder)
                sync(self.folder.parent)
        except (sqlite3.Error, Timeout) as error:
            raise OSError(f"{DATABASE} cannot be made: {error}") from error

    def _read(self, file: Path) -> tuple[Job, list[str]]:
        """A new job of a file of passages, and the ids of its documents."""
        try:
            documents = [json.loads(line)["document"] for line in file.read_bytes().splitlines()]
        except (ValueError, KeyError, TypeError):
            return _unreadable(file.stem, self._collection), []
        names = [*dict.fromkeys(documents)]
        return Job(file.stem, self._collection, len(names), len(documents), time.time()), names


def parse_job(row: Sequence[object], collection: str = "") -> Job:
    """Make a job of its stored values, in the order of `COLUMNS`, or raise a `ValueError`."""
    values = dict(zip(COLUMNS, row, strict=True))
    return _JOB.validate_python({**values, "collection": collection})


def _unreadable(id_: str, collection: str) -> Job:
    """A failed job, listed instead of one that cannot be read."""
    error, now = "It cannot be read (it is damaged). Send its documents again.", time.time()
    return Job(id_, collection, 0, 0, now, State.FAILED, finished=now, error=error)


def _connection(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
    database.text_factory = lambda text: text.decode(errors="replace")
    database.execute("PRAGMA synchronous = FULL")
    return database
