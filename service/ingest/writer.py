"""Writes to one collection: changes that somebody waits for, and jobs, in turns."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic, perf_counter, time
from typing import TypeVar

from backends.errors import IndexLockedError
from backends.filters import parse_filter
from backends.store.documents import Removal, matching, remove
from backends.store.index import Index
from backends.store.ingest import IngestReport, ingest
from backends.types import Passage, PassageAnalyser
from service.collections import Collection
from service.errors import ServiceError
from service.http.metrics import Tally
from service.http.problems import Problem
from service.ingest.interleaved import Call, InterleavedAnalyser, Prepared, StoppedError
from service.ingest.jobs import Job, JobStore, State
from service.logs import LOG
from service.settings import DocumentSettings

T = TypeVar("T")

# After a group of a job: time for other processes to take the lock.
_PAUSE = 0.1
# Between two tries for the lock; after a change, others have as long.
_SOONEST, _LATEST = 0.005, 0.025
# Of a job whose process ends each time before anything is written.
_ATTEMPTS = 5


class CollectionWriter:
    """The one way by which this process changes an index."""

    def __init__(
        self,
        collection: Collection,
        settings: DocumentSettings,
        *,
        call: Call,
        thread: Executor,
        written: Callable[[], None],
        tally: Tally,
        entity_vectors: bool,
    ) -> None:
        """Wire it; the collection need not be loaded yet.

        Args:
            collection: To write to.
            settings: Of documents.
            call: Runs something in the thread of the models.
            thread: For everything that waits for a disk.
            written: Called after each commit, in the event loop's thread.
            tally: Counts commits and jobs.
            entity_vectors: See `backends.store.ingest.ingest`.
        """
        self.collection = collection
        self._settings = settings
        self._call = call
        self._thread = thread
        self._written = written
        self._tally = tally
        self._entity_vectors = entity_vectors
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._stopping = threading.Event()
        self._spool: JobStore | None = None

    @property
    def spool(self) -> JobStore:
        """The jobs of the collection.

        Raises:
            Problem: It is not loaded yet.
        """
        if self._spool is None:
            self._spool = JobStore(self.collection.engine.folder, self.collection.name)
        return self._spool

    async def upsert(self, passages: Sequence[Passage]) -> IngestReport:
        """Store documents, all of them in one commit, on the disk when this returns.

        Raises:
            Problem: 409 when a job is about one of them, or 503 when too many changes wait.
            IndexLockedError: Another process did not stop writing in time.
        """
        documents = {passage.document for passage in passages}
        async with self._place():
            reader = await self._prepared(passages, self._stopping.is_set)

            def work() -> IngestReport:
                self._leave_jobs_alone(documents)
                return self._ingest(passages, len(passages), reader)

            return await self._in_turn(work)

    async def delete(self, removal: Removal) -> tuple[list[str], int]:
        """Delete passages in one commit.

        Returns:
            Their ids, ascending, and a version that has none of them.

        Raises:
            Problem: As of `upsert`.
            FilterError: The filter is not well formed.
            IndexLockedError: Another process did not stop writing in time.
        """

        def work() -> tuple[list[str], int]:
            chunks = (id_.rpartition("#")[0] for id_ in removal.ids)
            self._leave_jobs_alone({*removal.documents, *removal.ids, *chunks}, removal.filter)
            folder = self.collection.engine.folder
            return remove(folder, removal), Index.open(folder).version

        async with self._place():
            return await self._in_turn(work)

    async def matching(self, removal: Removal) -> tuple[list[str], int]:
        """What `delete` would delete, and in which version; changes nothing."""
        folder = self.collection.engine.folder
        return await self.off_loop(lambda: (matching(folder, removal), Index.open(folder).version))

    async def submit(self, passages: Iterable[Passage]) -> Job:
        """Accept a job: when this returns, it is on the disk.

        Raises:
            Problem: 503 when as many wait as may.
        """

        def work() -> Job:
            spool = self.spool
            if len(spool.unfinished()) >= self._settings.jobs:
                raise Problem(
                    503,
                    "too-many-jobs",
                    f"{self._settings.jobs} jobs wait for '{self.collection.name}', which is as "
                    "many as may. Try again when some are done; /v1/jobs tells.",
                    retry_after=10,
                )
            return spool.submit(passages)

        try:
            return await self.off_loop(work)
        except OSError as error:
            raise unwritable(self.collection.name, error) from error

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run something that waits for a disk."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def work_off(self) -> None:
        """Do all jobs that wait, unless another process is at it."""
        spool = self.spool
        if not await self.off_loop(spool.unfinished):
            return
        with spool.claim() as is_ours:
            while is_ours and not self._stopping.is_set():
                waiting = await self.off_loop(spool.unfinished)
                if not waiting:
                    break
                await self._do(spool, waiting[0])

    async def sweep(self) -> None:
        """Forget jobs that ended long ago."""
        spool = self.spool
        if await self.off_loop(spool.jobs):
            with spool.claim() as is_ours:
                if is_ours:
                    await self.off_loop(lambda: spool.sweep(self._settings.keep_seconds))

    def stop(self) -> None:
        """End what is under way at the next slice; a job goes on where the next process starts."""
        self._stopping.set()

    async def _do(self, spool: JobStore, job: Job) -> None:
        """One job, from where it stands."""
        job = replace(
            job, state=State.RUNNING, started=job.started or time(), attempts=job.attempts + 1
        )
        await self.off_loop(lambda job=job: spool.save(job))  # type: ignore[misc]
        try:
            if job.attempts > _ATTEMPTS:
                raise ServiceError(
                    f"The process that wrote it ended {_ATTEMPTS} times at the same place; the log "
                    "of the server may say why. Send it in smaller parts."
                )
            groups = self._groups(spool, job)
            while group := await self.off_loop(lambda: next(groups, None)):
                job = await self._commit(spool, job, group)
                await asyncio.sleep(_PAUSE)
            job = replace(job, state=State.DONE)
        except StoppedError:
            if self._stopping.is_set():
                return
            job = replace(job, state=State.CANCELLED)
        except Exception as error:  # noqa: BLE001 - whoever asks about the job is told
            LOG.error("job failed", exc_info=error, extra={"job": job.id})
            job = replace(job, state=State.FAILED, error=f"{error}" or type(error).__name__)
        job = replace(job, finished=time(), waits_for="")
        await self.off_loop(lambda: spool.save(job))
        self._tally.ended(job)
        LOG.info("job ended", extra={"job": job.id, "state": job.state, "passages": job.done})

    async def _commit(self, spool: JobStore, job: Job, group: list[Passage]) -> Job:
        """Write some documents of a job, when it is their turn, however long that takes."""

        def is_stopped() -> bool:
            return self._stopping.is_set() or spool.is_cancelled(job)

        # Before the lock is taken, so that others wait for a disk at most, not for the models.
        reader = await self._prepared(group, is_stopped)

        def work() -> IngestReport:
            if is_stopped():
                raise StoppedError
            return self._ingest(group, self._settings.group_passages, reader)

        while True:
            try:
                async with self._turn:
                    started = perf_counter()
                    report = await self.off_loop(work)
                self._committed(started)
                self._tally.wrote(report)
                break
            except IndexLockedError as error:
                if job.waits_for != str(error):
                    job = replace(job, waits_for=str(error))
                    await self.off_loop(lambda job=job: spool.save(job))  # type: ignore[misc]
                await asyncio.sleep(_PAUSE)
        job = replace(
            job,
            attempts=0,
            waits_for="",
            done=job.done + len(group),
            added=job.added + report.added,
            updated=job.updated + report.updated,
            unchanged=job.unchanged + report.unchanged,
            removed=job.removed + report.removed,
            index_version=report.version,
        )
        await self.off_loop(lambda: spool.save(job))
        return job

    def _groups(self, spool: JobStore, job: Job) -> Iterator[list[Passage]]:
        """Whole documents, as many as make a group."""
        group: list[Passage] = []
        for passage in spool.passages(job):
            full = len(group) >= self._settings.group_passages
            if full and passage.document != group[-1].document:
                yield group
                group = []
            group.append(passage)
        if group:
            yield group

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """A place among the changes that wait.

        Raises:
            Problem: 503 when there is none, when the server stops, or when the disk refuses.
        """
        if self._waiting >= self._settings.changes:
            raise Problem(
                503,
                "overloaded",
                f"{self._waiting} changes wait for '{self.collection.name}', which is as many as "
                "may. Try again, or send many documents in one request.",
                retry_after=1,
            )
        self._waiting += 1
        try:
            yield
        except OSError as error:
            raise unwritable(self.collection.name, error) from error
        except StoppedError:
            raise Problem(
                503, "closing", "This server is stopping; ask again or another.", retry_after=1
            ) from None
        finally:
            self._waiting -= 1

    async def _in_turn(self, work: Callable[[], T]) -> T:
        """Do something when it is its turn and no other process writes."""
        asked = perf_counter()
        async with self._turn:
            patience = monotonic() + self._settings.wait_seconds
            while True:
                started = perf_counter()
                try:
                    done = await self.off_loop(work)
                    self._tally.waited(started - asked)
                    self._committed(started)
                    break
                except IndexLockedError:
                    if monotonic() > patience:
                        raise
                await asyncio.sleep(random.uniform(_SOONEST, _LATEST))
            await asyncio.sleep(random.uniform(_SOONEST, _LATEST))
            return done

    def _committed(self, started: float) -> None:
        self._tally.committed(perf_counter() - started)
        self._written()

    def _ingest(
        self, passages: Sequence[Passage], window: int, reader: PassageAnalyser
    ) -> IngestReport:
        return ingest(
            Index.open(self.collection.engine.folder),
            passages,
            reader,
            batch_passages=max(1, window),
            entity_vectors=self._entity_vectors,
        )

    async def _prepared(
        self, passages: Sequence[Passage], is_stopped: Callable[[], bool]
    ) -> Prepared:
        """The models, with those passages analysed that are not stored like this already.

        Raises:
            StoppedError: It is to end.
        """
        folder = self.collection.engine.folder
        slices = InterleavedAnalyser(
            self.collection.engine.passage_analyser,
            self._call,
            loop=asyncio.get_running_loop(),
            words=self._settings.slice_words,
            is_stopped=is_stopped,
        )
        return await slices.prepare(
            await self.off_loop(lambda: Index.open(folder).changed(passages))
        )

    def _leave_jobs_alone(self, documents: Iterable[str], filter_: object | None = None) -> None:
        """Refuse what a job that was accepted earlier would undo later.

        Raises:
            Problem: 409.
        """
        found = self.spool.writing(documents)
        if found is None and filter_ is not None:
            found = self.spool.matching(parse_filter(filter_))
        if found is not None:
            job, document = found
            raise Problem(
                409,
                "job-under-way",
                f"Job {job.id} is about to write document '{document:.80}'. Wait until /v1/jobs/"
                f"{job.id} says that it has ended, or cancel it.",
                retry_after=1,
            )


def unwritable(collection: str, error: OSError) -> Problem:
    """What to say when the disk refuses a change."""
    return Problem(
        503,
        "not-writable",
        f"The index of '{collection}' cannot be written here: {error.strerror or error}. Give the "
        "server a disk with room that it may write to.",
        retry_after=30,
    )
