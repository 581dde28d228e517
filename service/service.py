"""The running service: collections, the batcher in front of them, jobs, logs and metrics."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from time import monotonic, perf_counter, time
from typing import Annotated, Any

from fastapi import Depends, Request

from wye.backends.files import plain
from wye.featurizer.analyser import token_count
from wye.featurizer.spacy.parser import QUESTION_TOKENS
from wye.router.request_log import RETRIEVAL, RequestLog
from wye.router.types import Decision, Route
from wye.service.answers.generate import AnswerGenerator
from wye.service.arms.arm import BreakerState, RemoteArm, RemoteOutcome
from wye.service.arms.gate import Budget, Gate, open_ledger
from wye.service.batching import Batcher, Room, unless_gone
from wye.service.collections import (
    INDEX,
    STEPS_WEIGHT,
    Collection,
    QueuedQuestion,
    SearchParams,
    SearchResult,
)
from wye.service.errors import ServiceError
from wye.service.http.edge import ASKING
from wye.service.http.keys import KeyRing
from wye.service.http.metrics import Metrics
from wye.service.http.problems import NOTED_ID, Problem
from wye.service.ingest.bodies import FileReader
from wye.service.ingest.job_runner import JobRunner
from wye.service.ingest.writer import CollectionWriter
from wye.service.logs import LOG
from wye.service.settings import LONGEST_DEADLINE_MS, ServiceSettings

_THREADS = 4
_STALLED_SECONDS = 10.0
_LOOKS_AGAIN = 0.1  # seconds between looks for a version that a question asks for
RERANKS = 16  # requests to rerank that may be in progress at once; each holds its texts in memory
MOST_AWAITED = 2.0  # seconds that a question waits at most for the version that it asks for


class Service:
    """What all routes of an app share; `log_fault` says why the request log is not written."""

    def __init__(
        self,
        settings: ServiceSettings,
        collections: Mapping[str, Collection],
        *,
        arms: Mapping[str, Sequence[RemoteArm]],
        loaded: Callable[[], None],
    ) -> None:
        """Create the parts; `start` loads the models and, at the end, calls `loaded`."""
        serve, documents = settings.serve, settings.documents
        self.settings = settings
        self.arms = arms
        self._collections = collections
        self.ring = ring = KeyRing(serve.keys, serve.keys_file)
        self.metrics = metrics = Metrics()
        self.started = int(time())
        self.generator = AnswerGenerator(settings.generator, metrics)
        self.request_log = RequestLog(serve.request_log) if serve.request_log is not None else None
        self.batcher: Batcher[SearchParams, QueuedQuestion, SearchResult] = Batcher(
            lambda params, entries: collections[params.collection].work(params, entries),
            batch=serve.batch,
            queue=serve.queue,
            weight=2 * QUESTION_TOKENS,
            begin=lambda params, entries: collections[params.collection].begin(params, entries),
        )
        self.refresher = Refresher(
            collections, self.batcher, ring, metrics, serve.refresh_seconds, loaded
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wye-documents")
        self.reader = FileReader(documents)
        limit = "{} {}, which is the limit. Try again."
        reranks = limit.format(RERANKS, "requests to rerank are being processed")
        self.reranks = Room(RERANKS, reranks, retry_after=1)
        decisions = limit.format(serve.queue, "questions wait for a decision")
        self.decisions = Room(serve.queue, decisions, retry_after=1)
        parts = settings, self.batcher, self.refresher.is_written.set, self._threads, metrics
        self.writers = {name: CollectionWriter(each, *parts) for name, each in collections.items()}
        self.jobs = JobRunner(self.writers, documents, metrics)
        self._ledger = open_ledger(settings, ring.keys) if arms else None
        by_scores = settings.fusion.method != "rrf"
        self._gates = {
            name: Gate(collections[name], group, self._submit, self.batcher, by_scores=by_scores)
            for name, group in arms.items()
        }
        self.log_fault = ""
        metrics.queue_depth.set_function(lambda: self.batcher.depth)

    @property
    def collections(self) -> Mapping[str, Collection]:
        """The collections that the asking key may see, by name; the first is the default."""
        key = ASKING.get()
        return {name: each for name, each in self._collections.items() if key.sees(name)}

    @property
    def is_ready(self) -> bool:
        """Whether every collection that the asking key may see is loaded."""
        return all(collection.is_ready for collection in self.collections.values())

    @property
    def fault(self) -> str:
        """Why questions are not answered although all is loaded; "" while they are."""
        seconds = self.batcher.busy_seconds
        if seconds < _STALLED_SECONDS:
            return ""
        return (
            f"The models' thread has been busy with one batch for {seconds:.0f} s, instead of less "
            "than a second. Restart this process if this continues."
        )

    def collection(self, name: str | None) -> Collection:
        """A collection that the asking key sees; a `Problem` 404, or 422 where it needs a name."""
        collections = self.collections
        if name is None and len(collections) == 1:
            (name,) = collections
        if name is not None and name in collections:
            return collections[name]
        if not collections:
            raise Problem(
                404, "no-such-collection", "None of the collections of this key is served here."
            )
        names = ", ".join(collections)
        if name is None:
            sentence = f"Several collections are served here; name one: {names}."
            raise Problem(422, "which-collection", sentence)
        sentence = f"There is no collection '{name:.80}'; use one of {names}."
        raise Problem(404, "no-such-collection", sentence)

    @property
    def budget(self) -> Budget | None:
        """What the asking key may spend on remote arms in a day; None if that is not limited."""
        key = ASKING.get()
        limit = key.max_cost_per_day
        limit = self.settings.serve.max_cost_per_day if limit is None else limit
        if limit is None or self._ledger is None:
            return None
        return Budget(self._ledger, key.name, limit)

    async def start(self) -> None:
        """Begin to load and return; `is_ready` tells when loading is done."""
        await self.refresher.start()
        self.jobs.start()

    async def stop(self) -> None:
        """Finish what was accepted, then end every thread."""
        await self.jobs.stop()
        await self.refresher.stop()
        await self.batcher.close()
        await self.generator.close()
        for arm in chain.from_iterable(self.arms.values()):
            await arm.close()
        self._threads.shutdown()
        for collection in self._collections.values():
            collection.close()
        if self.request_log is not None:
            self.request_log.close()

    async def search(
        self, request: Request, params: SearchParams, question: str, deadline_ms: int | None
    ) -> SearchResult:
        """Find passages for a question that the asking key may see; by default within the deadline.

        A `Problem` 503 under overload or while nothing is loaded, 504 if time ran out, 422 for a
        request that cannot be answered, 499 if the client left.
        """
        params, seconds = self._admit(params, deadline_ms)
        if params.min_version:
            target, within = self.collections[params.collection], min(seconds, MOST_AWAITED)
            await self.refresher.catch_up(target, params.min_version, within=within)
        gate = self._gates.get(params.collection)
        item = QueuedQuestion(question, request_id_of(request))
        if gate is not None and gate.suitable(params):
            work = gate.search(params, item, seconds, self.budget)
        else:
            work = self._submit(params, item, seconds)
        result = await unless_gone(departure(request), work)
        self._record(result)
        return result

    async def decide(
        self, request: Request, params: SearchParams, question: str, deadline_ms: int | None
    ) -> Decision:
        """Decide which route a question would take; problems are those of `search`."""
        params, seconds = self._admit(params, deadline_ms)
        gateway = self._collections[params.collection].session.gateway
        with self.decisions.reserve():
            work = self.batcher.call(lambda: gateway.decide([question], params), seconds)
            (decision,) = await unless_gone(departure(request), work)
        return decision

    def _admit(self, params: SearchParams, deadline_ms: int | None) -> tuple[SearchParams, float]:
        """The parameters, within what the asking key may see, and its seconds; or a `Problem`."""
        key = ASKING.get()
        collection = self.collections[params.collection]
        collection.require_ready()
        collection.require_route(params.route)
        if key.filter:
            params = replace(params, filter=key.within(params.filter))
        milliseconds = deadline_ms or self.settings.serve.deadline_ms
        return params, min(milliseconds, LONGEST_DEADLINE_MS) / 1000

    async def _submit(
        self, params: SearchParams, item: QueuedQuestion, seconds: float
    ) -> SearchResult:
        weight = token_count(item.text) * (STEPS_WEIGHT if params.route == Route.STEPS else 1)
        owner, started = ASKING.get().name, perf_counter()
        result, _ = await self.batcher.submit(params, item, seconds, owner=owner, weight=weight)
        return replace(result, total=perf_counter() - started)

    def _record(self, result: SearchResult) -> None:
        params, reply, remote, metrics = result.params, result.reply, result.remote, self.metrics
        score = None if reply.decision is None else reply.decision.score
        for stage, seconds in result.seconds.items():
            metrics.stage_seconds.labels(stage).observe(seconds)
        metrics.retrieval_seconds.labels(str(reply.route)).observe(result.total)
        metrics.routes.labels(params.collection, str(params.route), str(reply.route)).inc()
        metrics.batch_size.observe(result.entry.size)
        if score is not None:
            metrics.scores.labels(params.collection).observe(score)
        if remote is not None:
            self._count_arms(remote)
        if result.degradation:
            metrics.degraded.labels(params.collection, result.degradation).inc()
        self.log(
            RETRIEVAL,
            result.entry.item.request_id,
            lambda: {
                "question": reply.question,
                "collection": params.collection,
                "asked": str(params.route),
                "route": str(reply.route),
                "k": params.k,
                "filter": params.filter,
                "decision": plain(reply.decision),
                "passages": [hit.id for hit in reply.ranking.hits],
                "index_version": reply.version,
                "degraded": result.degraded,
                "seconds": {**result.seconds, "total": result.total},
                **({} if remote is None else remote.log_values()),
            },
        )

    def _count_arms(self, remote: RemoteOutcome) -> None:
        metrics = self.metrics
        for name, call in remote.calls.items():
            metrics.arm_calls.labels(name, call.outcome).inc()
            metrics.arm_state.labels(name).set([*BreakerState].index(call.state))
            if call.calls:
                metrics.arm_seconds.labels(name).observe(call.seconds)
            metrics.arm_spent.labels(name).inc(call.spent)
        for name, saved in remote.saved_by.items():
            metrics.arm_saved.labels(name).inc(saved)

    def log(self, kind: str, request_id: str, values: Callable[[], Mapping[str, Any]]) -> bool:
        """Write a line to the request log, if there is one; returns whether it was written."""
        if self.request_log is None:
            return False
        try:
            self.request_log.write(kind, request_id, {"key": ASKING.get().name, **values()})
            fault = ""
        except OSError as error:
            self.metrics.log_lines_lost.inc()
            fault = error.strerror or type(error).__name__
        if fault != self.log_fault:
            extra = {"path": str(self.settings.serve.request_log), "error": fault}
            if fault:
                LOG.error("request log not written", extra=extra)
            else:
                LOG.info("request log written again", extra=extra)
        self.log_fault = fault
        return not fault


@dataclass(eq=False)
class Refresher:
    """Loads the collections, then moves them to new versions and thresholds as these appear."""

    collections: Mapping[str, Collection]
    models: Batcher[Any, Any, Any]
    ring: KeyRing
    metrics: Metrics
    seconds: float  # within so many, a newer version is searched
    loaded: Callable[[], None]  # called in the models' thread when all are loaded
    is_written: asyncio.Event = field(default_factory=asyncio.Event)  # by this process, just now
    _logged_errors: dict[str, str] = field(default_factory=dict)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "wye-look"))
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to load, and return."""
        self._task = asyncio.create_task(self._load_and_follow(), name="wye-collections")

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    async def catch_up(self, collection: Collection, version: int, *, within: float = 0) -> None:
        """Wait until this process searches a version; later questions see it, or a newer one.

        It may appear `within` so many seconds, written by another process. A `Problem` 503 if it
        cannot be opened here; it stays written.
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
        collections = [each for each in self.collections.values() if not each.is_ready]
        for collection in collections:
            try:
                await self.models.call(collection.load)
            except Exception as error:  # noqa: BLE001 - /ready tells; the others are still loaded
                extra = {"collection": collection.name, "error": str(error)}
                LOG.error("load failed", exc_info=error, extra=extra)
            self._show(collection)
        if collections and all(each.is_ready for each in collections):
            await self.models.call(self.loaded)

    async def _load_and_follow(self) -> None:
        """Load what is not loaded yet, then look for newer versions, thresholds and keys."""
        await self._load()
        while True:
            started = perf_counter()
            self.is_written.clear()
            for collection in self.collections.values():
                await self._renew(collection)
            if self.ring.path is not None:
                with self._logged("keys"):
                    self.ring.reload()
                    if self.ring.fault:
                        raise ServiceError(self.ring.fault)
            # Renewing takes at most half of the time even if the index is written all the time,
            # and at most a fifth as long as the pause stays within its usual length. That is half
            # of `refresh_seconds`, so that a commit is searched in that time, opening included.
            seconds = perf_counter() - started
            usual = self.seconds / 2
            pause = max(seconds, min(4 * seconds, usual))
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(usual - pause):
                    await self.is_written.wait()

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
            self.metrics.index_version.labels(collection.name).set(session.version)
            self.metrics.index_passages.labels(collection.name).set(session.count)


async def service_of(request: Request) -> Service:
    """The service that handles a request; a dependency of every route.

    It awaits nothing, but FastAPI would run a plain function in a thread.
    """
    service: Service = request.app.state.service
    return service


def request_id_of(request: Request) -> str:
    """The id of a request; "" if it has none."""
    return str(request.scope.get(NOTED_ID, ""))


Served = Annotated[Service, Depends(service_of)]  # the service, as a parameter of a route


async def departure(request: Request) -> None:
    """Return when the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
