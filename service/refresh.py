"""Loads collections and follows their newest versions, thresholds and keys."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

from wye.service.batching import Batcher
from wye.service.http.auth import KeyRing
from wye.service.http.metrics import Metrics
from wye.service.http.problems import Problem
from wye.service.logs import LOG
from wye.service.search import INDEX, Collection
from wye.service.settings import ServiceSettings


class Refresher:
    """Loads the collections, then moves them to new versions and thresholds as these appear."""

    def __init__(
        self,
        settings: ServiceSettings,
        collections: Mapping[str, Collection],
        models: Batcher[Any, Any, Any],
        *,
        ring: KeyRing,
        metrics: Metrics,
        loaded: Callable[[], None],
    ) -> None:
        """Keep the parts; `start` begins to load.

        Args:
            loaded: Called in the models' thread when all collections are loaded.
        """
        self._serve = settings.serve
        self._collections = collections
        self._models = models
        self._ring = ring
        self._key_fault = ""
        self._logged_errors: dict[str, str] = {}
        self._metrics = metrics
        self._loaded = loaded
        self._is_written = asyncio.Event()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="wye-refresh")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to load, and return."""
        self._task = asyncio.create_task(self._load_and_follow(), name="wye-collections")

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._beside.shutdown()

    def written(self) -> None:
        """Look for a new version soon, because this process has written one."""
        self._is_written.set()

    async def catch_up(self, collection: Collection, version: int) -> None:
        """Wait until this process searches a version.

        Questions that arrive later see that version or a newer one.

        Raises:
            Problem: 503 if it cannot be opened here; it stays written.
        """
        while collection.session.version < version:
            before = collection.session.version
            await self._renew(collection)
            if collection.session.version == before:
                why = collection.faults[INDEX] or "the newer one is not visible yet"
                raise Problem(
                    503,
                    "not-searched-yet",
                    f"Version {version} of '{collection.name}' is written, but version {before} is "
                    f"still searched here ({why}). Try again.",
                    retry_after=2,
                )

    async def _load(self) -> None:
        """Load each collection that is not loaded yet, in the models' thread."""
        waiting = [each for each in self._collections.values() if not each.is_ready]
        for collection in waiting:
            try:
                await self._models.call(collection.load)
            except Exception as error:  # noqa: BLE001 - /ready tells; the others are still loaded
                extra = {"collection": collection.name, "error": str(error)}
                LOG.error("load failed", exc_info=error, extra=extra)
            self._show(collection)
        if waiting:
            await self._models.call(self._loaded)

    async def _load_and_follow(self) -> None:
        """Load what is not loaded yet, then look for newer versions, thresholds and keys."""
        await self._load()
        while True:
            started = perf_counter()
            self._is_written.clear()
            for collection in self._collections.values():
                await self._renew(collection)
            with self._logged("keys"):
                self._reload_keys()
            # Renewing takes at most half of the time even if the index is written all the time,
            # and at most a fifth as long as the pause stays within its usual length. That is half
            # of `refresh_seconds`, so that a commit is searched in that time, opening included.
            spent = perf_counter() - started
            usual = self._serve.refresh_seconds / 2
            pause = max(spent, min(4 * spent, usual))
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(usual - pause):
                    await self._is_written.wait()

    async def _renew(self, collection: Collection) -> None:
        """Move a collection to the newest version and thresholds, if there are newer ones."""
        loop = asyncio.get_running_loop()
        with self._logged(f"collection {collection.name}"):
            if await loop.run_in_executor(self._beside, collection.renew):
                self._show(collection)

    @contextmanager
    def _logged(self, what: str) -> Iterator[None]:
        """Log an error instead of raising it, once until it changes; the next round tries again."""
        message = ""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - what else is followed is followed still
            message = repr(error)
            if message != self._logged_errors.get(what):
                LOG.error("refresh failed", exc_info=error, extra={"of": what, "error": message})
        self._logged_errors[what] = message

    def _show(self, collection: Collection) -> None:
        """Tell the metrics which version is searched."""
        if collection.is_ready and collection.has_index:
            session = collection.session
            self._metrics.index_version.labels(collection.name).set(session.version)
            self._metrics.index_passages.labels(collection.name).set(session.count)

    def _reload_keys(self) -> None:
        self._ring.reload()
        if self._ring.fault and self._ring.fault != self._key_fault:
            LOG.error("keys dropped", extra={"error": self._ring.fault})
        self._key_fault = self._ring.fault
