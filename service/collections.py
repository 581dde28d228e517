"""Collections: how those with an index are opened, and how they follow their newest versions."""

import asyncio
import ctypes
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, TypeVar

import pyarrow as pa

from wye.backends.errors import BackendError
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import RouterError
from wye.router.model_files import read_policy, read_title
from wye.router.session import Session
from wye.router.settings import RoutingSettings
from wye.router.snapshot import start_deriving
from wye.router.types import USUAL, Ask, Route
from wye.service.batching import Batcher
from wye.service.errors import ServiceError
from wye.service.http.keys import KeyRing
from wye.service.http.metrics import Metrics
from wye.service.http.problems import Problem, reason_of
from wye.service.logs import LOG
from wye.service.settings import ServiceSettings

_LOOKS_AGAIN = 0.1
"""Seconds between looks for a version that a question asks for."""
WARM_UP = "Who built the bridge between the two towns, and when was it opened?"
T = TypeVar("T")


INDEX, THRESHOLDS, BASE = "index", "thresholds", "base"
"""What of a collection can be at fault."""


class Collection:
    """A named index, with the version of it that is searched now; it follows the newest one.

    A replaced session is freed with the last batch that holds it. `load` runs in the thread that
    searches, `renew` in another one.

    Attributes:
        unavailable: Routes that the installation lacks, and why.
        faults: Errors of `INDEX`, of `THRESHOLDS` and of `BASE`; "" for none.
        read_fault: Why the version that is searched can no longer be read; "" while it can.
    """

    def __init__(self, name: str, open_: Callable[[], Session]) -> None:
        self.name = name
        self.faults = {INDEX: "", THRESHOLDS: "", BASE: ""}
        self.read_fault = ""
        self.unavailable: dict[Route, str] = {}
        self._session: Session | None = None
        self._open = open_
        self._deriving: BaseProcess | None = None
        self._changed_at = monotonic()  # when the version last changed
        self._changes = 0  # of the base, when `_deriving` was started

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded."""
        return self._session is not None

    def require_ready(self) -> None:
        """Refuse (503) questions while it is not loaded, or its files can no longer be read."""
        _ = self.session
        if self.read_fault:
            raise Problem(503, "unavailable", reason_of(self.read_fault), retry_after=10)

    def require_route(self, route: Route) -> None:
        """Refuse (409) a route that the installation lacks."""
        if reason := self.unavailable.get(route):
            sentence = f"Route '{route}' is not available in '{self.name}': {reason_of(reason)}"
            raise Problem(409, "no-such-route", sentence)

    @property
    def session(self) -> Session:
        """The session that answers now; hold it for a batch. `Problem` 503 before it is loaded."""
        if self._session is None:
            why = f" ({self.error})" if self.error else ""
            sentence = f"Collection '{self.name}' is not loaded yet{why}. /ready says when it is."
            raise Problem(503, "loading", sentence, retry_after=1)
        return self._session

    @property
    def error(self) -> str:
        """All present faults in one text for readers; the log has their paths. "" for none."""
        faults = " ".join(filter(None, dict.fromkeys((self.read_fault, *self.faults.values()))))
        return faults and reason_of(faults)

    def facts(self) -> dict[str, object]:
        """Name, version, passages, router, thresholds and faults, as plain values."""
        session = self._session
        facts: dict[str, object] = {"collection": self.name, "ready": self.is_ready}
        if session is not None:
            facts |= {"index_version": session.version, "passages": session.count}
            if session.index.fault:
                facts["note"] = reason_of(session.index.fault)
            if session.policy is not None:
                thresholds = asdict(session.policy.thresholds)
                facts |= {"router": session.router_name, "thresholds": thresholds}
        if self.error:
            facts["error"] = self.error
        return facts

    def load(self) -> None:
        """Open the index and warm it up with one question over each route.

        A route that the installation lacks, such as for want of a router model, is noted in
        `unavailable` with the reason. Any other failure is kept in `error` and raised.
        """
        started = perf_counter()
        try:
            session = self._open()
            session.build()
            for route in USUAL:
                self._warm_up(session, route)
            # What was deleted meanwhile is in no reply.
            newer = self._attempt(INDEX, lambda: _build(session.reload()))
            session = newer or session
        except Exception as error:
            self.faults[INDEX] = str(error)
            raise
        self._session = session
        release_memory()
        self.faults[INDEX] = ""
        LOG.info("loaded", extra={**self.facts(), "seconds": round(perf_counter() - started, 3)})
        if fault := session.index.fault:
            LOG.error("index damaged", extra={"collection": self.name, "error": fault})

    def renew(self) -> bool:
        """Move to the newest thresholds and the newest version while searches go on.

        If either cannot be used, the error is logged, the present one stays, and the other is
        still tried.

        Returns:
            Whether anything newer is used now.
        """
        if self._session is None:
            return False
        has_thresholds = self._move(THRESHOLDS, self._session.reload_thresholds)
        if has_thresholds:  # they may be the first that can be used
            self.unavailable.pop(Route.AUTO, None)
        has_version = self._move(INDEX, self._session.reload)
        self._derive(self._session)
        self._check_files(self._session)
        return has_version or has_thresholds

    def close(self) -> None:
        """End the derivation, if one runs, and close the session."""
        if self._deriving is not None:
            self._deriving.kill()
            self._deriving.join()
        if self._session is not None:
            self._session.close()

    def _derive(self, session: Session) -> None:
        """Start to derive a newer base if the present one was outgrown, or after a quiet time."""
        if self._deriving is not None and self._deriving.is_alive():
            return
        changes = session.snapshot.due(monotonic() - self._changed_at)
        # A base that could not be kept is tried again once twice as many passages are on top.
        if changes > 2 * self._changes:
            process = self._attempt(BASE, lambda: _start_deriving(session))
            if process is not None:
                self._changes, self._deriving = changes, process
        elif not changes:
            self._changes, self.faults[BASE] = 0, ""

    def _check_files(self, session: Session) -> None:
        """Update `read_fault`: whether the texts of passages can still be read."""
        try:
            session.index.check_files()
            fault = ""
        except BackendError as error:
            fault = f"The index of '{self.name}' can no longer be read. {error}"
        if fault != self.read_fault:
            LOG.error(fault) if fault else LOG.info("readable again", extra=self.facts())
        self.read_fault = fault

    def _move(self, subject: str, reload: Callable[[], Session | None]) -> bool:
        """Switch to a newer session, if `reload` returns one; `subject` as in `_attempt`."""
        started = perf_counter()
        session = self._attempt(subject, lambda: _build(reload()))
        if session is None:
            return False
        self._session = session
        self._changed_at = monotonic() if subject == INDEX else self._changed_at
        release_memory()
        seconds = round(perf_counter() - started, 3)
        LOG.info("refreshed", extra={**self.facts(), "of": subject, "seconds": seconds})
        return True

    def _warm_up(self, session: Session, route: Route) -> None:
        try:
            session.gateway.search([WARM_UP], Ask(route, 1))
        except (RouterError, FeaturizerError) as error:
            # Only steps and some routers need trees; every other model is needed by all routes.
            if route not in (Route.AUTO, Route.STEPS) and isinstance(error, FeaturizerError):
                raise  # a model is missing that every route needs
            self.unavailable[route] = str(error)
            extra = {"collection": self.name, "route": str(route), "error": str(error)}
            LOG.warning("route unavailable", extra=extra)

    def _attempt(self, subject: str, function: Callable[[], T]) -> T | None:
        """The result of a function; None after an error, which is logged and put in `faults`."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - the present one stays in use
            if str(error) != self.faults[subject]:
                extra = {"collection": self.name, "of": subject, "error": str(error)}
                LOG.error("refresh failed", extra=extra)
            self.faults[subject] = str(error)
            return None
        self.faults[subject] = ""
        return result


def _build(session: Session | None) -> Session | None:
    if session is not None:
        session.build()
    return session


def _start_deriving(session: Session) -> BaseProcess:
    try:
        return start_deriving(session.folder, session.settings)
    except OSError as error:
        raise ServiceError(
            f"The index has outgrown its base, and no process can be started to make a later one "
            f"({error}). Raise this server's limits of processes, memory or open files."
        ) from None


def release_memory() -> None:
    """Return freed memory to the system: a third of what opening an index allocates."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


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
        self._logged_errors: dict[str, str] = {}
        self._metrics = metrics
        self._loaded = loaded
        self._is_written = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wye-refresh")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to load, and return."""
        self._task = asyncio.create_task(self._load_and_follow(), name="wye-collections")

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    def written(self) -> None:
        """Look for a new version soon, because this process has written one."""
        self._is_written.set()

    async def catch_up(self, collection: Collection, version: int, *, within: float = 0) -> None:
        """Wait until this process searches a version.

        Questions that arrive later see that version or a newer one.

        Args:
            within: Seconds to wait for a version that another process may not have published yet.

        Raises:
            Problem: 503 if it cannot be opened here; it stays written.
        """
        end = monotonic() + within
        while collection.session.version < version:
            before = collection.session.version
            await self._renew(collection)
            if collection.session.version == before:
                if monotonic() < end:
                    await asyncio.sleep(_LOOKS_AGAIN)
                    continue
                reason = collection.faults[INDEX] or "the newer one is not visible yet"
                raise Problem(
                    503,
                    "not-searched-yet",
                    f"Version {version} of '{collection.name}' was asked for or is written, but "
                    f"version {before} is still searched here ({reason}). Try again.",
                    retry_after=2,
                )

    async def _load(self) -> None:
        """Load each collection that is not loaded yet, in the models' thread."""
        collections = [each for each in self._collections.values() if not each.is_ready]
        for collection in collections:
            try:
                await self._models.call(collection.load)
            except Exception as error:  # noqa: BLE001 - /ready tells; the others are still loaded
                extra = {"collection": collection.name, "error": str(error)}
                LOG.error("load failed", exc_info=error, extra=extra)
            self._show(collection)
        if collections and all(each.is_ready for each in collections):
            await self._models.call(self._loaded)

    async def _load_and_follow(self) -> None:
        """Load what is not loaded yet, then look for newer versions, thresholds and keys."""
        await self._load()
        while True:
            started = perf_counter()
            self._is_written.clear()
            for collection in self._collections.values():
                await self._renew(collection)
            if self._ring.path is not None:
                with self._logged("keys"):
                    self._ring.reload()
                    if self._ring.fault:
                        raise ServiceError(self._ring.fault)
            # Renewing takes at most half of the time even if the index is written all the time,
            # and at most a fifth as long as the pause stays within its usual length. That is half
            # of `refresh_seconds`, so that a commit is searched in that time, opening included.
            seconds = perf_counter() - started
            usual = self._serve.refresh_seconds / 2
            pause = max(seconds, min(4 * seconds, usual))
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(usual - pause):
                    await self._is_written.wait()

    async def _renew(self, collection: Collection) -> None:
        """Move a collection to the newest version and thresholds, if there are newer ones."""
        loop = asyncio.get_running_loop()
        with self._logged(f"collection {collection.name}"):
            if await loop.run_in_executor(self._thread, collection.renew):
                self._show(collection)

    @contextmanager
    def _logged(self, subject: str) -> Iterator[None]:
        """Log an error instead of raising it, once until it changes; the next round tries again."""
        message = ""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - what else is followed is followed still
            message = repr(error)
            if message != self._logged_errors.get(subject):
                LOG.error("refresh failed", exc_info=error, extra={"of": subject, "error": message})
        self._logged_errors[subject] = message

    def _show(self, collection: Collection) -> None:
        """Tell the metrics which version is searched."""
        if collection.is_ready:
            session = collection.session
            self._metrics.index_version.labels(collection.name).set(session.version)
            self._metrics.index_passages.labels(collection.name).set(session.count)


def check_router(routing: RoutingSettings) -> None:
    """Check that a named router and its thresholds can be read together; loads no models.

    The default router may be missing: the route that needs it says so.

    Raises:
        RouterError: They cannot.
    """
    if routing == RoutingSettings():
        return
    router = read_title(routing.folder())
    if routing.thresholds:
        read_policy(Path(routing.thresholds), router)
