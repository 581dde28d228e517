"""What Prometheus reads of documents and jobs, parsed as Prometheus parses it."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from backends.store.index import PassageStore
from backends.store.ingest import IngestReport
from service.http.metrics import DocumentMetrics
from service.ingest.jobs import Job, State
from tests.live import PATIENCE

Lines = Callable[..., str]
WaitFor = Callable[[TestClient, str], dict[str, Any]]
KIND = {"content-type": "application/x-ndjson"}
TEXT = {"text": "A bridge."}


def read(client: TestClient) -> Callable[..., float]:
    """The value of a sample by name and labels, 0 where there is none."""
    text = client.get("/metrics").text
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return found.get((name, frozenset({"collection": "default", **labels}.items())), 0.0)

    return value


def test_changes_are_counted_and_timed(client: TestClient) -> None:
    long = {"text": "A bridge is here. " * 60}
    for body in (long, {"text": "A bridge."}, {"text": "A bridge."}, {"text": "Another."}):
        assert client.put("/v1/documents/x", json=body, params={"chunk_words": 40}).is_success
    assert client.delete("/v1/documents/x").json()["deleted"] == 1
    assert client.delete("/v1/documents/x").json()["deleted"] == 0
    value = read(client)
    assert value("wye_documents_total", taken="direct") == 4
    changes = {c: value("wye_passages_total", change=c) for c in ("updated", "unchanged")}
    assert changes == {"updated": 1, "unchanged": 1}
    # The chunks of the long text went when the short one came.
    assert value("wye_passages_total", change="added") == 1 + value(
        "wye_passages_total", change="removed"
    )
    assert value("wye_passages_total", change="deleted") == 1
    assert value("wye_change_seconds_count", kind="write") == 4
    assert value("wye_change_seconds_count", kind="delete") == 2
    assert 0 < value("wye_change_seconds_sum", kind="write") < PATIENCE
    assert value("wye_changes_waiting") == 0
    for name in ("wye_commit_seconds", "wye_change_wait_seconds"):
        assert value(f"{name}_count") == 6
        assert 0 < value(f"{name}_sum") < PATIENCE


def test_what_waits_is_seen(
    client: TestClient, folder: Path, make_lines: Lines, wait_for: WaitFor
) -> None:
    assert [read(client)("wye_jobs", state=state) for state in ("queued", "running")] == [0, 0]
    with PassageStore.open(folder).writer():
        jobs = [
            client.post("/v1/documents", content=make_lines(20, 20 * n), headers=KIND).json()["id"]
            for n in range(2)
        ]
        sent = threading.Thread(target=client.put, args=("/v1/documents/x",), kwargs={"json": TEXT})
        sent.start()
        until = time.monotonic() + PATIENCE
        while True:
            value = read(client)
            jobs_now = [value("wye_jobs", state=state) for state in ("queued", "running")]
            if (jobs_now, value("wye_changes_waiting")) == ([1, 1], 1):
                break
            assert time.monotonic() < until, jobs_now
    sent.join(PATIENCE)
    for job in jobs:
        wait_for(client, job)
    value = read(client)
    assert [value("wye_jobs", state=state) for state in ("queued", "running")] == [0, 0]
    assert value("wye_changes_waiting") == 0
    assert value("wye_documents_total", taken="job") == 40
    assert value("wye_jobs_ended_total", state="done") == 2
    assert value("wye_passages_total", change="added") == 41
    assert value("wye_change_wait_seconds_count") == 1
    assert value("wye_commit_seconds_count") > 2


def test_a_change_that_fails_is_not_timed(client: TestClient) -> None:
    wanted = {"filter": {"type": "lt", "key": "y", "value": 1600}}
    assert client.post("/v1/documents/delete", json={**wanted, "dry_run": True}).is_success
    assert client.put("/v1/documents/x", json={"text": " "}).status_code == 422
    value = read(client)
    assert [value("wye_change_seconds_count", kind=kind) for kind in ("write", "delete")] == [0, 0]
    assert value("wye_documents_total", taken="direct") == 0


def test_what_whoever_writes_tells() -> None:
    registry = CollectorRegistry()
    metrics = DocumentMetrics(registry)
    metrics.begin("c")
    metrics.change_wait_seconds.labels("c").observe(0.2)
    metrics.commit_seconds.labels("c").observe(0.03)
    metrics.wrote("c", IngestReport(added=3, removed=1))
    metrics.jobs_ended.labels("c", State.FAILED).inc()
    metrics.unfinished("c", [Job(f"job-{n}", "c", 1, 1, 0.0) for n in (2, 3)])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"collection": "c", **labels})

    assert value("wye_change_wait_seconds_sum") == 0.2
    assert value("wye_commit_seconds_count") == 1
    assert (value("wye_passages_total", change="added"), value("wye_changes_waiting")) == (3, 0)
    assert value("wye_jobs_ended_total", state="failed") == 1
    assert (value("wye_jobs", state="queued"), value("wye_jobs", state="running")) == (2, 0)
    metrics.unfinished("c", [])
    assert value("wye_jobs", state="queued") == 0


def test_every_metric_says_what_it_is_and_stands_in_the_schema(client: TestClient) -> None:
    client.put("/v1/documents/x", json=TEXT)
    described = client.get("/openapi.json").json()["paths"]["/metrics"]["get"]["description"]
    families = [*text_string_to_metric_families(client.get("/metrics").text)]
    names = {family.name for family in families if not family.name.endswith("_created")}
    assert {"wye_jobs", "wye_commit_seconds", "wye_stage_seconds", "wye_queue_depth"} <= names
    for family in families:
        assert family.name.startswith("wye_")
        if family.name.endswith("_created"):
            continue
        assert family.documentation.endswith("."), family.name
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"| `{name}` | {family.type} | {family.documentation} |" in described
