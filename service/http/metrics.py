"""What Prometheus reads: of questions, and of documents and jobs."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from backends.store.ingest import IngestReport
from service.ingest.jobs import Job, State

# Where several workers keep their counts, so that any of them can tell those of all.
SHARED = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.02,
    0.03,
    0.04,
    0.06,
    0.08,
    0.12,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
)
_SCORES = tuple(step / 20 for step in range(1, 21))
_OF_A_WORKER = re.compile(r"gauge_live\w+_(\d+)\.db")
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_CHANGE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_UNFINISHED = tuple(state for state in State if not state.has_ended)


class DocumentMetrics:
    """What became of documents: what was changed, how long it took, and what waits."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._documents = Counter(
            "wye_documents",
            "Documents that were taken: stored at once (direct), or on the disk as a job.",
            ["collection", "taken"],
            registry=registry,
        )
        self._passages = Counter(
            "wye_passages",
            "Passages by what became of them: added, updated, unchanged, deleted, or removed, as "
            "chunks are that their document no longer has.",
            ["collection", "change"],
            registry=registry,
        )
        self._changes_waiting = Gauge(
            "wye_changes_waiting",
            "Changes that somebody waits for: queued, or being written.",
            ["collection"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._change_seconds = Histogram(
            "wye_change_seconds",
            "From a change that somebody waits for to its commit, waiting included, by kind: write "
            "or delete.",
            ["collection", "kind"],
            buckets=_CHANGE_SECONDS,
            registry=registry,
        )
        self._change_wait_seconds = Histogram(
            "wye_change_wait_seconds",
            "From a change that somebody waits for to its turn, when nobody else writes.",
            ["collection"],
            buckets=_CHANGE_SECONDS,
            registry=registry,
        )
        self._commit_seconds = Histogram(
            "wye_commit_seconds",
            "Writing a change or a part of a job, once it has its turn.",
            ["collection"],
            buckets=_CHANGE_SECONDS,
            registry=registry,
        )
        self._jobs = Gauge(
            "wye_jobs",
            "Jobs that have not ended, by state.",
            ["collection", "state"],
            multiprocess_mode="livemostrecent",
            registry=registry,
        )
        self._jobs_ended = Counter(
            "wye_jobs_ended",
            "Jobs that ended, by how: done, failed or cancelled.",
            ["collection", "state"],
            registry=registry,
        )

    def begin(self, collection: str) -> None:
        """Say of a collection that nothing waits."""
        self._changes_waiting.labels(collection).set(0)
        self.unfinished(collection, [])

    @contextmanager
    def change(self, collection: str, kind: str) -> Iterator[None]:
        """Around a change that somebody waits for, "write" or "delete"; timed if it succeeds."""
        waiting = self._changes_waiting.labels(collection)
        waiting.inc()
        started = perf_counter()
        try:
            yield
            self._change_seconds.labels(collection, kind).observe(perf_counter() - started)
        finally:
            waiting.dec()

    def stored(self, collection: str, documents: int) -> None:
        """Documents were stored while their sender waited."""
        self._documents.labels(collection, "direct").inc(documents)

    def accepted(self, job: Job) -> None:
        """A job is on the disk."""
        self._documents.labels(job.collection, "job").inc(job.documents)

    def wrote(self, collection: str, report: IngestReport) -> None:
        """Passages of documents were committed, of a change or of a part of a job."""
        for change in ("added", "updated", "unchanged", "removed"):
            self._passages.labels(collection, change).inc(getattr(report, change))

    def deleted(self, collection: str, passages: int) -> None:
        """Passages were deleted."""
        self._passages.labels(collection, "deleted").inc(passages)

    def waited(self, collection: str, seconds: float) -> None:
        """A change that somebody waits for had its turn."""
        self._change_wait_seconds.labels(collection).observe(seconds)

    def committed(self, collection: str, seconds: float) -> None:
        """A change or a part of a job was written, which took so long."""
        self._commit_seconds.labels(collection).observe(seconds)

    def unfinished(self, collection: str, jobs: list[Job]) -> None:
        """These are all the jobs that have not ended."""
        for state in _UNFINISHED:
            self._jobs.labels(collection, state).set(sum(job.state == state for job in jobs))

    def ended(self, job: Job) -> None:
        """A job came to its end in this process."""
        self._jobs_ended.labels(job.collection, job.state).inc()


class Metrics:
    """All metrics of one server; nothing is registered outside of it."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self.requests = Counter(
            "wye_http_requests", "Replies by address and status.", ["path", "status"], registry=own
        )
        self.request_seconds = Histogram(
            "wye_http_request_seconds",
            "From the request's head to the reply's head, by address.",
            ["path"],
            buckets=_SECONDS,
            registry=own,
        )
        self.stage_seconds = Histogram(
            "wye_stage_seconds",
            "A question's share of its batch's time, by stage; waiting is the stage queue.",
            ["stage"],
            buckets=_SECONDS,
            registry=own,
        )
        self.retrieval_seconds = Histogram(
            "wye_retrieval_seconds",
            "From queueing a question to its passages, by the route that answered.",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self.routes = Counter(
            "wye_routes", "Answered questions.", ["collection", "asked", "route"], registry=own
        )
        self.scores = Histogram(
            "wye_route_score",
            "The router's score of a question.",
            ["collection"],
            buckets=_SCORES,
            registry=own,
        )
        self.batch_size = Histogram(
            "wye_batch_size",
            "Size of the batch that a question was in.",
            buckets=_SIZES,
            registry=own,
        )
        self.queue_depth = Gauge(
            "wye_queue_depth", "Questions that wait.", multiprocess_mode="livesum", registry=own
        )
        self.degraded = Counter(
            "wye_degraded",
            "Answers that are not what was asked for, by kind: failed, late, arm or generator.",
            ["collection", "kind"],
            registry=own,
        )
        self.refused = Counter(
            "wye_refused", "Requests refused, by kind of problem.", ["problem"], registry=own
        )
        self.generator_seconds = Histogram(
            "wye_generator_seconds",
            "Until the generator's first piece, and until its last.",
            ["until"],
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80),
            registry=own,
        )
        self.generator_retries = Counter(
            "wye_generator_retries", "Requests to the generator that were sent again.", registry=own
        )
        self.feedback = Counter("wye_feedback", "Feedback by rating.", ["rating"], registry=own)
        self.index_version = Gauge(
            "wye_index_version",
            "Version of the index that is searched.",
            ["collection"],
            multiprocess_mode="livemin",
            registry=own,
        )
        self.index_passages = Gauge(
            "wye_index_passages",
            "Passages of the index that is searched.",
            ["collection"],
            multiprocess_mode="livemin",
            registry=own,
        )
        self.documents = DocumentMetrics(own)

    def listed(self) -> list[tuple[str, str, str]]:
        """Name, type and meaning of every metric, by name."""
        families = ((each.name, each.type, each.documentation) for each in self._registry.collect())
        return sorted(
            (f"{name}_total" if kind == "counter" else name, kind, meaning)
            for name, kind, meaning in families
        )

    def text(self) -> bytes:
        """All of it in Prometheus' text format, of all workers where there are several."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        _forget_the_dead(Path(os.environ[SHARED]))
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)


def _forget_the_dead(folder: Path) -> None:
    """Drop what workers that were killed said of themselves; their counts stay."""
    for file in folder.glob("gauge_live*.db"):
        found = _OF_A_WORKER.fullmatch(file.name)
        if found is None:
            continue
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            mark_process_dead(int(found[1]), str(folder))  # type: ignore[no-untyped-call]
        except PermissionError:  # somebody else's process has the number now
            continue
