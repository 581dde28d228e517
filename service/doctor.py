"""Checks of what could keep a server on this machine from working."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import perf_counter

from wye.backends.errors import BackendError, FilterError
from wye.backends.filters import parse_filter
from wye.backends.store.index import PassageStore
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import RouterError
from wye.router.session import ModelCache, Session, decide_without_index, open_router
from wye.router.settings import RoutingSettings
from wye.router.types import USUAL, Ask, Route
from wye.service.arms.file import read_arms
from wye.service.collections import (
    UNROUTED,
    WARM_UP,
    RemoteCollection,
    check_router,
    no_analyser,
    served,
)
from wye.service.errors import ServiceError
from wye.service.http.keys import KeyRing, others_write, refuse_open_server
from wye.service.ingest.jobs import JobStore
from wye.service.settings import ServeSettings, ServiceSettings, router_settings

_ERRORS = (BackendError, FeaturizerError, RouterError, ServiceError, OSError)


class Health(StrEnum):
    """The state of something that was checked."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what was found, and what to do if it is not good."""

    subject: str
    state: Health
    says: str


def examine(settings: ServiceSettings) -> Iterator[Finding]:
    """Check what serving needs on this machine, and yield each finding as soon as it is made.

    Nothing is changed, and the network is not used.
    """
    # Without the default router only its route is missing; a named router must be there.
    failure = Health.WARNING if settings.router == RoutingSettings() else Health.BAD
    with ModelCache() as models:
        yield _look("router", lambda: _router(settings, models), failure)
        yield from _collections(settings, models)
    yield _look("access", lambda: _access(settings))
    yield _look("address", lambda: _address(settings))
    if settings.arms is not None:
        yield _look("remote arms", lambda: _arms(settings))


def _collections(settings: ServiceSettings, models: ModelCache) -> Iterator[Finding]:
    """Check indexes; models that several need are loaded once, as in a server."""
    try:
        collections, remote = served(settings)
        routers = router_settings(settings, [*collections, *remote])
    except ServiceError as error:
        yield Finding("indexes", Health.BAD, str(error))
        return
    for name, folder in collections.items():
        local = settings.model_copy(update={"router": routers[name]})
        yield _look(f"index {name}", partial(_index, local, name, folder, models))
        if fault := JobStore(folder, name).fault:
            yield Finding(f"jobs {name}", Health.WARNING, fault)
    for name in remote:
        yield _look(f"collection {name}", partial(_without_index, name, routers[name]))


def _look(subject: str, check: Callable[[], str], failure: Health = Health.BAD) -> Finding:
    """Run a check, whose error is a `failure`; its result is good, or a warning after "! "."""
    try:
        verdict = check()
    except _ERRORS as error:
        return Finding(subject, failure, str(error))
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return Finding(subject, Health.BAD, f"{type(error).__name__}: {error}")
    if verdict.startswith("! "):
        return Finding(subject, Health.WARNING, verdict.removeprefix("! "))
    return Finding(subject, Health.GOOD, verdict)


def _router(settings: ServiceSettings, models: ModelCache) -> str:
    router = open_router(settings, models)
    if router.asks_corpus:
        return f"{router.name} is sound; it decides with an index."
    analyser = models.analyser(settings.analyser)
    (decision,) = decide_without_index([WARM_UP], analyser, router)
    return f"{decision.model} decides; the route auto works."


def _arms(settings: ServiceSettings) -> str:
    folders, _ = served(settings)
    groups = read_arms(settings.arms, list(folders), settings.serve.deadline_ms / 1000)
    names = [f"{arm.name} ({arm.config.kind}) of {name}" for name in groups for arm in groups[name]]
    return f"{settings.arms} declares {', '.join(names) or 'none'}."


def _without_index(name: str, routing: RoutingSettings) -> str:
    collection = RemoteCollection(name, routing, no_analyser, has_graph=True)
    collection.load()
    if reason := collection.unavailable.get(Route.AUTO):
        return f"! {name} has no index here, and no router: {reason}"
    if collection.policy is None:
        return f"{name} has no index here, and {UNROUTED}."
    return f"{name} has no index here; {collection.router_name} decides by what its arm returns."


def _index(settings: ServiceSettings, name: str, folder: Path, models: ModelCache) -> str:
    started = perf_counter()
    check_router(name, settings.router)
    index = PassageStore.open(folder)
    index.check_content()
    session = Session(settings, index, models)
    session.build()
    for route in USUAL:
        if route != Route.AUTO:  # the router has its own check
            session.gateway.search([WARM_UP], Ask(route, 1))
    count, number = session.count, session.version
    facts = (
        f"{folder}, version {number}, {count:,} passages; every route answers "
        f"({perf_counter() - started:.1f} s to load)."
    )
    if not count:
        return f"! {folder} is empty. Fill it with `wye index SOURCE --index DIR`."
    if warnings := " ".join(_filter_warnings(settings.serve, name, session)):
        return f"! {facts} {warnings}"
    return facts


def _filter_warnings(serve: ServeSettings, collection: str, session: Session) -> Iterator[str]:
    """What `filters.check` says of keys' filters, which may hide nothing or everything."""
    with suppress(ServiceError):  # `_access` tells it
        for key in KeyRing(serve.keys, serve.keys_file).keys:
            for deletes in (False, True) if key.filter and key.sees(collection) else ():
                try:
                    session.snapshot.columns.passing(
                        parse_filter(json.loads(key.filter)), deletes=deletes
                    )
                except FilterError as error:
                    yield f"Does the filter of key '{key.name}' keep out what it should? {error}"


def _access(settings: ServiceSettings) -> str:
    serve = settings.serve
    refuse_open_server(serve)
    ring = KeyRing(serve.keys, serve.keys_file)
    if not ring.is_required:
        return f"No keys; only this machine is served ({serve.host})."
    path = serve.keys_file
    if path is not None and others_write(path):
        raise ServiceError(
            f"Others on this machine can write {path}, and so add keys. Check it, then `chmod 600 "
            f"{path}`."
        )
    if ring.fault:
        raise ServiceError(f"{path}: {ring.fault}")
    if path is not None and path.stat().st_mode & 0o077:
        return (
            f"! Others on this machine can read {path}. It contains only hashes, but `chmod 600 "
            f"{path}` keeps it private."
        )
    count, bound = len(ring.keys), sum(key.is_bound for key in ring.keys)
    return f"{count} API keys{f', {bound} bound to collections or filters' if bound else ''}."


def refuse_taken_address(host: str, port: int) -> None:
    """Check that a server can listen at an address.

    Raises:
        ServiceError: Another program listens there, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServiceError(
                f"{host} port {port} cannot be used ({error.strerror or error}). If no server of "
                "yours runs there, choose another --port."
            ) from None


def _address(settings: ServiceSettings) -> str:
    serve = settings.serve
    refuse_taken_address(serve.host, serve.port)
    return f"{serve.host} port {serve.port} is free."
