"""Jobs: uploads that are written in the background, stored beside their index."""

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from wye.backends.filters import Columns, Filter
from wye.backends.types import Passage
from wye.service.ingest.job import FIELDS, Job, State, parse_job, unreadable
from wye.service.ingest.job_database import DAMAGED, FOLDER, SELECT, JobDatabase, insert_passages
from wye.service.logs import LOG

# A job that is not accepted after so long was left by a killed process.
_ABANDONED_SECONDS = 3_600.0
# Passages in a transaction, so that others need not wait long for theirs.
_BLOCK = 1_024

_UNFINISHED = "state IN ('queued', 'running')"
_STANDS = ", ".join(f"{name} = :{name}" for name in FIELDS)
_PASSAGE = TypeAdapter(Passage)


class JobStore(JobDatabase):
    """The jobs of one index, for any thread; several processes may have a store each.

    Accepted jobs survive crashes and power cuts. A file lock, which ends with its holder, tells
    which process runs jobs. A job that cannot be read counts as failed.
    """

    def __init__(self, index: Path, collection: str) -> None:
        """Keep the folder of an index and its name here; nothing is created before a job."""
        super().__init__(index / FOLDER)
        self._collection = collection

    @property
    def fault(self) -> str:
        """Which jobs were damaged and what to do about it; "" for none."""
        damaged = ", ".join(sorted(path.name for path in self.folder.glob(f"{DAMAGED}*")))
        return damaged and (
            f"Jobs that could not be read were set aside in the index's folder '{FOLDER}': "
            f"{damaged}. /v1/jobs lists those that are known; send missing documents again, then "
            "delete the damaged files."
        )

    def submit(self, passages: Iterable[Passage]) -> Job:
        """Make a job of passages; when this returns, it is on the disk, after all earlier ones.

        Raises:
            OSError: It cannot be written.
        """
        id_ = f"job-{_time_of(time.time())}{secrets.token_hex(3)}"
        with self.change() as database:
            database.execute("INSERT INTO jobs (id) VALUES (?)", [id_])
        try:
            count = 0
            documents: set[str] = set()
            numbered = enumerate(passages)
            while block := list(islice(numbered, _BLOCK)):
                with self.change() as database:
                    insert_passages(database, id_, block)
                count += len(block)
                documents.update(passage.document for _, passage in block)
            job = Job(id_, self._collection, len(documents), count, time.time())
            # Rows are in the order of acceptance, which times would not give: a clock may be set
            # back, and an upload that began first may end last.
            accepted = "is_accepted = 1, rowid = (SELECT max(rowid) + 1 FROM jobs)"
            self.save(job, accepted)
        except BaseException:
            with suppress(OSError):
                self._forget(id_)
            raise
        return job

    def jobs(self) -> list[Job]:
        """All jobs, in the order of acceptance."""
        return [self._job(row) for row in self.rows(f"{SELECT} ORDER BY rowid")]

    def has_any(self) -> bool:
        """Whether there is any job, accepted or not."""
        return bool(self.rows("SELECT 1 FROM jobs LIMIT 1"))

    def unfinished(self) -> list[Job]:
        """Jobs that are queued or running, in the order of acceptance."""
        rows = self.rows(f"{SELECT} AND {_UNFINISHED} ORDER BY rowid")
        return [job for job in map(self._job, rows) if not job.state.has_ended]

    def job(self, id_: str) -> Job | None:
        """A job by id; None if there is none."""
        return next(map(self._job, self.rows(f"{SELECT} AND id = ?", id_)), None)

    def save(self, job: Job, more: str = "") -> None:
        """Store a job's state, and set what `more` says in SQL.

        Raises:
            OSError: It cannot be written, or is gone.
        """
        stands = f"{_STANDS}, {more}" if more else _STANDS
        with self.change() as database:
            done = database.execute(f"UPDATE jobs SET {stands} WHERE id = :id", asdict(job))
            if done.rowcount != 1:
                raise OSError(f"job {job.id} was deleted")

    def passages(self, job: Job) -> Iterator[Passage]:
        """The passages that a job still has to write, in order.

        Raises:
            ValueError: A passage cannot be read, or is missing.
        """
        query = "SELECT passage FROM passages WHERE job = ? AND number >= ? ORDER BY number LIMIT ?"
        done = job.done
        while rows := self.rows(query, job.id, done, _BLOCK):
            yield from (_PASSAGE.validate_json(str(passage)) for (passage,) in rows)
            done += len(rows)
        if done != job.passages:
            raise ValueError(f"only {done} of its {job.passages} passages exist")

    def cancel(self, job: Job) -> None:
        """Cancel a queued job at once, or ask the process that runs it to stop."""
        with self.change() as database:
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
            f"JOIN jobs ON jobs.id = job WHERE is_accepted AND {_UNFINISHED} ORDER BY job LIMIT 1",
            json.dumps(list(documents)),
        )
        for id_, document in rows:
            job = self.job(id_)
            return None if job is None else (job, document)
        return None

    def shares_documents(self, job: Job, others: Sequence[Job]) -> bool:
        """Whether a job writes a document that one of other jobs writes."""
        rows = self.rows(
            "SELECT 1 FROM passages AS own JOIN passages AS others USING (document) "
            "JOIN json_each(?) ON others.job = value WHERE own.job = ? LIMIT 1",
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
        until = unfinished[: ids.index(job.id) + 1] if job.id in ids else []
        left = sum(each.passages - each.done for each in until)
        return left, left / ((until and until[0].rate(time.time())) or 10)

    def sweep(self, keep_seconds: float) -> None:
        """Delete jobs that ended long ago, and the remains of killed processes."""
        self.jobs()  # stores when those that cannot be read ended
        now = time.time()
        rows = self.rows(
            "SELECT id FROM jobs WHERE finished < ? OR (NOT is_accepted AND id < ?)",
            now - keep_seconds,
            f"job-{_time_of(now - _ABANDONED_SECONDS)}",
        )
        for (id_,) in rows:
            self._forget(id_)
        if rows:
            self.vacuum()

    def _job(self, row: tuple[Any, ...]) -> Job:
        """Make a job of a row; an unreadable one is stored as failed."""
        rowid, *values = row
        try:
            return parse_job(values, self._collection)
        except ValueError as error:
            id_ = values[0] if isinstance(values[0], str) else f"job-{rowid}"
            LOG.error("job unreadable", extra={"job": id_, "error": str(error)})
            job = unreadable(id_, time.time(), "its entry is damaged", self._collection)
        with suppress(OSError), self.change() as database:
            stands = {**asdict(job), "place": rowid}
            database.execute(f"UPDATE jobs SET {_STANDS} WHERE rowid = :place", stands)
        return job

    def _forget(self, id_: str) -> None:
        """Delete a job, accepted or not, some passages at a time."""
        some = "SELECT rowid FROM passages WHERE job = ? LIMIT ?"
        deleted = 1
        while deleted:
            with self.change() as database:
                query = f"DELETE FROM passages WHERE rowid IN ({some})"
                deleted = database.execute(query, [id_, 8 * _BLOCK]).rowcount
        with self.change() as database:
            database.execute("DELETE FROM jobs WHERE id = ?", [id_])


def _time_of(seconds: float) -> str:
    """Microseconds as hexadecimal digits that sort by time."""
    return f"{int(seconds * 1e6):014x}"
