"""Checks of everything that could keep a server from working."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from wye.backends.errors import BackendError, FilterError
from wye.backends.filters import parse_filter
from wye.backends.store.index import PassageStore
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import RouterError
from wye.router.remote import ArmQuestion
from wye.router.request_log import RequestLog
from wye.router.session import ModelCache, Session, decide_without_index, open_router
from wye.router.settings import RoutingSettings
from wye.router.types import USUAL, Ask, Route
from wye.service.arms.arm import RemoteArm
from wye.service.arms.file import read_arms
from wye.service.collections import WARM_UP, RemoteCollection, check_router, no_analyser, served
from wye.service.errors import ServiceError
from wye.service.http.keys import KeyRing, others_write, refuse_open_server
from wye.service.ingest.jobs import JobStore
from wye.service.settings import ServeSettings, ServiceSettings, router_settings

if TYPE_CHECKING:
    from wye.service.arms.local import LocalArms

LEAST_FREE = 1 << 30
GENERATOR_SECONDS = 10.0

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
    """Check everything that serving needs, and yield each finding as soon as it is made.

    Nothing is changed. The network is used only for the generator in the settings and for remote
    arms, of which those that cost nothing are asked a question.
    """
    yield _look("machine", _machine)
    with ModelCache() as models:
        yield from _models(settings, models)
    yield _look("access", lambda: _access(settings))
    yield _look("address", lambda: _address(settings))
    if settings.serve.request_log is not None:
        yield _look("request log", lambda: _request_log(settings))
    yield _look("generator", lambda: _generator(settings))
    if settings.arms is not None:
        yield from _arms(settings)


def _models(settings: ServiceSettings, models: ModelCache) -> Iterator[Finding]:
    """Check routers and indexes; models that several need are loaded once, as in a server."""
    # Without the default router only its route is missing; a named router must be there.
    failure = Health.WARNING if settings.router == RoutingSettings() else Health.BAD
    yield _look("router", lambda: _router(settings, models), failure)
    try:
        collections, remote = served(settings)
    except ServiceError as error:
        yield Finding("indexes", Health.BAD, str(error))
        return
    try:
        routers = router_settings(settings, [*collections, *remote])
    except ServiceError as error:
        yield Finding("routers", Health.BAD, str(error))
        routers = {}
    for name, folder in collections.items():
        local = settings.model_copy(update={"router": routers.get(name, settings.router)})
        yield _look(f"index {name}", partial(_index, local, name, folder, models))
        if fault := JobStore(folder, name).fault:
            yield Finding(f"jobs {name}", Health.WARNING, fault)
        if local.router != settings.router:
            yield _look(f"router {name}", partial(_router_of, local, name, folder, models))
    for name in remote:
        routing = routers.get(name, settings.router)
        yield _look(f"collection {name}", partial(_without_index, name, routing))


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


def _machine() -> str:
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    python = ".".join(map(str, sys.version_info[:3]))
    return f"Wye {version('wye')}, Python {python}, {processors} processors to use."


def _router(settings: ServiceSettings, models: ModelCache) -> str:
    router = open_router(settings, models)
    if router.asks_corpus:
        return f"{router.name} is sound; it decides with an index."
    analyser = models.analyser(settings.analyser)
    (decision,) = decide_without_index([WARM_UP], analyser, router)
    return f"{decision.model} decides; the route auto works."


def _arms(settings: ServiceSettings) -> Iterator[Finding]:
    arms: list[RemoteArm] = []

    def read_file() -> str:
        folders, _ = served(settings)
        groups = read_arms(settings.arms, list(folders), settings.serve.deadline_ms / 1000)
        arms.extend(arm for name in groups for arm in groups[name])
        names = [
            f"{arm.name} ({arm.config.kind}) of {name}" for name in groups for arm in groups[name]
        ]
        return f"{settings.arms} declares {', '.join(names) or 'none'}."

    yield _look("remote arms", read_file)
    from wye.service.arms.local import LocalArms  # noqa: PLC0415 - `wye serve` imports this module

    with LocalArms(arms) as asker:
        for arm in arms:
            # Without the others an index still answers.
            failure = Health.BAD if arm.is_simple else Health.WARNING
            yield _look(f"arm {arm.name}", partial(_probe, arm, asker), failure)


def _probe(arm: RemoteArm, asker: "LocalArms") -> str:
    if arm.config.price:
        return f"Not asked, since a call costs up to {arm.config.price:g}."
    ((_, answer),) = asker.ask([ArmQuestion(arm.name, WARM_UP)])
    if answer.reason:
        raise ServiceError(
            f"It {answer.reason}. Check [arms.{arm.name}] and the service behind it."
        )
    return f"It found {len(answer.hits)} passages in {answer.ms:.0f} ms."


def _without_index(name: str, routing: RoutingSettings) -> str:
    collection = RemoteCollection(name, routing, no_analyser, has_graph=True)
    collection.load()
    if collection.policy is None:
        return f"! {name} has no index here, and no router: {collection.unavailable[Route.AUTO]}"
    return f"{name} has no index here; {collection.router_name} decides by what its arm returns."


def _router_of(settings: ServiceSettings, collection: str, folder: Path, models: ModelCache) -> str:
    check_router(collection, settings.router)
    session = Session.open(settings, folder, models)
    if not session.count:
        return f"! {settings.router.model} was not asked: {folder} is empty."
    (decision,) = session.gateway.decide([WARM_UP])
    if decision.thresholds is None:
        raise ServiceError(f"{decision.model} did not score a question ({decision.reason}).")
    low, high = decision.thresholds.low, decision.thresholds.high
    origin = settings.router.thresholds or "its own"
    return f"{decision.model} decides; thresholds {low:.3f} and {high:.3f} ({origin})."


def _index(settings: ServiceSettings, name: str, folder: Path, models: ModelCache) -> str:
    started = perf_counter()
    index = PassageStore.open(folder)
    index.check_content()
    session = Session(settings, index, models)
    session.build()
    for route in USUAL:
        if route != Route.AUTO:  # the router has its own check
            session.gateway.search([WARM_UP], Ask(route, 1))
    count, number = session.count, session.version
    free = shutil.disk_usage(folder).free
    facts = (
        f"{folder}, version {number}, {count:,} passages; every route answers "
        f"({perf_counter() - started:.1f} s to load)."
    )
    if not count:
        return f"! {folder} is empty. Fill it with `wye index SOURCE --index DIR`."
    if warnings := " ".join(_filter_warnings(settings.serve, name, session)):
        return f"! {facts} {warnings}"
    if free < LEAST_FREE:
        return f"! {facts} Its disk has only {free / 1e9:.1f} GB left; writes need room."
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


def _request_log(settings: ServiceSettings) -> str:
    path = settings.serve.request_log or Path()
    is_present = path.exists()
    RequestLog(path).close()
    if not is_present:
        path.unlink()
    free = shutil.disk_usage(path.parent).free
    if free < LEAST_FREE:
        return f"! {path} can be written, but its disk has only {free / 1e9:.1f} GB left."
    return f"{path} can be written."


def _generator(settings: ServiceSettings) -> str:
    llm = settings.generator
    if not llm.url:
        return "None; answers are quoted from passages (WYE_GENERATOR__URL names one)."
    import httpx2 as httpx  # noqa: PLC0415 - `wye serve` imports this module for other checks

    key = llm.key.get_secret_value()
    headers = {"authorization": f"Bearer {key}"} if key else {}
    address = llm.url.rstrip("/") + "/models"
    try:
        reply = httpx.get(address, headers=headers, timeout=GENERATOR_SECONDS)
    except httpx.HTTPError as error:
        raise ServiceError(
            f"{llm.url} does not answer ({type(error).__name__}). Check WYE_GENERATOR__URL."
        ) from None
    if reply.status_code in (401, 403):
        raise ServiceError(f"{llm.url} rejects the key. Check WYE_GENERATOR__KEY.")
    if reply.status_code != 200:
        return f"! {address} replied {reply.status_code}, so '{llm.model}' could not be looked up."
    try:
        names = {str(model["id"]) for model in reply.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return f"! {address} does not speak OpenAI's protocol, so '{llm.model}' was not looked up."
    if llm.model not in names:
        return f"! {llm.url} answers, but does not list '{llm.model}'."
    return f"{llm.model} at {llm.url}."
