"""Metrics for Prometheus: of requests, questions, documents, jobs and remote arms."""

from collections.abc import Sequence
from functools import partial

import prometheus_client as prometheus

from wye.service.ingest.jobs import Job, State

_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.25, 0.5, 1, 2.5, 5, 10)
_SCORES = tuple(step / 20 for step in range(1, 21))
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_CHANGE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_ARM_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_GENERATOR_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
_UNFINISHED = tuple(state for state in State if not state.has_ended)


class Metrics:
    """All metrics of one server, in a registry of its own."""

    content_type = prometheus.CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = prometheus.CollectorRegistry()
        counter = partial(prometheus.Counter, namespace="wye", registry=registry)
        gauge = partial(prometheus.Gauge, namespace="wye", registry=registry)
        histogram = partial(prometheus.Histogram, namespace="wye", registry=registry)

        text = "Replies by address and status."
        self.requests = counter("http_requests", text, ["path", "status"])
        text = "Time from a request's head to the reply's head, by address."
        self.request_seconds = histogram("http_request_seconds", text, ["path"], buckets=_TIMES)
        self.refused = counter("refused", "Requests refused, by kind of problem.", ["problem"])
        text = "A question's share of its batch's time, by stage; the stage queue is waiting."
        self.stage_seconds = histogram("stage_seconds", text, ["stage"], buckets=_TIMES)
        text = "Time from queueing a question to its passages, by the route that answered."
        self.retrieval_seconds = histogram("retrieval_seconds", text, ["route"], buckets=_TIMES)
        self.routes = counter("routes", "Answered questions.", ["collection", "asked", "route"])
        text = "The router's score of a question."
        self.scores = histogram("route_score", text, ["collection"], buckets=_SCORES)
        text = "Size of the batch that a question was in."
        self.batch_size = histogram("batch_size", text, buckets=_SIZES)
        self.queue_depth = gauge("queue_depth", "Questions that are waiting.")
        text = "Answers that are not what was asked for, by kind: failed, late, arm or generator."
        self.degraded = counter("degraded", text, ["collection", "kind"])
        text = "Time until the generator's first piece, and until its last."
        self.generator_seconds = histogram(
            "generator_seconds", text, ["until"], buckets=_GENERATOR_SECONDS
        )
        text = "Lines of the request log that could not be written."
        self.log_lines_lost = counter("request_log_lost", text)
        text = "Version of the index that is searched."
        self.index_version = gauge("index_version", text, ["collection"])
        text = "Passages of the index that is searched."
        self.index_passages = gauge("index_passages", text, ["collection"])

        text = "Documents that were accepted: stored at once (direct) or as a job."
        self.documents = counter("documents", text, ["collection", "taken"])
        text = (
            "Passages by change: added, updated, unchanged, deleted, or removed (chunks that their "
            "document no longer has)."
        )
        self.passages = counter("passages", text, ["collection", "change"])
        text = "Time from a change whose sender waits to its commit, by kind: write or delete."
        self.change_seconds = histogram(
            "change_seconds", text, ["collection", "kind"], buckets=_CHANGE_SECONDS
        )
        self._jobs = gauge("jobs", "Jobs that have not ended, by state.", ["collection", "state"])
        text = "Jobs that ended, by state: done, failed or cancelled."
        self.jobs_ended = counter("jobs_ended", text, ["collection", "state"])

        text = (
            "Questions whose route wanted a remote arm, by outcome: ok, timeout, unreachable, "
            "busy, refused, broken, garbled, failed, open (its circuit breaker) or budget."
        )
        self.arm_calls = counter("arm_questions", text, ["arm", "outcome"])
        text = "Time from calling a remote arm to its answer or failure, retries included."
        self.arm_seconds = histogram("arm_seconds", text, ["arm"], buckets=_ARM_SECONDS)
        text = "Circuit breaker of a remote arm: 0 closed, 1 open, 2 half-open."
        self.arm_state = gauge("arm_state", text, ["arm"])
        self.arm_spent = counter("arm_spent", "What calls of a remote arm cost.", ["arm"])
        text = "What the calls of a remote arm that the router avoided would have cost."
        self.arm_saved = counter("arm_saved", text, ["arm"])

    def unfinished(self, collection: str, jobs: Sequence[Job]) -> None:
        """Count all jobs of a collection that have not ended, by state."""
        for state in _UNFINISHED:
            self._jobs.labels(collection, state).set(sum(job.state == state for job in jobs))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return prometheus.generate_latest(self._registry)
