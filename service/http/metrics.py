"""Metrics for Prometheus: of questions, documents, jobs and remote arms."""

from functools import partial

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from wye.service.ingest.jobs import Job, State

_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.25, 0.5, 1, 2.5, 5, 10)
_SCORES = tuple(step / 20 for step in range(1, 21))
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_CHANGE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_UNFINISHED = tuple(state for state in State if not state.has_ended)


class DocumentMetrics:
    """Metrics of documents: changes, their times, and jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=_CHANGE_SECONDS)
        self.documents = counter(
            "wye_documents",
            "Documents that were accepted: stored at once (direct) or as a job.",
            ["collection", "taken"],
        )
        self.passages = counter(
            "wye_passages",
            "Passages by change: added, updated, unchanged, deleted, or removed (chunks that their "
            "document no longer has).",
            ["collection", "change"],
        )
        self.change_seconds = histogram(
            "wye_change_seconds",
            "Time from a change whose sender waits to its commit, by kind: write or delete.",
            ["collection", "kind"],
        )
        self._jobs = gauge(
            "wye_jobs", "Jobs that have not ended, by state.", ["collection", "state"]
        )
        self.jobs_ended = counter(
            "wye_jobs_ended",
            "Jobs that ended, by state: done, failed or cancelled.",
            ["collection", "state"],
        )

    def begin(self, collection: str) -> None:
        """Set what waits in a collection to 0, so that it is listed."""
        self.unfinished(collection, [])

    def unfinished(self, collection: str, jobs: list[Job]) -> None:
        """Count all jobs of a collection that have not ended, by state."""
        for state in _UNFINISHED:
            self._jobs.labels(collection, state).set(sum(job.state == state for job in jobs))


class ArmMetrics:
    """Metrics of remote arms: outcomes, times and costs of their calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.calls = counter(
            "wye_arm_questions",
            "Questions whose route wanted a remote arm, by outcome: ok, timeout, unreachable, "
            "busy, refused, broken, garbled, failed, open (its circuit breaker) or budget.",
            ["arm", "outcome"],
        )
        self.seconds = Histogram(
            "wye_arm_seconds",
            "Time from calling a remote arm to its answer or failure, retries included.",
            ["arm"],
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.state = Gauge(
            "wye_arm_state",
            "Circuit breaker of a remote arm: 0 closed, 1 open, 2 half-open.",
            ["arm"],
            registry=registry,
        )
        self.spent = counter("wye_arm_spent", "What calls of a remote arm cost.", ["arm"])
        self.saved = counter(
            "wye_arm_saved",
            "What the calls of a remote arm that the router avoided would have cost.",
            ["arm"],
        )


class Metrics:
    """All metrics of one server, in a registry of its own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        seconds = partial(histogram, buckets=_TIMES)
        self.requests = counter(
            "wye_http_requests", "Replies by address and status.", ["path", "status"]
        )
        self.request_seconds = seconds(
            "wye_http_request_seconds",
            "Time from a request's head to the reply's head, by address.",
            ["path"],
        )
        self.stage_seconds = seconds(
            "wye_stage_seconds",
            "A question's share of its batch's time, by stage; the stage queue is waiting.",
            ["stage"],
        )
        self.retrieval_seconds = seconds(
            "wye_retrieval_seconds",
            "Time from queueing a question to its passages, by the route that answered.",
            ["route"],
        )
        self.routes = counter("wye_routes", "Answered questions.", ["collection", "asked", "route"])
        self.scores = histogram(
            "wye_route_score", "The router's score of a question.", ["collection"], buckets=_SCORES
        )
        self.batch_size = histogram(
            "wye_batch_size", "Size of the batch that a question was in.", buckets=_SIZES
        )
        self.queue_depth = gauge("wye_queue_depth", "Questions that are waiting.")
        self.degraded = counter(
            "wye_degraded",
            "Answers that are not what was asked for, by kind: failed, late, arm or generator.",
            ["collection", "kind"],
        )
        self.refused = counter("wye_refused", "Requests refused, by kind of problem.", ["problem"])
        self.generator_seconds = histogram(
            "wye_generator_seconds",
            "Time until the generator's first piece, and until its last.",
            ["until"],
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80),
        )
        self.log_lines_lost = counter(
            "wye_request_log_lost", "Lines of the request log that could not be written."
        )
        self.index_version = gauge(
            "wye_index_version", "Version of the index that is searched.", ["collection"]
        )
        self.index_passages = gauge(
            "wye_index_passages", "Passages of the index that is searched.", ["collection"]
        )
        self.documents = DocumentMetrics(registry)
        self.arms = ArmMetrics(registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
