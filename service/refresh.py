"""Loads collections, follows their newest versions, and tells other processes which is searched."""

import asyncio
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from router.session import Session
from service.batching import Batcher
from service.collections import INDEX, Collection
from service.errors import ServiceError
from service.http.keys import KeyRing
from service.http.metrics import Metrics
from service.http.problems import Problem
from service.logs import LOG
from service.settings import ServiceSettings

_GLANCE = 0.05


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
        self._patience = settings.documents.wait_seconds
        self._collections = collections
        self._models = models
        self._ring = ring
        self._key_fault = ""
        self._told: dict[str, str] = {}
        self._metrics = metrics
        self._loaded = loaded
        self._is_written = asyncio.Event()
        self._served: dict[str, ServedVersions | None] = {}
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="wye-refresh")
        self._task: asyncio.Task[None] | None = None
        for collection in collections.values():
            collection.announce = partial(self._show, collection)

    async def start(self) -> None:
        """Begin to load, and return.

        If there are several workers, each loads before it returns: they share an address, so
        /ready of one says nothing about the others.

        Raises:
            ServiceError: One of several workers could not load a collection.
        """
        if self._serve.workers > 1:
            await self._load()
            if not all(collection.is_ready for collection in self._collections.values()):
                raise ServiceError("A collection could not be loaded; see the log above for why.")
        self._task = asyncio.create_task(self._load_and_follow(), name="wye-collections")

    async def stop(self) -> None:
        """Stop following, and leave the list of processes that others wait for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._beside.shutdown()
        for served in self._served.values():
            if served is not None:
                served.leave()

    def written(self) -> None:
        """Look for a new version soon, because this process has written one."""
        self._is_written.set()

    async def catch_up(self, collection: Collection, version: int) -> bool:
        """Wait until this process searches a version, and for a while until all processes do.

        Questions that arrive later see that version or a newer one.

        Returns:
            Whether all processes search it.

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

        served = self._served.get(collection.name)
        if served is None:
            return False
        patience = monotonic() + self._patience
        while await asyncio.to_thread(served.behind, version):
            if monotonic() > patience:
                return False
            await asyncio.sleep(_GLANCE)
        return True

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
        told = ""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - what else is followed is followed still
            told = repr(error)
            if told != self._told.get(what):
                LOG.error("refresh failed", exc_info=error, extra={"of": what, "error": told})
        self._told[what] = told

    def _show(self, collection: Collection, session: Session | None = None) -> None:
        """Tell other processes and the metrics which version is searched, or is about to be."""
        if session is None:
            if not collection.is_ready or not collection.has_index:
                return
            session = collection.session
        self._metrics.index_version.labels(collection.name).set(session.version)
        self._metrics.index_passages.labels(collection.name).set(session.count)
        served = self._served.setdefault(collection.name, ServedVersions(session.folder))
        if served is None:
            return
        try:
            served.announce(session.version)
        except OSError as error:
            self._served[collection.name] = None
            LOG.warning(
                "version not announced: deletions by other processes do not wait for this one",
                extra={"collection": collection.name, "error": str(error)},
            )

    def _reload_keys(self) -> None:
        self._ring.reload()
        if self._ring.fault and self._ring.fault != self._key_fault:
            LOG.error("keys dropped", extra={"error": self._ring.fault})
        self._key_fault = self._ring.fault


class ServedVersions:
    """Which version each process searches, so that a deletion can wait for all of them.

    Each process keeps a file in `jobs/readers` of the index with the version that it searches. It
    holds a lock on the file while it lives; an unlocked file is of a process that ended.
    """

    def __init__(self, index: Path) -> None:
        """Keep the folder of an index; the first `announce` writes to it."""
        self._folder = index / "jobs" / "readers"
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._descriptor: int | None = None

    def announce(self, version: int) -> None:
        """Announce the version that this process searches; 0 before it searches any.

        Raises:
            OSError: The folder cannot be written.
        """
        stated = f"{version:020d}".encode()  # of fixed length, so that a write replaces all of it
        if self._descriptor is None:
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(exist_ok=True)
            hidden = self._folder / f".{self._name}"
            # Locked before it is renamed, so that no process takes it for an abandoned one.
            self._descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(self._descriptor, stated, 0)
            hidden.rename(self._folder / self._name)
        else:
            os.pwrite(self._descriptor, stated, 0)

    def behind(self, version: int) -> list[str]:
        """Other processes that still search an older version, or whose file cannot be read."""
        if not self._folder.is_dir():
            return []
        names = [path.name for path in self._folder.iterdir() if not path.name.startswith(".")]
        return sorted(
            name for name in names if name != self._name and self._is_behind(name, version)
        )

    def leave(self) -> None:
        """Remove this process's file."""
        if self._descriptor is not None:
            (self._folder / self._name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _is_behind(self, name: str, version: int) -> bool:
        path = self._folder / name
        try:
            # Another user's file can only be read, and a shared lock takes no more, on NFS either.
            with os.fdopen(os.open(path, os.O_RDONLY), "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read(20) or b"0") < version
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)
                return False
        except FileNotFoundError:
            return False
        except OSError:
            return True
