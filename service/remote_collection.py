"""Collections without an index: remote arms search a corpus that is stored elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from wye.featurizer.analyser import Analyser
from wye.router.errors import RouterError
from wye.router.model_files import read_policy
from wye.router.policy import Policy, RoutingModel
from wye.router.remote import ReturnedPassages, decide_by_passages, load_passage_router
from wye.router.session import ModelCache, Session
from wye.router.settings import PASSAGE_ROUTER, RoutingSettings
from wye.router.types import Decision, Route
from wye.service.arms.arm import RemoteArm
from wye.service.arms.file import names_without_index
from wye.service.errors import ServiceError
from wye.service.http.problems import Problem
from wye.service.logs import LOG
from wye.service.search import THRESHOLDS, Collection, SearchParams
from wye.service.settings import ServiceSettings, index_folders, router_settings

NO_INDEX = "There is no index here: the corpus of '{}' is elsewhere, and remote arms search it."
ROUTES = (Route.AUTO, Route.HYBRID, Route.FUSION, Route.GRAPH)
"""Routes of such a collection: the router's choice, the simple arm, all arms, the graph's arm."""


def no_analyser() -> NoReturn:
    """Raise a `ServiceError`: a collection without an encoder has no analyser."""
    raise ServiceError("Nothing is encoded here.")


def read_passage_router(routing: RoutingSettings) -> RoutingModel:
    """Read the router that decides by returned passages, with its thresholds.

    If the settings name none, it is the one that ships.

    Raises:
        RouterError: The router is missing, damaged or made for an index, or its thresholds cannot
            be used.
    """
    if routing.model == RoutingSettings().model:
        routing = replace(routing, model=PASSAGE_ROUTER)
    model = load_passage_router(routing.folder())
    if routing.thresholds:
        model = model.with_policy(read_policy(Path(routing.thresholds), model.name))
    return model


class RemoteCollection(Collection):
    """A collection without an index; its router decides by what the simple arm returns.

    Everything that needs an index is refused with 409.
    """

    def __init__(
        self,
        name: str,
        routing: RoutingSettings,
        analyser: Callable[[], Analyser],
        *,
        has_graph: bool,
    ) -> None:
        """Set which routes there are; `load` reads the router.

        Args:
            routing: Settings of the router; by default the router for returned passages that ships.
            analyser: Loads the models for arms that need our vectors; deciding needs none.
            has_graph: Whether an arm replaces the graph.
        """
        super().__init__(name)
        self._routing = routing
        self._load_analyser = analyser
        self._model: RoutingModel | None = None
        self._loaded = False
        routes = ROUTES if has_graph else tuple(route for route in ROUTES if route != Route.GRAPH)
        self.unavailable = {
            route: f"{NO_INDEX.format(name)} Use {', '.join(routes)}."
            for route in Route
            if route not in routes
        }

    has_index = False

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded."""
        return self._loaded

    @property
    def session(self) -> Session:
        """There is none: always a `Problem` 409."""
        raise Problem(409, "no-index", NO_INDEX.format(self.name))

    @property
    def analyser(self) -> Analyser:
        """The models that encode questions, loaded on first use."""
        return self._load_analyser()

    @property
    def policy(self) -> Policy | None:
        """The policy, which turns scores into routes; None without a router."""
        return self._model.policy if self._model else None

    @property
    def router_name(self) -> str:
        """Name and version of the router; "" without one."""
        return self._model.name if self._model else ""

    def load(self) -> None:
        """Read the router; without one, the route auto is unavailable and says why."""
        try:
            self._model = read_passage_router(self._routing)
        except RouterError as error:
            self.unavailable[Route.AUTO] = str(error)
            extra = {"collection": self.name, "route": str(Route.AUTO), "error": str(error)}
            LOG.warning("route unavailable", extra=extra)
        self._loaded = True
        LOG.info("loaded", extra=self.facts())

    def renew(self) -> bool:
        """Move to newer thresholds, and return whether there were any."""
        model, path = self._model, self._routing.thresholds
        if model is None or not path:
            return False
        policy = self._attempt(THRESHOLDS, lambda: read_policy(Path(path), model.name))
        if policy is None or policy == model.policy:
            return False
        self._model = model.with_policy(policy)
        LOG.info("refreshed", extra={**self.facts(), "of": THRESHOLDS})
        return True

    def decide(self, params: SearchParams, returned: ReturnedPassages) -> Decision:
        """Decide which route a question takes, by what the simple arm returned.

        `max_latency_ms` plays no part here; `wye.service.arms.gate` applies it to the arms.

        Raises:
            Problem: 409 without a router.
            QuestionError: The operating point is unknown.
        """
        if self._model is None:
            raise Problem(409, "no-such-route", self.unavailable[Route.AUTO])
        return decide_by_passages(self._model, returned, explain=params.explain, point=params.point)


def served(settings: ServiceSettings) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Folders of the collections with an index, by name, and names of those without one.

    Raises:
        ServiceError: There is neither, or a name is invalid.
    """
    elsewhere = bool(names_without_index(settings.arms, ()))
    folders = index_folders(settings.serve.indexes, settings.index, required=not elsewhere)
    return folders, names_without_index(settings.arms, list(folders))


def remote_collections(
    settings: ServiceSettings,
    indexes: Sequence[str],
    arms: Mapping[str, Sequence[RemoteArm]],
    models: ModelCache,
) -> dict[str, Collection]:
    """The collections without an index, by name.

    Args:
        indexes: Names of the collections with an index.
        arms: The result of `read_arms`.
    """
    names = [name for name in arms if name not in indexes]
    routers = router_settings(settings, [*indexes, *names])
    return {
        name: RemoteCollection(
            name,
            routers[name],
            lambda: models.analyser(settings.analyser),
            has_graph=any(arm.takes_graph for arm in arms[name]),
        )
        for name in names
    }
