"""Which router decides in which collection, and by which thresholds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from router.artefact import read_policy, title_of
from router.errors import RouterError
from router.routing_settings import RoutingSettings
from service.errors import ServiceError
from service.places import by_name
from service.settings import ServiceSettings


def routings(settings: ServiceSettings, collections: Sequence[str]) -> dict[str, RoutingSettings]:
    """The router and the thresholds of each collection, by its name.

    A collection for which no router is named has that of WYE_ROUTER__MODEL with the thresholds of
    WYE_ROUTER__THRESHOLDS. Thresholds go with a router's scores, so those do not count where
    another router is named: there they are that router's own, unless others are named as well.

    Args:
        settings: Name routers and thresholds.
        collections: Their names.

    Raises:
        ServiceError: A name that is no collection, one that is there twice, or nothing behind it.
    """
    serve = settings.serve
    routers = _assigned("--router", "MODEL", serve.routers, collections)
    thresholds = _assigned("--thresholds", "FILE", serve.thresholds, collections)
    found = {}
    for name in collections:
        own = RoutingSettings(routers[name]) if name in routers else settings.router
        found[name] = replace(own, thresholds=thresholds.get(name, own.thresholds))
    return found


def check(collection: str, routing: RoutingSettings) -> None:
    """Refuse what is named and cannot be read, or does not go together; loads no models.

    What nobody named may be missing: the route that needs it says so.

    Args:
        collection: Its name.
        routing: Its router and thresholds.

    Raises:
        ServiceError: Names the collection.
    """
    if routing == RoutingSettings():
        return
    try:
        router = title_of(routing.folder())
        if routing.thresholds:
            read_policy(Path(routing.thresholds), router)
    except RouterError as error:
        raise ServiceError(f"The router of collection '{collection}': {error}") from None


def _assigned(
    option: str, what: str, entries: Iterable[str], collections: Sequence[str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in by_name(entries):
        if name not in collections:
            raise ServiceError(
                f"{option} is for '{name}', but that is no collection; write {option} NAME={what} "
                f"with one of {', '.join(collections)}."
            )
        if name in found:
            raise ServiceError(f"{option} is there twice for collection '{name}'; keep one.")
        if not value:
            raise ServiceError(f"{option} {name}= names nothing; write {option} {name}={what}.")
        found[name] = value
    return found
