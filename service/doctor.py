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
from wye.router.session import ModelCache, Session
from wye.router.settings import RoutingSettings
from wye.service.app import indexes
from wye.service.arms.file import read_arms
from wye.service.collections import IndexCollection, check_router
from wye.service.errors import ServiceError
from wye.service.http.keys import KeyRing, others_write, refuse_open_server
from wye.service.ingest.jobs import JobStore
from wye.service.settings import ServeSettings, ServiceSettings, index_folders, router_settings

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


Check = Callable[[], tuple[str, list[str]]]
"""Returns what is so and warnings, or raises an error that says what to do."""


def examine(settings: ServiceSettings) -> Iterator[Finding]:
    """Check what serving needs on this machine, and yield each finding as soon as it is made.

    Collections are loaded as a server loads them. Nothing is changed, and the network is not used.
    """
    serve = settings.serve
    yield _look("access", partial(_access, serve))
    yield _look("address", partial(_address, serve))
    with ModelCache() as models:
        try:
            openers = indexes(settings, models)
        except ServiceError as error:
            yield Finding("indexes", Health.BAD, str(error))
            return
        if settings.arms is not None:
            yield _look("remote arms", partial(_arms, settings, list(openers)))
        folders = index_folders(serve.indexes, settings.index)
        routers = router_settings(settings, list(folders))
        for name, opener in openers.items():
            check = partial(
                _index, IndexCollection(name, opener), folders[name], routers[name], serve
            )
            yield _look(f"index {name}", check)


def _look(subject: str, check: Check) -> Finding:
    """Run a check."""
    try:
        fact, warnings = check()
    except _ERRORS as error:
        return Finding(subject, Health.BAD, str(error))
    except Exception as error:  # noqa: BLE001 - the other checks still run
        return Finding(subject, Health.BAD, f"{type(error).__name__}: {error}")
    state = Health.WARNING if warnings else Health.GOOD
    return Finding(subject, state, " ".join([fact, *warnings]))


def _access(serve: ServeSettings) -> tuple[str, list[str]]:
    refuse_open_server(serve)
    ring, path = KeyRing(serve.keys, serve.keys_file), serve.keys_file
    if not ring.is_required:
        return f"No keys; only this machine is served ({serve.host}).", []
    warnings = []
    if path is not None:
        if others_write(path):
            raise ServiceError(
                f"Others on this machine can write {path}, and so add keys. Check it, then "
                f"`chmod 600 {path}`."
            )
        if ring.fault:
            raise ServiceError(f"{path}: {ring.fault}")
        if path.stat().st_mode & 0o077:
            warnings.append(
                f"Others on this machine can read {path}. It contains only hashes, but `chmod 600 "
                f"{path}` keeps it private."
            )
    count, bound = len(ring.keys), sum(key.is_bound for key in ring.keys)
    limits = f", {bound} bound to collections or filters" if bound else ""
    return f"{count} API keys{limits}.", warnings


def _address(serve: ServeSettings) -> tuple[str, list[str]]:
    refuse_taken_address(serve.host, serve.port)
    return f"{serve.host} port {serve.port} is free.", []


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


def _arms(settings: ServiceSettings, collections: list[str]) -> tuple[str, list[str]]:
    arms = read_arms(settings.arms, collections, settings.serve.deadline_ms / 1000)
    names = [f"{arm.name} ({arm.config.kind}) of {name}" for name in arms for arm in arms[name]]
    return f"{settings.arms} declares {', '.join(names) or 'none'}.", []


def _index(
    collection: IndexCollection, folder: Path, routing: RoutingSettings, serve: ServeSettings
) -> tuple[str, list[str]]:
    name, started = collection.name, perf_counter()
    check_router(name, routing)
    PassageStore.open(folder).check_content()
    collection.load()
    session = collection.session
    warnings = list(filter(None, [JobStore(folder, name).fault]))
    if not session.count:
        empty = "It is empty. Fill it with `wye index SOURCE --index DIR`."
        return f"{folder}:", [empty, *warnings]
    warnings += [f"{route}: {reason}" for route, reason in collection.unavailable.items()]
    warnings += _filter_warnings(serve, name, session)
    facts = f"{folder}, version {session.version}, {session.count:,} passages"
    seconds = f"({perf_counter() - started:.1f} s to load)"
    return f"{facts}{'' if warnings else '; every route answers'} {seconds}.", warnings


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
