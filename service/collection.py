"""A collection: an index by name, loaded, warmed up, and kept at its newest version."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from featurizer.errors import FeaturizerError
from router.errors import RouterError
from router.policy import Policy
from router.types import Route
from service.engine import Engine
from service.errors import ServiceError
from service.logs import LOG
from service.problems import Problem

DEFAULT = "default"
WARM_UP = "Who built the bridge between the two towns, and when was it opened?"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection is.

    Attributes:
        name: That requests use.
        folder: Of its index.
    """

    name: str
    folder: Path


class Collection:
    """One index by name, with the version that is searched now.

    `load` and `forget` run in the thread that searches, `renew` in another beside it.
    """

    def __init__(self, name: str, open_: Callable[[], Engine]) -> None:
        """Open nothing yet.

        Args:
            name: That requests use.
            open_: Opens the index.
        """
        self.name = name
        self.error = ""
        self.unavailable: dict[Route, str] = {}
        self._open = open_
        self._engine: Engine | None = None
        self._former: list[Engine] = []

    @property
    def is_ready(self) -> bool:
        """Whether questions are answered at once."""
        return self._engine is not None

    @property
    def engine(self) -> Engine:
        """What answers questions at this moment; hold on to it for the length of a batch.

        Raises:
            Problem: It is not loaded yet.
        """
        if self._engine is None:
            why = f" ({self.error})" if self.error else ""
            raise Problem(
                503,
                "loading",
                f"Collection '{self.name}' is not loaded yet{why}. /ready says when it is.",
                retry_after=1,
            )
        return self._engine

    @property
    def policy(self) -> Policy | None:
        """What becomes of scores; None while nothing is loaded, and without a router."""
        return None if self._engine is None else self._engine.policy

    def load(self) -> None:
        """Open the index, and ask one question over each route, so that no client has to wait.

        A route that the installation lacks (no router model, say) is kept in `unavailable` with
        the reason; everything else that fails is kept in `error` and raised.
        """
        started = perf_counter()
        try:
            engine = self._open()
            engine.build()
            for route in Route:
                self._warm(engine, route)
        except Exception as error:
            self.error = str(error)
            raise
        self._engine = engine
        self.error = ""
        LOG.info("loaded", extra={**self.facts(), "seconds": round(perf_counter() - started, 3)})

    def renew(self) -> bool:
        """Move to the newest version, if there is a newer one; searching goes on meanwhile.

        Returns:
            Whether there was.
        """
        if self._engine is None:
            return False
        started = perf_counter()
        try:
            later = self._engine.successor()
            if later is not None:
                later.build()
        except Exception as error:  # noqa: BLE001 - the version that is searched stays
            if str(error) != self.error:
                LOG.error("refresh failed", extra={"collection": self.name, "error": str(error)})
            self.error = str(error)
            return False
        self.error = ""
        if later is None:
            return False
        self._former.append(self._engine)
        self._engine = later
        LOG.info("refreshed", extra={**self.facts(), "seconds": round(perf_counter() - started, 3)})
        return True

    def forget(self) -> None:
        """Let go of versions that are searched no longer, now that no batch is under way."""
        while self._former:
            self._former.pop().release()

    def facts(self) -> dict[str, object]:
        """Name, version, passages and what is wrong, as plain values."""
        facts: dict[str, object] = {"collection": self.name, "ready": self.is_ready}
        if self._engine is not None:
            facts |= {"index_version": self._engine.version, "passages": self._engine.count}
        if self.error:
            facts["error"] = self.error
        return facts

    def close(self) -> None:
        """End what the models started."""
        if self._engine is not None:
            self._engine.close()

    def _warm(self, engine: Engine, route: Route) -> None:
        try:
            engine.gateway.search([WARM_UP], route, 1)
        except (RouterError, FeaturizerError) as error:
            if route != Route.AUTO and isinstance(error, FeaturizerError):
                raise  # without the models that every route needs there is nothing to serve
            self.unavailable[route] = str(error)
            LOG.warning(
                "route unavailable",
                extra={"collection": self.name, "route": str(route), "error": str(error)},
            )


def places(named: Iterable[str], fallback: Path | None) -> list[Place]:
    """Collections as NAME=DIR, or DIR alone for "default".

    Args:
        named: As written.
        fallback: Folder of "default" when there are none.

    Raises:
        ServiceError: A name that cannot stand in an address, one that is there twice, or nothing
            to serve.
    """
    found: dict[str, Place] = {}
    for entry in named:
        name, is_named, folder = entry.partition("=")
        if not is_named:
            name, folder = DEFAULT, entry
        if not _NAME.fullmatch(name):
            raise ServiceError(
                f"A collection cannot be called '{name}'; use letters, digits, dots and dashes."
            )
        if name in found:
            raise ServiceError(
                f"Two collections are called '{name}'; give each a name, as in --index {name}2=DIR."
            )
        if not folder:
            raise ServiceError(f"Collection '{name}' has no folder; write {name}=DIR.")
        found[name] = Place(name, Path(folder))
    if not found and fallback is not None:
        return [Place(DEFAULT, fallback)]
    if not found:
        raise ServiceError("Serve what? Give --index DIR, or set WYE_INDEX.")
    return list(found.values())


def pick(collections: Mapping[str, Collection], name: str | None) -> Collection:
    """A collection by name, the first without one.

    Raises:
        Problem: There is none of that name.
    """
    if name is None:
        return next(iter(collections.values()))
    if name not in collections:
        raise Problem(
            404,
            "no-such-collection",
            f"There is no collection '{name:.80}'; there is {', '.join(collections)}.",
        )
    return collections[name]
