"""Checks of what could keep a server on this machine from working."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from wye.router.session import ModelCache, Session
from wye.router.settings import RoutingSettings
from wye.router.types import Route
from wye.service.app import indexes
from wye.service.arms.arm import RemoteArm
from wye.service.arms.file import read_arms, served
from wye.service.arms.gate import UNROUTED, remote_collections
from wye.service.collections import Collection, IndexCollection, check_router
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
    """The result of one check, and what to do if it is not good."""

    subject: str
    state: Health
    says: str


def examine(settings: ServiceSettings) -> Iterator[Finding]:
    """Check what serving needs on this machine, and yield each finding as soon as it is made.

    Collections are loaded as a server loads them. Nothing is changed, and the network is not used.
    """
    yield _look("access", lambda: _access(settings.serve))
    yield _look("address", lambda: _address(settings.serve))
    subject = "indexes"
    with ModelCache() as models:
        try:
            openers = indexes(settings, models)
            subject = "remote arms"
            arms = read_arms(settings.arms, list(openers), settings.serve.deadline_ms / 1000)
        except ServiceError as error:
            yield Finding(subject, Health.BAD, str(error))
            return
        if settings.arms is not None:
            yield Finding(subject, Health.GOOD, _arms_in_words(settings.arms, arms))
        routers = router_settings(settings, [*dict.fromkeys([*openers, *arms])])
        folders, _ = served(settings)
        for name, opener in openers.items():
            check = partial(_index, IndexCollection(name, opener), folders[name], settings.serve)
            yield _look(f"index {name}", check, routers[name])
            if fault := JobStore(folders[name], name).fault:
                yield Finding(f"jobs {name}", Health.WARNING, fault)
        for name, collection in remote_collections(settings, list(openers), arms, models).items():
            yield _look(f"collection {name}", partial(_without_index, collection), routers[name])


def _look(
    subject: str, check: Callable[[], str], routing: RoutingSettings | None = None
) -> Finding:
    """Run a check, after one of the router; its result is good, or a warning after "! "."""
    try:
        if routing is not None:
            check_router(subject.partition(" ")[2], routing)
        verdict = check()
    except _ERRORS as error:
        return Finding(subject, Health.BAD, str(error))
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return Finding(subject, Health.BAD, f"{type(error).__name__}: {error}")
    state = Health.WARNING if verdict.startswith("! ") else Health.GOOD
    return Finding(subject, state, verdict.removeprefix("! "))


def _arms_in_words(path: Path, arms: Mapping[str, Sequence[RemoteArm]]) -> str:
    names = [f"{arm.name} ({arm.config.kind}) of {name}" for name in arms for arm in arms[name]]
    return f"{path} declares {', '.join(names) or 'none'}."


def _without_index(collection: Collection) -> str:
    name = collection.name
    collection.load()
    if reason := collection.unavailable.get(Route.AUTO):
        return f"! {name} has no index here, and no router: {reason}"
    if collection.policy is None:
        return f"{name} has no index here, and {UNROUTED}."
    return f"{name} has no index here; {collection.router_name} decides by what its arm returns."


def _index(collection: IndexCollection, folder: Path, serve: ServeSettings) -> str:
    started = perf_counter()
    PassageStore.open(folder).check_content()
    collection.load()
    session, name = collection.session, collection.name
    facts = f"{folder}, version {session.version}, {session.count:,} passages"
    seconds = f"({perf_counter() - started:.1f} s to load)"
    if not session.count:
        return f"! {folder} is empty. Fill it with `wye index SOURCE --index DIR`."
    warnings = [f"{route}: {reason}" for route, reason in collection.unavailable.items()]
    warnings += _filter_warnings(serve, name, session)
    if warnings:
        return f"! {facts} {seconds}. {' '.join(warnings)}"
    return f"{facts}; every route answers {seconds}."


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


def _access(serve: ServeSettings) -> str:
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
    """Refuse (`ServiceError`) an address at which a server cannot listen."""
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


def _address(serve: ServeSettings) -> str:
    refuse_taken_address(serve.host, serve.port)
    return f"{serve.host} port {serve.port} is free."
