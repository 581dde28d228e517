"""Documents over HTTP as a whole: a scribe for each collection, jobs, and who searches what."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic

from backends.errors import BackendError
from service.collections import Collection
from service.http.metrics import DocumentMetrics, Tally
from service.http.problems import Problem
from service.ingest.interleaved import Call
from service.ingest.jobs import Job, ServedVersions
from service.ingest.sandbox import Sandbox
from service.ingest.writer import CollectionWriter
from service.logs import LOG
from service.settings import DocumentSettings

# Seconds between two looks for jobs that another process accepted and left behind.
_LOOK = 1.0
_SWEEP = 60.0
_GLANCE = 0.05
_THREADS = 4

CatchUp = Callable[[Collection, int], Awaitable[None]]


class Desk:
    """Takes documents in and has them written; one to an app."""

    def __init__(
        self,
        collections: Mapping[str, Collection],
        settings: DocumentSettings,
        *,
        call: Call,
        catch_up: CatchUp,
        written: Callable[[], None],
        entity_vectors: bool,
        metrics: DocumentMetrics,
    ) -> None:
        """Wire the parts; `start` begins to look for jobs.

        Args:
            collections: By name.
            settings: Of documents.
            call: Runs something in the thread of the models.
            catch_up: Returns when this process searches a version of a collection, or a newer one.
            written: Called after each commit of this process, in the event loop's thread.
            entity_vectors: See `backends.store.ingest.ingest`.
            metrics: To count in.
        """
        self.settings = settings
        self.sandbox = Sandbox(settings.limits)
        self._thread = ThreadPoolExecutor(_THREADS, thread_name_prefix="wye-documents")
        self._catch_up = catch_up
        self._collections = collections
        self._tallies = {name: Tally(metrics, name) for name in collections}
        self._scribes = {
            name: CollectionWriter(
                collection,
                settings,
                call=call,
                thread=self._thread,
                written=written,
                tally=self._tallies[name],
                entity_vectors=entity_vectors,
            )
            for name, collection in collections.items()
        }
        self._readers: dict[str, ServedVersions] = {}
        self._unannounced: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._stopping = False

    def scribe(self, collection: Collection) -> CollectionWriter:
        """What writes to a collection."""
        return self._scribes[collection.name]

    def tally(self, collection: Collection) -> Tally:
        """What counts a collection's changes."""
        return self._tallies[collection.name]

    async def count_jobs(self) -> None:
        """Have the metrics say how many jobs there are now, whichever process does them."""
        for name, scribe in self._scribes.items():
            if scribe.collection.is_ready:
                self._tallies[name].unfinished(await asyncio.to_thread(scribe.spool.unfinished))

    def start(self) -> None:
        """Begin to do jobs, those first that an earlier process left."""
        self._task = asyncio.create_task(self._work(), name="wye-jobs")

    async def stop(self) -> None:
        """End at the next slice; jobs that are not done are left for the next process."""
        self._stopping = True
        for scribe in self._scribes.values():
            scribe.stop()
        self._wake.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()
        for readers in self._readers.values():
            readers.leave()

    def wake(self) -> None:
        """There is a new job."""
        self._wake.set()

    def announce(self, collection: Collection) -> None:
        """Tell other processes which version this one searches."""
        if not collection.is_ready or collection.name in self._unannounced:
            return
        engine = collection.engine
        readers = self._readers.setdefault(collection.name, ServedVersions(engine.folder))
        try:
            readers.announce(engine.version)
        except OSError as error:
            self._unannounced.add(collection.name)
            LOG.warning(
                "version not announced: deletions by other processes do not wait for this one",
                extra={"collection": collection.name, "error": str(error)},
            )

    async def settle(self, collection: Collection, version: int) -> bool:
        """Wait until this process searches a version, and for a while until all processes do.

        Returns:
            Whether they do.

        Raises:
            Problem: This process cannot move to it.
        """
        await self._catch_up(collection, version)
        readers = self._readers.get(collection.name)
        if readers is None:
            return collection.name not in self._unannounced
        patience = monotonic() + self.settings.wait_seconds
        while await self.scribe(collection).off_loop(lambda: readers.behind(version)):
            if monotonic() > patience:
                return False
            await asyncio.sleep(_GLANCE)
        return True

    async def jobs(self, collection: Collection | None) -> list[Job]:
        """Jobs of a collection, or of all that are loaded; newest first."""
        if collection is not None:
            return await self._jobs_of(self.scribe(collection))
        found: list[Job] = []
        for scribe in self._scribes.values():
            if scribe.collection.is_ready:
                found += await self._jobs_of(scribe)
        return sorted(found, key=lambda job: job.id, reverse=True)

    async def job(self, id_: str) -> tuple[Job, CollectionWriter]:
        """A job by id, and who does it.

        Raises:
            Problem: 404.
        """
        for scribe in self._scribes.values():
            if scribe.collection.is_ready:
                spool = scribe.spool
                job = await scribe.off_loop(lambda spool=spool: spool.job(id_))  # type: ignore[misc]
                if job is not None:
                    return job, scribe
        raise Problem(
            404,
            "no-such-job",
            f"There is no job '{id_:.40}'. Jobs that ended are kept for "
            f"{self.settings.keep_seconds / 3600:g} hours; /v1/jobs lists them.",
        )

    async def _jobs_of(self, scribe: CollectionWriter) -> list[Job]:
        spool = scribe.spool
        return (await scribe.off_loop(spool.jobs))[::-1]

    async def _work(self) -> None:
        swept = monotonic() - _SWEEP
        while not self._stopping:
            is_time = monotonic() - swept >= _SWEEP
            for scribe in self._scribes.values():
                if not scribe.collection.is_ready:
                    continue
                try:
                    await scribe.work_off()
                    if is_time:
                        await scribe.sweep()
                except (OSError, ValueError, TypeError, BackendError) as error:
                    name = scribe.collection.name
                    LOG.error("jobs", exc_info=error, extra={"collection": name})
            swept = monotonic() if is_time else swept
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._wake.wait()
            if not self._stopping:
                self._wake.clear()
