"""Jobs: uploads that are written in the background, in the order in which they were accepted.

A job is two files beside its index: `ID.jsonl` with a passage on each line and, stored after it,
`ID.json` with its state, which makes the job accepted. Ids begin with a number that ascends. A job
that has ended has its state alone. The file `ID.cancelled` asks it to stop.
"""

import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

from filelock import FileLock
from pydantic import Field, FiniteFloat, TypeAdapter

from wye.backends.errors import ReadOnlyError
from wye.backends.files import address_of, sync, write_atomically
from wye.backends.filters import Columns, Filter
from wye.backends.types import Passage

FOLDER = "jobs"
PASSAGES, STATE, CANCELLED = "jsonl", "json", "cancelled"  # suffixes of a job's files
UNREADABLE = "It cannot be read (it is damaged). Send its documents again."
_NAME = re.compile(rf"(job-([0-9]{{8}})-[0-9a-f]{{8}})\.({PASSAGES}|{STATE}|{CANCELLED})")
_PATIENCE_SECONDS = 10.0  # how long a process waits for another one that accepts a job
# A file of an upload that is not accepted after so long was left by a killed process.
_ABANDONED_SECONDS = 3_600.0
_BLOCK = 1_024  # passages that are filtered together

Count = Annotated[int, Field(ge=0)]


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
    """A job and its progress, as `JobValue` describes it; times are seconds since 1970."""

    id: str
    collection: str
    documents: Count
    passages: Count  # how many passages its documents were cut into
    created: FiniteFloat
    state: State = State.QUEUED
    done: Count = 0
    added: Count = 0
    updated: Count = 0
    unchanged: Count = 0
    removed: Count = 0
    started: FiniteFloat | None = None
    finished: FiniteFloat | None = None
    index_version: int | None = None
    attempts: Count = 0  # how often it was begun since its last commit
    waits_for: str = ""
    error: str = ""

    def rate(self, now: float) -> float | None:
        """Passages a second since it began; None before that."""
        if self.started is None:
            return None
        return self.done / max((self.finished or now) - self.started, 1e-3)


_JOB, _PASSAGE = TypeAdapter(Job), TypeAdapter(Passage)


class JobStore:
    """The jobs of one index, for any thread; several processes may have a store each.

    Accepted jobs survive crashes and power cuts. A file lock, which ends with its holder, tells
    which process runs jobs. A job whose state cannot be read counts as failed.

    All methods that read or write files raise an `OSError` if they cannot.
    """

    def __init__(self, index: Path, collection: str) -> None:
        """Keep the folder of an index and its name here; nothing is created before a job."""
        self.folder = index / FOLDER
        self._collection = collection
        self._documents: dict[str, frozenset[str]] = {}  # ids of documents, by job

    @property
    def fault(self) -> str:
        """Which jobs are damaged and what to do about it; "" for none."""
        with suppress(OSError):
            names = [job.id for job in self.jobs() if job.error == UNREADABLE]
            if names:
                return (
                    f"Jobs in the index's folder '{FOLDER}' cannot be read: {', '.join(names)}. "
                    "Send missing documents again, then delete these files."
                )
        return ""

    def submit(self, passages: Iterable[Passage]) -> Job:
        """Make a job, on the disk after earlier ones; a `ReadOnlyError` in an object store."""
        if address_of(self.folder):
            raise ReadOnlyError(
                "A server has no disk for jobs of an index in an object store. Send fewer "
                "documents at once, or write with `wye index`."
            )
        if not self.folder.exists():
            self.folder.mkdir(exist_ok=True)
            sync(self.folder.parent)
        upload = self.folder / f"upload-{secrets.token_hex(8)}"
        paths = [upload]
        count, names = 0, set[str]()
        try:
            with write_atomically(upload) as file:
                for passage in passages:
                    file.write(json.dumps(asdict(passage)).encode() + b"\n")
                    names.add(passage.document)
                    count += 1
            with self._file_lock("accept", _PATIENCE_SECONDS):
                number = 1 + max((number for _, number, _ in self._files()), default=0)
                id_ = f"job-{number:08d}-{secrets.token_hex(4)}"
                paths = [self.file(id_, STATE), self.file(id_), upload]
                upload.rename(paths[1])
                job = Job(id_, self._collection, len(names), count, time.time())
                self._write(job)
        except BaseException:
            for path in paths:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise
        self._documents[id_] = frozenset(names)
        return job

    def jobs(self) -> list[Job]:
        """All jobs, in the order of acceptance."""
        return self._with(STATE)

    def due(self) -> list[Job]:
        """Jobs for a runner, in the order of acceptance: unfinished, or cancelled before they ran.

        Those that ended, which have no passages, are not read, since they may be many.
        """
        jobs = self._with(PASSAGES)
        return [job for job in jobs if job.state == State.CANCELLED or not job.state.has_ended]

    def unfinished(self) -> list[Job]:
        """Jobs that are queued or running, in the order of acceptance."""
        return [job for job in self.due() if not job.state.has_ended]

    def job(self, id_: str) -> Job | None:
        """A job by id; None if there is none."""
        if not _NAME.fullmatch(f"{id_}.{STATE}"):
            return None
        path = self.file(id_, STATE)
        try:
            content, changed = path.read_bytes(), path.stat().st_mtime
        except FileNotFoundError:
            return None
        try:
            job = replace(_JOB.validate_json(content), id=id_, collection=self._collection)
        except ValueError:
            failed = Job(id_, self._collection, 0, 0, changed, State.FAILED)
            return replace(failed, finished=changed, error=UNREADABLE)
        if job.state == State.QUEUED:
            with suppress(FileNotFoundError):
                cancelled = self.file(id_, CANCELLED).stat().st_mtime
                return replace(job, state=State.CANCELLED, finished=cancelled, waits_for="")
        return job

    def save(self, job: Job) -> None:
        """Store a job's progress."""
        if not self.file(job.id, STATE).exists():
            raise OSError(f"job {job.id} was deleted")
        self._write(job)
        if job.state.has_ended:
            self._delete(job.id, PASSAGES, CANCELLED)

    def passages(self, job: Job) -> Iterator[Passage]:
        """The passages that a job still has to write, in order; a `ValueError` at a damaged one."""
        count = 0
        if (path := self.file(job.id)).exists():
            with path.open("rb") as file:
                for count, line in enumerate(file, start=1):
                    if count > job.done:
                        yield _PASSAGE.validate_json(line)
        if count != job.passages:
            raise ValueError(f"only {count} of its {job.passages} passages exist")

    def cancel(self, job: Job) -> None:
        """Cancel a queued job at once, or ask the process that runs it to stop."""
        if self.file(job.id, STATE).exists():
            with write_atomically(self.file(job.id, CANCELLED)):
                pass

    def is_cancelled(self, job: Job) -> bool:
        """Whether a job is to stop."""
        return self.file(job.id, CANCELLED).exists()

    def writing(
        self, documents: Iterable[str], filter_: Filter | None = None
    ) -> tuple[Job, str] | None:
        """An unfinished job that writes one of these documents or one that passes, and which."""
        ids = frozenset(documents)
        for job in self.unfinished():
            if shared := ids & self.documents_of(job):
                return job, min(shared)
            passages = self.passages(job) if filter_ else iter(())
            with suppress(ValueError):  # an unreadable job fails when it is run
                while filter_ and (block := list(islice(passages, _BLOCK))):
                    mask = filter_.mask(Columns([passage.metadata for passage in block]))
                    if mask.any():
                        return job, block[int(mask.argmax())].document
        return None

    def sweep(self, keep_seconds: float) -> None:
        """Delete jobs that ended long ago, and the files that killed processes left."""
        now = time.time()
        for job in self.jobs():
            if job.state.has_ended and (job.finished or job.created) < now - keep_seconds:
                self._delete(job.id, STATE, PASSAGES, CANCELLED)
        stored = {id_ for id_, _, suffix in self._files() if suffix == STATE}
        left = [self.file(id_, suffix) for id_, _, suffix in self._files() if id_ not in stored]
        for path in [*left, *self.folder.glob("upload-*"), *self.folder.glob(".*")]:
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < now - _ABANDONED_SECONDS:
                    path.unlink()

    def claim(self) -> FileLock:
        """The lock of the process that runs the jobs; to enter it raises `Timeout` in any other."""
        return self._file_lock("claim", 0)

    def documents_of(self, job: Job) -> frozenset[str]:
        """Ids of the documents that a job writes; of a damaged file, those that can be read."""
        if job.id not in self._documents:
            ids: set[str] = set()
            with (
                suppress(FileNotFoundError, ValueError, TypeError, KeyError),
                self.file(job.id).open("rb") as file,
            ):
                ids.update(json.loads(line)["document"] for line in file)
            self._documents[job.id] = frozenset(ids)
        return self._documents[job.id]

    def _with(self, suffix: str) -> list[Job]:
        """The jobs that have such a file, in the order of acceptance."""
        ids = sorted(id_ for id_, _, other in self._files() if other == suffix)
        return [job for id_ in ids if (job := self.job(id_))]

    def _files(self) -> list[tuple[str, int, str]]:
        """Id, number and suffix of each file of a job."""
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        matches = filter(None, map(_NAME.fullmatch, names))
        return [(match[1], int(match[2]), match[3]) for match in matches]

    def file(self, id_: str, suffix: str = PASSAGES) -> Path:
        """A file of a job, by default that of its passages."""
        return self.folder / f"{id_}.{suffix}"

    def _write(self, job: Job) -> None:
        with write_atomically(self.file(job.id, STATE)) as file:
            file.write(json.dumps(asdict(job)).encode())

    def _delete(self, id_: str, *suffixes: str) -> None:
        self._documents.pop(id_, None)
        for suffix in suffixes:
            self.file(id_, suffix).unlink(missing_ok=True)

    def _file_lock(self, name: str, timeout: float) -> FileLock:
        path = self.folder / f"{name}.lock"
        return FileLock(path, timeout=timeout, thread_local=False, fallback_to_soft=False)
