"""What Prometheus is told of documents: what was changed, how long it took, and what waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from backends.build import IngestReport
from service.documents.job import Job, State

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_UNFINISHED = tuple(state for state in State if not state.has_ended)


class DocumentMetrics:
    """Metrics of documents, in the registry of a server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.documents = Counter(
            "wye_documents",
            "Documents that were taken: stored at once (direct), or on the disk as a job.",
            ["collection", "taken"],
            registry=registry,
        )
        self.passages = Counter(
            "wye_passages",
            "Passages by what became of them: added, updated, unchanged, deleted, or removed, as "
            "chunks are that their document no longer has.",
            ["collection", "change"],
            registry=registry,
        )
        self.changes_waiting = Gauge(
            "wye_changes_waiting",
            "Changes that somebody waits for: queued, or being written.",
            ["collection"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.change_seconds = Histogram(
            "wye_change_seconds",
            "From a change that somebody waits for to its commit, waiting included, by kind: write "
            "or delete.",
            ["collection", "kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.change_wait_seconds = Histogram(
            "wye_change_wait_seconds",
            "From a change that somebody waits for to its turn, when nobody else writes.",
            ["collection"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.commit_seconds = Histogram(
            "wye_commit_seconds",
            "Writing a change or a part of a job, once it has its turn.",
            ["collection"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.jobs = Gauge(
            "wye_jobs",
            "Jobs that have not ended, by state.",
            ["collection", "state"],
            multiprocess_mode="livemostrecent",
            registry=registry,
        )
        self.jobs_ended = Counter(
            "wye_jobs_ended",
            "Jobs that ended, by how: done, failed or cancelled.",
            ["collection", "state"],
            registry=registry,
        )


class Tally:
    """Counts what becomes of one collection's documents."""

    def __init__(self, metrics: DocumentMetrics, collection: str) -> None:
        """Begin at nothing.

        Args:
            metrics: To count in.
            collection: Its name.
        """
        self._metrics = metrics
        self._name = collection
        metrics.changes_waiting.labels(collection).set(0)
        self.unfinished([])

    @contextmanager
    def change(self, kind: str) -> Iterator[None]:
        """Around a change that somebody waits for; its time counts if it succeeds.

        Args:
            kind: "write" or "delete".
        """
        waiting = self._metrics.changes_waiting.labels(self._name)
        waiting.inc()
        started = perf_counter()
        try:
            yield
            spent = perf_counter() - started
            self._metrics.change_seconds.labels(self._name, kind).observe(spent)
        finally:
            waiting.dec()

    def stored(self, documents: int) -> None:
        """Documents were stored while their sender waited."""
        self._metrics.documents.labels(self._name, "direct").inc(documents)

    def accepted(self, job: Job) -> None:
        """A job is on the disk."""
        self._metrics.documents.labels(self._name, "job").inc(job.documents)

    def wrote(self, report: IngestReport) -> None:
        """Passages of documents were committed, of a change or of a part of a job."""
        for change in ("added", "updated", "unchanged", "removed"):
            self._metrics.passages.labels(self._name, change).inc(getattr(report, change))

    def deleted(self, passages: int) -> None:
        """Passages were deleted."""
        self._metrics.passages.labels(self._name, "deleted").inc(passages)

    def waited(self, seconds: float) -> None:
        """A change that somebody waits for had its turn."""
        self._metrics.change_wait_seconds.labels(self._name).observe(seconds)

    def committed(self, seconds: float) -> None:
        """A change or a part of a job was written, which took so long."""
        self._metrics.commit_seconds.labels(self._name).observe(seconds)

    def unfinished(self, jobs: list[Job]) -> None:
        """These are all the jobs that have not ended."""
        for state in _UNFINISHED:
            count = sum(job.state == state for job in jobs)
            self._metrics.jobs.labels(self._name, state).set(count)

    def ended(self, job: Job) -> None:
        """A job came to its end in this process."""
        self._metrics.jobs_ended.labels(self._name, job.state).inc()
