"""The running service: collections, the batcher in front of them, and what watches over both."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from time import perf_counter, time
from typing import cast

from fastapi import Request
from opentelemetry.trace import Tracer

from router.request_log import RETRIEVAL, RequestLog
from router.types import Decision, Route
from service.answers.generate import AnswerGenerator
from service.batching import Batcher, unless_gone
from service.collections import INDEX, Collection, pick
from service.errors import ServiceError
from service.http.keys import KeyRing
from service.http.metrics import Metrics
from service.http.problems import Problem, request_id_of
from service.http.tracing import record_retrieval
from service.ingest.desk import Desk
from service.logs import LOG
from service.render import plain
from service.schemas.stats import RecentQuestion
from service.search import QueuedQuestion, RouteParams, Searcher, SearchParams, SearchResult
from service.settings import ServiceSettings

REMEMBERED = 1000
"""Answers that `/v1/stats` is about; older ones are forgotten."""


class Service:
    """What all addresses share; one to an app."""

    def __init__(
        self,
        settings: ServiceSettings,
        collections: Mapping[str, Collection],
        *,
        ring: KeyRing,
        metrics: Metrics,
        tracer: Tracer,
        loaded: Callable[[], None],
    ) -> None:
        """Wire the parts; `start` loads the models.

        Args:
            settings: Of the service.
            collections: By name; the first is the default.
            ring: Keys, to be read again when their file changes.
            metrics: To count in.
            tracer: To record retrievals with.
            loaded: Called when all collections are.
        """
        serve = settings.serve
        self.settings = settings
        self.collections = collections
        self.ring = ring
        self.metrics = metrics
        self.tracer = tracer
        self._loaded = loaded
        self.started = int(time())
        self.generator = AnswerGenerator(settings.generator, metrics)
        self.request_log = RequestLog(serve.request_log) if serve.request_log is not None else None
        self.batcher: Batcher[
            SearchParams | RouteParams, QueuedQuestion, SearchResult | Decision
        ] = Batcher(Searcher(collections).work, batch=serve.batch, queue=serve.queue)
        self.desk = Desk(
            collections,
            settings.documents,
            call=self.batcher.call,
            catch_up=self.catch_up,
            written=self._written,
            entity_vectors=settings.ingest.entity_vectors,
            metrics=metrics.documents,
        )
        self._is_written = asyncio.Event()
        self.recent: deque[RecentQuestion] = deque(maxlen=REMEMBERED)
        self.answered = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="wye-refresh")
        metrics.queue_depth.set(0)

    @property
    def is_ready(self) -> bool:
        """Whether every collection is loaded."""
        return all(collection.is_ready for collection in self.collections.values())

    def collection(self, name: str | None) -> Collection:
        """A collection by name, the first without one.

        Raises:
            Problem: 404.
        """
        return pick(self.collections, name)

    async def start(self) -> None:
        """Begin to load, and return; `is_ready` says when it is done.

        One of several workers loads first: they share an address, so /ready of one says nothing of
        the others, and none may answer before it can.
        """
        if self.settings.serve.workers > 1:
            await self._load()
            if not self.is_ready:
                raise ServiceError("A collection could not be loaded; see the log above for why.")
        self._tasks.add(asyncio.create_task(self._load_and_follow(), name="wye-collections"))
        self.desk.start()

    async def stop(self) -> None:
        """Finish what was accepted, then end every thread."""
        await self.desk.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.batcher.close()
        await self.generator.close()
        self._beside.shutdown()
        for collection in self.collections.values():
            collection.close()
        if self.request_log is not None:
            self.request_log.close()

    async def catch_up(self, collection: Collection, version: int) -> None:
        """Return when every question that comes from now on sees a version, or a newer one.

        Raises:
            Problem: 503 when it cannot be opened; that it was written stays so.
        """
        while collection.engine.version < version:
            before = collection.engine.version
            await self._renew(collection)
            if collection.engine.version == before:
                why = collection.faults[INDEX] or "the newer one is not in sight"
                raise Problem(
                    503,
                    "not-searched-yet",
                    f"Version {version} of '{collection.name}' is written, but version {before} is "
                    f"still searched here ({why}). Ask again.",
                    retry_after=2,
                )

    async def search(
        self,
        request: Request,
        params: SearchParams,
        questions: Sequence[str],
        deadline_ms: int | None,
    ) -> list[SearchResult]:
        """Passages for each question of a request, in order.

        With the first error the other questions leave the queue; all do when the client goes away.

        Args:
            request: That asks.
            params: How to search.
            questions: What for.
            deadline_ms: Time for it; None takes the settings'.

        Raises:
            Problem: 503 when there is too much to do or nothing is loaded, 504 when time ran out,
                422 for a request that cannot be answered, 499 when the client went away.
        """
        self._check(params.collection, params.route)
        request_id, seconds = request_id_of(request.scope), self._seconds(deadline_ms)
        tasks = [
            asyncio.ensure_future(self._submit(params, QueuedQuestion(text, request_id), seconds))
            for text in questions
        ]
        try:
            results = await unless_gone(gone(request), asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
        for result in results:
            self._record(result)
        return results

    async def decide(
        self, request: Request, params: RouteParams, question: str, deadline_ms: int | None
    ) -> Decision:
        """Which route a question would take.

        Raises:
            Problem: As of `search`.
        """
        self._check(params.collection, Route.AUTO)
        item = QueuedQuestion(question, request_id_of(request.scope))
        work = self.batcher.submit(params, item, self._seconds(deadline_ms))
        decision, _ = await unless_gone(gone(request), work)
        return cast("Decision", decision)

    def _check(self, name: str, route: Route) -> None:
        """Refuse at once what cannot be answered.

        Raises:
            Problem: 503 while the collection loads, 409 for a route that it lacks.
        """
        collection = self.collections[name]
        _ = collection.engine
        lacking = collection.unavailable.get(route)
        if lacking is not None:
            raise Problem(
                409,
                "no-such-route",
                f"Route '{route}' is not available in '{collection.name}': {lacking}",
            )

    def _seconds(self, deadline_ms: int | None) -> float:
        serve = self.settings.serve
        return min(deadline_ms or serve.deadline_ms, serve.longest_deadline_ms) / 1000

    async def _submit(
        self, params: SearchParams, question: QueuedQuestion, seconds: float
    ) -> SearchResult:
        started = perf_counter()
        self.metrics.queue_depth.set(self.batcher.depth + 1)
        try:
            result, _ = await self.batcher.submit(params, question, seconds)
        finally:
            self.metrics.queue_depth.set(self.batcher.depth)
        return replace(cast("SearchResult", result), total=perf_counter() - started)

    def _record(self, result: SearchResult) -> None:
        """Count it, trace it, and write it to the request log."""
        params, reply, metrics = result.params, result.reply, self.metrics
        score = None if reply.decision is None else reply.decision.score
        for stage, spent in result.seconds.items():
            metrics.stage_seconds.labels(stage).observe(spent)
        metrics.retrieval_seconds.labels(str(reply.route)).observe(result.total)
        metrics.routes.labels(params.collection, str(params.route), str(reply.route)).inc()
        metrics.batch_size.observe(result.entry.size)
        if score is not None:
            metrics.scores.labels(params.collection).observe(score)
        if result.degradation:
            metrics.degraded.labels(params.collection, result.degradation).inc()
        self.answered += 1
        self.recent.append(
            RecentQuestion(
                time=time(),
                question=reply.question if self.request_log is not None else "",
                collection=params.collection,
                asked=params.route,
                route=reply.route,
                score=score,
                ms=round(1000 * result.total, 3),
                degraded=result.degradation,
            )
        )
        record_retrieval(
            self.tracer,
            result.seconds,
            result.total,
            {
                "wye.request_id": result.entry.item.request_id,
                "wye.collection": params.collection,
                "wye.asked": str(params.route),
                "wye.route": str(reply.route),
                "wye.index_version": reply.version,
                "wye.batch": result.entry.size,
                "wye.degraded": result.degraded,
                **({"wye.score": float(score)} if score is not None else {}),
            },
        )
        if self.request_log is not None:
            self.request_log.write(
                RETRIEVAL,
                result.entry.item.request_id,
                {
                    "question": reply.question,
                    "collection": params.collection,
                    "asked": str(params.route),
                    "route": str(reply.route),
                    "k": params.k,
                    "filter": params.filter,
                    "max_latency_ms": params.max_latency_ms,
                    "decision": plain(reply.decision),
                    "passages": [hit.id for hit in reply.ranking.hits],
                    "index_version": reply.version,
                    "degraded": result.degraded,
                    "seconds": {**result.seconds, "total": result.total},
                },
            )

    async def _load(self) -> None:
        """Load each collection in the thread that searches."""
        waiting = [each for each in self.collections.values() if not each.is_ready]
        for collection in waiting:
            try:
                await self.batcher.call(collection.load)
            except Exception as error:  # noqa: BLE001 - /ready tells, and the others load on
                extra = {"collection": collection.name, "error": str(error)}
                LOG.error("load failed", exc_info=error, extra=extra)
            self._show(collection)
            # What was deleted between opening the index and saying so was deleted without us.
            await self._renew(collection)
        if waiting:
            await self.batcher.call(self._loaded)

    async def _load_and_follow(self) -> None:
        """Load what is not loaded yet, then look for newer versions, thresholds and keys."""
        await self._load()
        while True:
            started = perf_counter()
            self._is_written.clear()
            for collection in self.collections.values():
                await self._renew(collection)
            self._reload_keys()
            # Following an index that is written to all the time takes at most half of the time, and
            # a fifth where that leaves nobody waiting longer than without writes of its own.
            spent = perf_counter() - started
            usual = self.settings.serve.refresh_seconds
            pause = max(spent, min(4 * spent, usual))
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(usual - pause):
                    await self._is_written.wait()

    def _written(self) -> None:
        """This process has written: what it wrote is to be found soon."""
        self._is_written.set()

    async def _renew(self, collection: Collection) -> None:
        """Move to the newest version and thresholds, if there are newer ones."""
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(self._beside, collection.renew):
            await self.batcher.call(collection.forget)
            self._show(collection)

    def _show(self, collection: Collection) -> None:
        self.desk.announce(collection)
        facts = collection.facts()
        if collection.is_ready:
            gauges = self.metrics
            gauges.index_version.labels(collection.name).set(cast("int", facts["index_version"]))
            gauges.index_passages.labels(collection.name).set(cast("int", facts["passages"]))

    def _reload_keys(self) -> None:
        try:
            self.ring.reload()
        except Exception as error:  # noqa: BLE001 - the keys stay as they were
            LOG.error("keys not reloaded", extra={"error": str(error)})


async def service_of(request: Request) -> Service:
    """The service that handles a request; a dependency of every address.

    It waits for nothing, but what is no coroutine would be run in a thread of its own.
    """
    service: Service = request.app.state.service
    return service


async def gone(request: Request) -> None:
    """Ends when the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
