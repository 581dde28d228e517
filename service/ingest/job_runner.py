"""Runs the jobs of every collection, one after another, unless another process does."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from time import monotonic, time
from typing import Any, TypeVar

import pyarrow as pa
from filelock import Timeout

from wye.backends.documents import whole_documents
from wye.backends.errors import BackendError, IndexLockedError, SourceError
from wye.backends.types import Passage
from wye.featurizer.errors import FeaturizerError
from wye.service.collections import Collection
from wye.service.errors import ServiceError
from wye.service.http.edge import ASKING
from wye.service.http.metrics import Metrics
from wye.service.http.problems import Problem, reason_of
from wye.service.ingest.jobs import Job, JobStore, State
from wye.service.ingest.writer import CollectionWriter, StoppedError
from wye.service.logs import LOG
from wye.service.settings import DocumentSettings

T = TypeVar("T")

# Seconds between two looks for jobs: where some wait or cannot be read, and else, for jobs that
# another process accepted but does not run, and for jobs to delete.
_POLL = 1.0
_SWEEP = 60.0
_PAUSE = 0.1  # seconds after each group of a job, for other processes to take the lock
_ATTEMPTS = 5  # a job fails if its process has ended so often before it could write anything
# Seconds before a job that was put back is tried again; each further pause is twice as long.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_REPORTED_AFTER = 3_600.0  # a job that could write nothing for so many seconds is reported
_ANOTHER_TRY = "another try, since the last one failed: "
# No document causes these: the disk, the memory, the index or the models do. `SourceError`, which
# is a `BackendError`, is the exception.
_TRANSIENT = (OSError, MemoryError, BackendError, FeaturizerError, pa.ArrowException)


@dataclass(slots=True)
class _Pauses:
    """The pauses of a job since its last commit; times are `monotonic` seconds."""

    start: float = inf  # when it was first put back
    end: float = 0.0  # when it is tried again
    length: float = 0.0  # seconds of the last pause
    reason: str = ""

    def put_back(self, reason: str) -> None:
        """Begin a pause, twice as long as the last one."""
        now = monotonic()
        self.start = min(self.start, now)
        self.length = min(2 * self.length or _FIRST_PAUSE, _LONGEST_PAUSE)
        self.end = now + self.length
        self.reason = reason


@dataclass(eq=False)
class JobRunner:
    """Runs the jobs of all loaded collections, and reports on them."""

    writers: Mapping[str, CollectionWriter]
    settings: DocumentSettings
    metrics: Metrics
    _task: asyncio.Task[None] | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _faults: dict[str, str] = field(default_factory=dict)  # by collection
    _pauses: dict[str, _Pauses] = field(default_factory=dict)  # by job

    def start(self) -> None:
        """Begin to run jobs, including those that an earlier process left."""
        self._task = asyncio.create_task(self._work(), name="wye-jobs")

    async def stop(self) -> None:
        """Stop at the next slice; the next process resumes unfinished jobs."""
        self._stopping.set()
        for writer in self.writers.values():
            writer.stop()
        self._wake.set()
        if self._task is not None:
            await self._task

    def wake(self) -> None:
        """Look for new jobs at once."""
        self._wake.set()

    async def count(self) -> None:
        """Update the metrics of unfinished jobs, whichever process runs them."""
        for writer in self._ready_writers():
            with suppress(OSError):  # `faults` reports it; the other metrics are still updated
                waiting = await asyncio.to_thread(writer.jobs.unfinished)
                self.metrics.unfinished(writer.collection.name, waiting)

    async def faults(self) -> dict[str, str]:
        """Collection -> why its jobs do not run, which are damaged, or have been tried for long."""
        faults = {}
        for writer in self._ready_writers():
            name = writer.collection.name
            faults[name] = self._faults.get(name) or await asyncio.to_thread(
                self._stored_fault, writer.jobs
            )
        return {name: fault for name, fault in faults.items() if fault}

    def _stored_fault(self, jobs: JobStore) -> str:
        faults = [jobs.fault] if jobs.fault else []
        with suppress(OSError):  # `_work` reports it
            for job in jobs.unfinished():
                pauses = self._pauses.get(job.id, _Pauses())
                if (seconds := monotonic() - pauses.start) > _REPORTED_AFTER:
                    hours = f"{seconds / 3600:.0f} h"
                    faults.append(f"Job {job.id} has been tried for {hours}: {pauses.reason}")
        return " ".join(faults)

    async def jobs(self, collection: Collection | None) -> list[Job]:
        """Jobs of a loaded collection or, for None, of all, newest first; or a `Problem` 503."""
        writers = [each for each in self._visible() if collection in (None, each.collection)]
        jobs: list[Job] = []
        for each in writers:
            jobs += map(self._with_reason, reversed(await self._access(each, each.jobs.jobs)))
        return jobs if len(writers) == 1 else sorted(jobs, key=lambda job: -job.created)

    async def job(self, id_: str) -> Job:
        """A job by id; a `Problem` 404 if there is none, 503 if jobs cannot be read."""
        return (await self._find(id_))[0]

    async def cancel(self, id_: str) -> Job:
        """Cancel a job, at once or before its next commit; a `Problem` 404, or 503 for the disk."""
        job, writer = await self._find(id_)
        if job.state.has_ended:
            return job
        await self._access(writer, partial(writer.jobs.cancel, job))
        self._wake.set()
        job = await self.job(id_)
        if job.state.has_ended:
            self._report_end(job)
        return job

    async def _find(self, id_: str) -> tuple[Job, CollectionWriter]:
        for writer in self._visible():
            job = await self._access(writer, partial(writer.jobs.job, id_))
            if job is not None:
                return self._with_reason(job), writer
        key = ASKING.get()
        for writer in self.writers.values():
            if not key.filter and key.sees(writer.collection.name):
                writer.collection.require_ready()  # its jobs cannot be known before
        raise Problem(
            404,
            "no-such-job",
            f"There is no job '{id_:.40}'. Jobs that ended are kept for "
            f"{self.settings.keep_seconds / 3600:g} hours; /v1/jobs lists them.",
        )

    async def _access(self, writer: CollectionWriter, work: Callable[[], T]) -> T:
        """Read or change stored jobs; a `Problem` 503 if that fails."""
        try:
            return await writer.off_loop(work)
        except OSError as error:
            self._wake.set()
            raise Problem(
                503,
                "jobs-unavailable",
                f"The jobs cannot be read or written now: {reason_of(error)}. Ask again later; "
                "/ready and the log of the server say more.",
                retry_after=30,
            ) from error

    def _with_reason(self, job: Job) -> Job:
        """A job with the reason why it does not go on, which a full disk may not have stored."""
        reason = self._faults.get(job.collection) or self._pauses.get(job.id, _Pauses()).reason
        if not reason or job.state.has_ended or job.waits_for:
            return job
        return replace(job, state=State.QUEUED, waits_for=_ANOTHER_TRY + reason)

    def _visible(self) -> list[CollectionWriter]:
        """Writers of the collections whose jobs the asking key may see; none if it has a filter."""
        key = ASKING.get()
        writers = [] if key.filter else self._ready_writers()
        return [writer for writer in writers if key.sees(writer.collection.name)]

    def _ready_writers(self) -> list[CollectionWriter]:
        return [writer for writer in self.writers.values() if writer.collection.is_ready]

    async def _work(self) -> None:
        sweep_times = dict.fromkeys(self.writers, monotonic() - _SWEEP)
        while not self._stopping.is_set():
            writers = self._ready_writers()
            is_loading, is_idle = len(writers) < len(self.writers), True
            for writer in writers:
                name, fault = writer.collection.name, ""
                try:
                    is_idle &= not await self._run_jobs(writer)
                    if monotonic() - sweep_times[name] >= _SWEEP:
                        keep = self.settings.keep_seconds
                        await writer.off_loop(partial(writer.jobs.sweep, keep))
                        sweep_times[name] = monotonic()
                except Exception as error:  # noqa: BLE001 - other jobs go on; these are tried again
                    fault = f"Jobs cannot run ({reason_of(error)})."
                    if fault != self._faults.get(name):
                        LOG.error("jobs", exc_info=error, extra={"collection": name})
                self._faults[name] = fault
                is_idle &= not fault
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE if is_loading else _SWEEP if is_idle else _POLL):
                    await self._wake.wait()
            if not self._stopping.is_set():
                self._wake.clear()

    async def _run_jobs(self, writer: CollectionWriter) -> bool:
        """Run a collection's unfinished jobs, unless another process does; whether any are left."""
        if not await writer.off_loop(writer.jobs.due):
            return False
        with suppress(Timeout), writer.jobs.claim():
            while not self._stopping.is_set():
                job = await writer.off_loop(partial(self._next, writer.jobs))
                if job is None:
                    break
                await self._run(writer, job)
        return True

    def _next(self, jobs: JobStore) -> Job | None:
        """The first job that may run: behind one that pauses, none about the same documents."""
        waiting = set[str]()  # documents of jobs that pause
        for job in jobs.due():
            pauses = self._pauses.get(job.id)
            if job.state.has_ended or (pauses is not None and jobs.is_cancelled(job)):
                return job
            is_due = pauses is None or pauses.end <= monotonic()
            if is_due and not (waiting and waiting & jobs.documents_of(job)):
                return job
            waiting |= jobs.documents_of(job)
        return None

    async def _run(self, writer: CollectionWriter, job: Job) -> None:
        """Run a job from after its last commit; what its documents do not cause puts it back."""
        if job.state.has_ended:  # cancelled before it ran
            await self._save(writer, job)
            return
        # If this process has begun it before, it has not killed the process.
        attempts = 1 if job.id in self._pauses else job.attempts + 1
        self._pauses.setdefault(job.id, _Pauses())
        job = await self._save(
            writer, job, state=State.RUNNING, started=job.started or time(), attempts=attempts
        )
        try:
            if await writer.off_loop(partial(writer.jobs.is_cancelled, job)):
                raise StoppedError
            if attempts > _ATTEMPTS:
                raise ServiceError(
                    f"The process that wrote it ended {_ATTEMPTS} times at the same passage; the "
                    "server's log may say why. Send smaller parts."
                )
            groups = whole_documents(writer.jobs.passages(job), self.settings.group_passages)
            while group := await writer.off_loop(lambda: next(groups, None)):
                job = await self._write(writer, job, group)
                self._pauses[job.id], self._faults[job.collection] = _Pauses(), ""
                await asyncio.sleep(_PAUSE)
            job = replace(job, state=State.DONE)
        except Exception as error:  # noqa: BLE001 - the job reports it
            if self._stopping.is_set():  # the next process goes on
                await self._save(writer, job, attempts=0)
                return
            job = self._after_error(job, error, writer.reason_of(error))
        if job.state.has_ended:
            await self._save(writer, job, finished=time(), waits_for="")
            self._report_end(job)
        else:
            await self._save(writer, job)

    def _after_error(self, job: Job, error: Exception, reason: str) -> Job:
        """A job after an error that ended its work: cancelled, put back or failed."""
        if isinstance(error, StoppedError):
            return replace(job, state=State.CANCELLED)
        if isinstance(error, _TRANSIENT) and not isinstance(error, SourceError):
            LOG.warning("job put back", exc_info=error, extra={"job": job.id})
            self._pauses[job.id].put_back(reason)
            waits_for = _ANOTHER_TRY + reason
            return replace(job, state=State.QUEUED, attempts=0, waits_for=waits_for)
        LOG.error("job failed", exc_info=error, extra={"job": job.id})
        return replace(job, state=State.FAILED, error=reason)

    def _report_end(self, job: Job) -> None:
        self._pauses.pop(job.id, None)
        self.metrics.jobs_ended.labels(job.collection, job.state).inc()
        LOG.info("job ended", extra={"job": job.id, "state": job.state, "passages": job.done})

    async def _write(self, writer: CollectionWriter, job: Job, group: list[Passage]) -> Job:
        """Write some documents of a job, waiting for their turn as long as it takes."""

        def is_stopped() -> bool:
            return self._stopping.is_set() or writer.jobs.is_cancelled(job)

        # Before the lock is taken, so that other writers wait for the disk but not the models.
        index, analyser = await writer.analyse(group, is_stopped)
        while True:
            try:
                report = await writer.commit(index, group, analyser, analyser.check, None)
                break
            except IndexLockedError as error:
                if job.waits_for != (reason := writer.reason_of(error)):
                    job = await self._save(writer, job, waits_for=reason)
                await asyncio.sleep(_PAUSE)
        names = ("added", "updated", "unchanged", "removed")
        counts = {name: getattr(job, name) + getattr(report, name) for name in names}
        progress = {"done": job.done + len(group), "index_version": report.version, **counts}
        return await self._save(writer, job, attempts=0, waits_for="", **progress)

    async def _save(self, writer: CollectionWriter, job: Job, **changes: Any) -> Job:  # noqa: ANN401
        job = replace(job, **changes)
        await writer.off_loop(partial(writer.jobs.save, job))
        return job
