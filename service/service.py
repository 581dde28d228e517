"""The running service: collections, the batcher in front of them, and what watches over both."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, time
from typing import cast

from fastapi import Request
from opentelemetry.trace import Tracer

from router.request_log import RETRIEVAL, RequestLog
from router.types import Decision, Route
from service.answers.answering import Writer
from service.batching import Batcher, unless_gone
from service.collections import Collection, pick
from service.http.keys import KeyRing
from service.http.metrics import Metrics
from service.http.problems import Problem, request_id_of
from service.http.replies import Answered
from service.http.tracing import record_retrieval
from service.ingest.job_runner import JobRunner
from service.ingest.sandbox import Sandbox
from service.ingest.writer import CollectionWriter
from service.recent import Recent, Sample
from service.refresh import Refresher
from service.render import plain
from service.search import QueuedQuestion, RouteParams, Searcher, SearchParams, SearchResult
from service.settings import ServiceSettings

_THREADS = 4


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
        self.started = int(time())
        self.writer = Writer(settings.generator, metrics)
        self.journal = RequestLog(serve.request_log) if serve.request_log is not None else None
        self.batcher: Batcher[
            SearchParams | RouteParams, QueuedQuestion, SearchResult | Decision
        ] = Batcher(Searcher(collections).work, batch=serve.batch, queue=serve.queue)
        self.refresher = Refresher(
            settings, collections, self.batcher, ring=ring, metrics=metrics, loaded=loaded
        )
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wye-documents")
        self.sandbox = Sandbox(settings.documents.limits)
        self.writers = {
            name: CollectionWriter(
                collection,
                settings,
                models=self.batcher,
                refresher=self.refresher,
                threads=self._threads,
                metrics=metrics.documents,
            )
            for name, collection in collections.items()
        }
        self.jobs = JobRunner(self.writers, settings.documents, metrics.documents)
        self.recent = Recent()
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
        """Begin to load, and return; `is_ready` says when it is done."""
        await self.refresher.start()
        self.jobs.start()

    async def stop(self) -> None:
        """Finish what was accepted, then end every thread."""
        await self.jobs.stop()
        await self.refresher.stop()
        await self.batcher.close()
        await self.writer.close()
        self._threads.shutdown()
        for collection in self.collections.values():
            collection.close()
        if self.journal is not None:
            self.journal.close()

    async def find(
        self, request: Request, ask: SearchParams, questions: Sequence[str], deadline_ms: int | None
    ) -> list[Answered]:
        """Passages for each question of a request, in order.

        Args:
            request: That asks; when its client goes away, the questions leave the queue.
            ask: How to search.
            questions: What for.
            deadline_ms: Time for it; None takes the settings'.

        Raises:
            Problem: 503 when there is too much to do or nothing is loaded, 504 when time ran out,
                422 for a request that cannot be answered, 499 when the client went away.
        """
        self._check(ask.collection, ask.route)
        request_id = request_id_of(request.scope)
        seconds = self._seconds(deadline_ms)
        answers = await unless_gone(
            gone(request),
            _together(
                [self._find(ask, QueuedQuestion(text, request_id), seconds) for text in questions]
            ),
        )
        for answered in answers:
            self._record(answered)
        return answers

    async def decide(
        self, request: Request, ask: RouteParams, question: str, deadline_ms: int | None
    ) -> Decision:
        """Which route a question would take.

        Raises:
            Problem: As of `find`.
        """
        self._check(ask.collection, Route.AUTO)
        item = QueuedQuestion(question, request_id_of(request.scope))
        work = self.batcher.submit(ask, item, self._seconds(deadline_ms))
        decision, _ = await unless_gone(gone(request), work)
        return cast("Decision", decision)

    def _check(self, name: str, route: Route) -> None:
        """Refuse at once what cannot be answered.

        Raises:
            Problem: 503 while the collection loads, 409 for a route that it lacks.
        """
        collection = self.collection(name)
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

    async def _find(self, ask: SearchParams, question: QueuedQuestion, seconds: float) -> Answered:
        started = perf_counter()
        self.metrics.queue_depth.set(self.batcher.depth + 1)
        try:
            found, entry = await self.batcher.submit(ask, question, seconds)
        finally:
            self.metrics.queue_depth.set(self.batcher.depth)
        return Answered(ask, cast("SearchResult", found), entry, perf_counter() - started)

    def _record(self, answered: Answered) -> None:
        """Count it, trace it, and write it to the request log."""
        ask, reply, metrics = answered.ask, answered.found.reply, self.metrics
        decision = reply.decision
        score = None if decision is None else decision.score
        metrics.stages(answered.seconds)
        metrics.retrieval_seconds.labels(str(reply.route)).observe(answered.total)
        metrics.routes.labels(ask.collection, str(ask.route), str(reply.route)).inc()
        metrics.batch_size.observe(answered.entry.size)
        if score is not None:
            metrics.scores.labels(ask.collection).observe(score)
        kind = _kind_of_degradation(answered)
        if kind:
            metrics.degraded.labels(ask.collection, kind).inc()
        self.recent.add(
            Sample(
                time(),
                ask.collection,
                ask.route,
                reply.route,
                score,
                round(1000 * answered.total, 3),
                kind,
                reply.question if self.journal is not None else None,
            )
        )
        record_retrieval(
            self.tracer,
            answered.seconds,
            answered.total,
            {
                "wye.request_id": answered.entry.item.request_id,
                "wye.collection": ask.collection,
                "wye.asked": str(ask.route),
                "wye.route": str(reply.route),
                "wye.index_version": reply.version,
                "wye.batch": answered.entry.size,
                "wye.degraded": answered.degraded,
                **({"wye.score": float(score)} if score is not None else {}),
            },
        )
        if self.journal is not None:
            self.journal.write(
                RETRIEVAL,
                answered.entry.item.request_id,
                {
                    "question": reply.question,
                    "collection": ask.collection,
                    "asked": str(ask.route),
                    "route": str(reply.route),
                    "k": ask.k,
                    "filter": ask.filter,
                    "max_latency_ms": ask.max_latency_ms,
                    "decision": plain(decision),
                    "passages": [hit.id for hit in reply.ranking.hits],
                    "index_version": reply.version,
                    "degraded": answered.degraded,
                    "seconds": {**answered.seconds, "total": answered.total},
                },
            )


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


async def _together(finding: Sequence[Coroutine[None, None, Answered]]) -> list[Answered]:
    """All results; with the first error, or when cancelled, the others are cancelled as well."""
    tasks = [asyncio.ensure_future(each) for each in finding]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _kind_of_degradation(answered: Answered) -> str:
    if not answered.degraded:
        return ""
    if not answered.found.degraded:
        return "arm"
    return "failed" if " failed (" in answered.found.degraded else "late"
