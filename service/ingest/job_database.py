"""The SQLite database of an index's jobs; the first job creates it, and damage replaces it."""

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import RLock
from typing import Any

from filelock import FileLock, Timeout

from wye.backends.files import sync
from wye.backends.types import Passage
from wye.service.ingest.job import FIELDS, Job, parse_job, unreadable
from wye.service.logs import LOG

FOLDER = "jobs"
DATABASE = "jobs.sqlite3"
SELECT = f"SELECT rowid, {', '.join(FIELDS)} FROM jobs WHERE is_accepted"
"""Accepted jobs; rows are in the order of acceptance."""
DAMAGED = "damaged-"
"""Prefix of folders of damaged databases, which are kept until somebody deletes them."""

_CLAIM = "claim.lock"
_OPENING = "opening.lock"
# How long a process waits for another one's commit.
_PATIENCE_SECONDS = 10.0
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS jobs (
    {", ".join(FIELDS)}, is_accepted DEFAULT 0, is_cancelled DEFAULT 0, PRIMARY KEY (id)
);
CREATE TABLE IF NOT EXISTS passages (
    job TEXT, number INTEGER, document TEXT, passage TEXT, PRIMARY KEY (job, number)
);
CREATE INDEX IF NOT EXISTS documents ON passages (document, job);
"""


class JobDatabase:
    """The database in one folder, for any thread; other processes may have it open too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / DATABASE
        self._lock = RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._may_write = False

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none if there never was a job, an `OSError` if it cannot be read."""
        with self._lock, _refused():
            if not self._path.exists():
                return []
            try:
                return self._open().execute(query, values).fetchall()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._begin_anew(error)
            return self._open().execute(query, values).fetchall()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is on the disk when the block ends without error.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock, _refused():
            try:
                database = self._open()
                with _transaction(database):
                    yield database
            except sqlite3.DatabaseError as error:
                if _is_damage(error):
                    self._begin_anew(error)
                raise
            if self._is_moved():
                raise OSError(f"{DATABASE} was set aside by another process")

    def vacuum(self) -> None:
        """Return unused space to the file system, or raise an `OSError`."""
        with self._lock, _refused():
            # As a script, since a single statement would return a single page.
            self._open().executescript("PRAGMA incremental_vacuum")

    @contextmanager
    def claim(self) -> Iterator[bool]:
        """Claim the running of jobs for this process; yields False if another one has it."""
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

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _open(self) -> sqlite3.Connection:
        """The open database, created if there is none."""
        if self._database is not None and self._is_moved():
            self.close()  # the index was deleted, or another process set a damaged database aside
        if self._database is not None and not self._may_write and self._is_writable():
            self.close()
        if self._database is None:
            self._database = self._connect()
            self._inode = self._path.stat().st_ino
        return self._database

    def _is_moved(self) -> bool:
        return not (self._path.exists() and self._path.stat().st_ino == self._inode)

    def _connect(self) -> sqlite3.Connection:
        self.folder.mkdir(exist_ok=True)
        self._may_write = self._is_writable()
        if not self._may_write:  # open it for reading, as it is
            is_open = self._path.with_name(f"{DATABASE}-wal").exists()
            return _connection(self._path, "mode=ro" if is_open else "immutable=1")
        with self._opening():
            if not self._path.exists():
                self._put(self._begun())
            if not self._path.stat().st_size:
                self._replace(sqlite3.DatabaseError("it is empty"))
            try:
                database = _prepared(self._path)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._replace(error)
                database = _prepared(self._path)
        return database

    def _is_writable(self) -> bool:
        is_there = self._path.exists()
        return os.access(self.folder, os.W_OK) and (not is_there or os.access(self._path, os.W_OK))

    def _opening(self) -> FileLock:
        return FileLock(
            self.folder / _OPENING,
            timeout=_PATIENCE_SECONDS,
            thread_local=False,
            fallback_to_soft=False,
        )

    def _begin_anew(self, why: sqlite3.Error) -> None:
        """Replace a damaged database, unless another process has done so."""
        if not self._is_writable():
            raise why
        with self._opening():
            if not self._is_moved():
                self.close()
                self._replace(why)

    def _replace(self, why: sqlite3.Error) -> None:
        """Set a damaged database aside, and put what can be read of it into a new one."""
        name = f"{DAMAGED}{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}"
        with closing(_connection(self._path)) as damaged:
            with suppress(sqlite3.Error):
                damaged.execute("BEGIN IMMEDIATE")  # keeps others from writing meanwhile
            begun = self._begun()
            with closing(_connection(begun)) as database:
                saved, lost = _rescue(damaged, database)
            (self.folder / name).mkdir()
            # The write-ahead log first, so that it is not taken for one of the new database.
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    path = self._path.with_name(DATABASE + suffix)
                    path.rename(self.folder / name / path.name)
            self._put(begun)
        facts = {"error": str(why), "kept_as": str(self.folder / name), "kept": saved, "lost": lost}
        LOG.error("database of jobs damaged", extra=facts)

    def _begun(self) -> Path:
        """Create a database without jobs under a temporary name."""
        path = self.folder / f"{DATABASE}.begun"
        path.unlink(missing_ok=True)
        with closing(_connection(path)) as database:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.executescript(_SCHEMA)
        return path

    def _put(self, begun: Path) -> None:
        """Move a new database to its place, and sync it to the disk."""
        sync(begun)
        for suffix in ("-wal", "-shm"):  # left behind if somebody deleted only the database
            self._path.with_name(DATABASE + suffix).unlink(missing_ok=True)
        begun.rename(self._path)
        sync(self.folder)
        sync(self.folder.parent)


def insert_passages(
    database: sqlite3.Connection, job: str, passages: Iterable[tuple[int, Passage]]
) -> None:
    """Store passages of a job, numbered from 0."""
    rows = ((job, n, each.document, json.dumps(asdict(each))) for n, each in passages)
    database.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", rows)


def _insert_job(database: sqlite3.Connection, job: Job, *, is_cancelled: bool = False) -> None:
    """Store an accepted job after all others, unless it is there."""
    database.execute(
        f"INSERT OR IGNORE INTO jobs (rowid, {', '.join(FIELDS)}, is_accepted, is_cancelled) "
        "VALUES ((SELECT coalesce(max(rowid), 0) + 1 FROM jobs), "
        f"{', '.join(f':{name}' for name in FIELDS)}, 1, :is_cancelled)",
        {**asdict(job), "is_cancelled": int(is_cancelled)},
    )


def _rescue(damaged: sqlite3.Connection, database: sqlite3.Connection) -> tuple[int, int]:
    """Copy the jobs that can be read.

    Returns:
        How many were copied, and how many unfinished ones were incomplete and count as failed.
    """
    names = f"is_cancelled, {', '.join(FIELDS)}"
    rows = _readable(damaged, f"SELECT {names} FROM jobs WHERE is_accepted ORDER BY rowid")
    jobs: dict[Job, bool] = {}
    for is_cancelled, *values in rows:
        try:
            jobs[parse_job(values)] = bool(is_cancelled)
        except ValueError:
            jobs[_lost(str(values[0]))] = False
    unfinished = {job.id for job in jobs if not job.state.has_ended}
    lost = 0
    with _transaction(database):
        # From both ends up to the damage, without indexes, which may be damaged too.
        for order in ("ASC", "DESC"):
            query = f"SELECT job, number, document, passage FROM passages ORDER BY rowid {order}"
            passages = (row for row in _readable(damaged, query) if row[0] in unfinished)
            database.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?, ?, ?)", passages)
        for job, is_cancelled in jobs.items():
            query = "SELECT count(*) FROM passages WHERE job = ?"
            ((count,),) = database.execute(query, [job.id])
            if job.state.has_ended or count == job.passages:
                _insert_job(database, job, is_cancelled=is_cancelled)
            else:
                lost += 1
                database.execute("DELETE FROM passages WHERE job = ?", [job.id])
                _insert_job(database, _lost(job.id))
    return len(jobs) - lost, lost


def _lost(id_: str) -> Job:
    return unreadable(id_, time.time(), "the database was damaged")


def _readable(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query up to the first that cannot be read."""
    with suppress(sqlite3.Error):
        yield from database.execute(query)


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


def _prepared(path: Path) -> sqlite3.Connection:
    """Open an existing database for writing.

    Raises:
        sqlite3.DatabaseError: It is damaged, or not a database of jobs.
    """
    database = _connection(path)
    try:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        database.executescript(_SCHEMA)
        database.execute(f"{SELECT} AND is_cancelled LIMIT 0")
        database.execute("SELECT job, number, document, passage FROM passages LIMIT 0")
    except sqlite3.Error as error:
        database.close()
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
            raise sqlite3.NotSupportedError(f"it is not a database of jobs: {error}") from error
        raise
    return database


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether an error means damage, so that another try is useless."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    odd = isinstance(error, sqlite3.NotSupportedError)
    return odd or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


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
    """Turn errors of SQLite and of the lock into `OSError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"{DATABASE}: {error}") from error
    except Timeout as error:
        raise OSError(f"{DATABASE}: another process has been opening it for too long") from error
