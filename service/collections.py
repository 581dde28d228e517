"""Collections with an index: names and routers, and how they are opened and kept up to date."""

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from wye.backends.errors import BackendError
from wye.featurizer.errors import FeaturizerError
from wye.router.deriving import start_deriving
from wye.router.errors import RouterError
from wye.router.model_files import read_info, read_policy
from wye.router.session import Session
from wye.router.settings import RoutingSettings
from wye.router.types import USUAL, Ask, Route
from wye.service.errors import ServiceError
from wye.service.logs import LOG
from wye.service.search import BASE, INDEX, THRESHOLDS, Collection
from wye.service.settings import ServiceSettings

DEFAULT = "default"

COLLECTION = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
"""Pattern of a collection's name."""


def index_folders(
    named: Iterable[str], fallback: Path | None, *, required: bool = True
) -> dict[str, Path]:
    """The folder of each collection, by name.

    Args:
        named: Entries NAME=DIR, or DIR alone for the collection "default".
        fallback: Folder of "default" if there are no entries.
        required: Raise if there is neither an entry nor a fallback.

    Raises:
        ServiceError: A name is invalid or given twice, a folder is missing, or there is nothing
            to serve.
    """
    folders: dict[str, Path] = {}
    for name, folder in _by_name(named):
        if not COLLECTION.fullmatch(name):
            raise ServiceError(
                f"A collection cannot be called '{name}'; use letters, digits, dots and dashes."
            )
        if name in folders:
            raise ServiceError(
                f"Two collections are called '{name}'; give each a name, as in --index {name}2=DIR."
            )
        if not folder:
            raise ServiceError(f"Collection '{name}' has no folder; write {name}=DIR.")
        folders[name] = Path(folder)
    if not folders and fallback is not None:
        return {DEFAULT: fallback}
    if not folders and required:
        raise ServiceError(
            "Serve what? Give --index DIR, or set WYE_INDEX; or declare an arm with the role "
            '"simple" in the arms file, for a corpus that lives elsewhere.'
        )
    return folders


WARM_UP = "Who built the bridge between the two towns, and when was it opened?"


class IndexCollection(Collection):
    """A collection with an index."""

    def __init__(self, name: str, open_: Callable[[], Session]) -> None:
        super().__init__(name)
        self._open = open_
        self._deriving: BaseProcess | None = None
        self._derived_for = 0  # passages on top of the base when `_deriving` was started

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
            later = self._tried(INDEX, lambda: _built(session.reload()))
            session = later or session
        except Exception as error:
            self.faults[INDEX] = str(error)
            raise
        self._session = session
        give_back()
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
        retuned = self._move(THRESHOLDS, self._session.reload_thresholds)
        if retuned:  # they may be the first that can be used
            self.unavailable.pop(Route.AUTO, None)
        moved = self._move(INDEX, self._session.reload)
        self._derive(self._session)
        self._check_files(self._session)
        return moved or retuned

    def close(self) -> None:
        """End the derivation, if one runs, and close the session."""
        if self._deriving is not None:
            self._deriving.kill()
            self._deriving.join()
        super().close()

    def _derive(self, session: Session) -> None:
        """Start to derive a newer base if the present one was outgrown."""
        if self._deriving is not None and self._deriving.is_alive():
            return
        outgrown = session.snapshot.outgrown
        # A base that could not be kept is tried again once twice as many passages are on top.
        if outgrown > 2 * self._derived_for:
            started = self._tried(BASE, lambda: _deriving(session))
            if started is not None:
                self._derived_for, self._deriving = outgrown, started
        elif not outgrown:
            self._derived_for, self.faults[BASE] = 0, ""

    def _check_files(self, session: Session) -> None:
        """Update `gone`: whether the texts of passages can still be read."""
        try:
            session.index.check_files()
            gone = ""
        except BackendError as error:
            gone = f"The index of '{self.name}' can no longer be read. {error}"
        if gone != self.gone:
            LOG.error(gone) if gone else LOG.info("readable again", extra=self.facts())
        self.gone = gone

    def _move(self, what: str, newer: Callable[[], Session | None]) -> bool:
        """Switch to a newer session, if there is one."""
        started = perf_counter()
        later = self._tried(what, lambda: _built(newer()))
        if later is None:
            return False
        self._session = later
        give_back()
        spent = round(perf_counter() - started, 3)
        LOG.info("refreshed", extra={**self.facts(), "of": what, "seconds": spent})
        return True

    def _warm_up(self, session: Session, route: Route) -> None:
        try:
            session.gateway.search([WARM_UP], Ask(route, 1))
        except (RouterError, FeaturizerError) as error:
            # Only steps and some routers need trees; every other model is needed by all routes.
            if route not in (Route.AUTO, Route.STEPS) and isinstance(error, FeaturizerError):
                raise  # a model is missing that every route needs
            self.unavailable[route] = str(error)
            LOG.warning(
                "route unavailable",
                extra={"collection": self.name, "route": str(route), "error": str(error)},
            )


def _built(session: Session | None) -> Session | None:
    if session is not None:
        session.build()
    return session


def _deriving(session: Session) -> BaseProcess:
    try:
        return start_deriving(session.folder, session.settings)
    except OSError as error:
        raise ServiceError(
            f"The index has outgrown its base, and no process can be started to make a later one "
            f"({error}). Raise this server's limits of processes, memory or open files."
        ) from None


def give_back() -> None:
    """Return free memory to the system: a third of what opening an index allocates."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def router_settings(
    settings: ServiceSettings, collections: Sequence[str]
) -> dict[str, RoutingSettings]:
    """The router and the thresholds of each collection, by name.

    Without a router of its own, a collection has WYE_ROUTER__MODEL and WYE_ROUTER__THRESHOLDS.
    Thresholds fit one router's scores, so a collection with a router of its own uses that router's
    thresholds, unless others are named for the collection.

    Raises:
        ServiceError: A name is no collection or given twice, or its value is empty.
    """
    serve = settings.serve
    routers = _assigned("--router", "MODEL", serve.routers, collections)
    thresholds = _assigned("--thresholds", "FILE", serve.thresholds, collections)
    routing = {}
    for name in collections:
        chosen = RoutingSettings(routers[name]) if name in routers else settings.router
        routing[name] = replace(chosen, thresholds=thresholds.get(name, chosen.thresholds))
    return routing


def check_router(collection: str, routing: RoutingSettings) -> None:
    """Check that a named router and its thresholds can be read together; loads no models.

    The default router may be missing: the route that needs it says so.

    Raises:
        ServiceError: They cannot.
    """
    if routing == RoutingSettings():
        return
    try:
        router = read_info(routing.folder()).name
        if routing.thresholds:
            read_policy(Path(routing.thresholds), router)
    except RouterError as error:
        raise ServiceError(f"The router of collection '{collection}': {error}") from None


def _by_name(entries: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Split entries NAME=VALUE; VALUE alone is for "default"."""
    for entry in entries:
        name, is_named, value = entry.partition("=")
        yield (name, value) if is_named else (DEFAULT, entry)


def _assigned(
    option: str, what: str, entries: Iterable[str], collections: Sequence[str]
) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in _by_name(entries):
        if name not in collections:
            raise ServiceError(
                f"{option} is for '{name}', which is not a collection; write {option} NAME={what} "
                f"with one of {', '.join(collections)}."
            )
        if name in values:
            raise ServiceError(f"{option} is given twice for collection '{name}'; keep one.")
        if not value:
            raise ServiceError(f"{option} {name}= names nothing; write {option} {name}={what}.")
        values[name] = value
    return values
