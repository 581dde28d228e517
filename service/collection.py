"""A collection: an index by name, loaded, warmed up, and kept at what is newest."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from time import perf_counter

from featurizer.errors import FeaturizerError
from router.errors import RouterError
from router.policy import Policy
from router.types import Route
from service.engine import Engine
from service.logs import LOG
from service.problems import Problem

INDEX = "index"
THRESHOLDS = "thresholds"
WARM_UP = "Who built the bridge between the two towns, and when was it opened?"


class Collection:
    """One index by name, with the version that is searched now.

    `load` and `forget` run in the thread that searches, `renew` in another beside it.

    Attributes:
        name: That requests use.
        unavailable: Routes that the installation lacks, and why.
        faults: What is wrong with `INDEX` and with `THRESHOLDS`; "" while nothing is.
    """

    def __init__(self, name: str, open_: Callable[[], Engine]) -> None:
        """Open nothing yet.

        Args:
            name: That requests use.
            open_: Opens the index.
        """
        self.name = name
        self.faults = {INDEX: "", THRESHOLDS: ""}
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
    def error(self) -> str:
        """All that is wrong; "" while nothing is."""
        return " ".join(fault for fault in self.faults.values() if fault)

    @property
    def router(self) -> str:
        """Name and version of the router; "" while nothing is loaded, and without one."""
        return "" if self._engine is None else self._engine.router_name

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
            self.faults[INDEX] = str(error)
            raise
        self._engine = engine
        self.faults[INDEX] = ""
        LOG.info("loaded", extra={**self.facts(), "seconds": round(perf_counter() - started, 3)})

    def renew(self) -> bool:
        """Move to the newest thresholds and to the newest version; searching goes on meanwhile.

        What cannot be used is told, and what is used stays; the one does not wait for the other.

        Returns:
            Whether there was anything newer.
        """
        if self._engine is None:
            return False
        retuned = self._move(THRESHOLDS, self._engine.retuned)
        if retuned:  # it may be the first that can be used
            self.unavailable.pop(Route.AUTO, None)
        return self._move(INDEX, self._engine.successor) or retuned

    def forget(self) -> None:
        """Let go of engines that are asked no longer, now that no batch is under way."""
        while self._former:
            self._former.pop().release()

    def facts(self) -> dict[str, object]:
        """Name, version, passages, router, thresholds and what is wrong, as plain values."""
        engine = self._engine
        facts: dict[str, object] = {"collection": self.name, "ready": engine is not None}
        if engine is not None:
            facts |= {"index_version": engine.version, "passages": engine.count}
            policy = engine.policy
            if policy is not None:
                facts |= {"router": engine.router_name, "thresholds": asdict(policy.thresholds)}
        if self.error:
            facts["error"] = self.error
        return facts

    def close(self) -> None:
        """End what the models started."""
        if self._engine is not None:
            self._engine.close()

    def _move(self, what: str, newer: Callable[[], Engine | None]) -> bool:
        """Put a newer engine in the place of this one, if there is one."""
        started = perf_counter()
        former = self._engine
        try:
            later = newer()
            if later is not None:
                later.build()
        except Exception as error:  # noqa: BLE001 - what is in use stays
            if str(error) != self.faults[what]:
                extra = {"collection": self.name, "of": what, "error": str(error)}
                LOG.error("refresh failed", extra=extra)
            self.faults[what] = str(error)
            return False
        self.faults[what] = ""
        if later is None or former is None:
            return False
        self._former.append(former)
        self._engine = later
        spent = round(perf_counter() - started, 3)
        LOG.info("refreshed", extra={**self.facts(), "of": what, "seconds": spent})
        return True

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
