"""What Prometheus reads, of documents and jobs parsed as Prometheus parses it."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.live import PATIENCE, until
from tests.service.fakes import Serve
from tests.service.ingest.files import send, wait_for
from wye.backends.store.index import PassageStore

TEXT = {"text": "A bridge."}


@pytest.fixture
def client(start: Serve) -> TestClient:
    return start(direct_passages=8, group_passages=8)


def read(client: TestClient) -> Callable[..., float]:
    text = client.get("/metrics").text
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples.get((name, frozenset({"collection": "default", **labels}.items())), 0.0)

    return value


def waiting(value: Callable[..., float]) -> list[float]:
    return [value("wye_jobs", state=state) for state in ("queued", "running")]


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
    removed = value("wye_passages_total", change="removed")
    assert value("wye_passages_total", change="added") == 1 + removed
    assert value("wye_passages_total", change="deleted") == 1
    assert value("wye_change_seconds_count", kind="write") == 4
    assert value("wye_change_seconds_count", kind="delete") == 2
    assert 0 < value("wye_change_seconds_sum", kind="write") < PATIENCE


def test_what_waits_is_seen(client: TestClient, folder: Path) -> None:
    assert waiting(read(client)) == [0, 0]
    with PassageStore.open(folder).writer():
        jobs = [send(client, 20, start) for start in (0, 20)]
        sent = threading.Thread(target=client.put, args=("/v1/documents/x",), kwargs={"json": TEXT})
        sent.start()
        until(lambda: waiting(read(client)) == [1, 1])
    sent.join(PATIENCE)
    for job in jobs:
        wait_for(client, job)
    until(lambda: read(client)("wye_jobs_ended_total", state="done") == 2)
    value = read(client)
    assert waiting(value) == [0, 0]
    assert value("wye_documents_total", taken="job") == 40
    assert value("wye_passages_total", change="added") == 41


def test_a_change_that_fails_is_not_timed(client: TestClient) -> None:
    removal = {"filter": {"type": "lt", "key": "y", "value": 1600}}
    assert client.post("/v1/documents/delete", json={**removal, "dry_run": True}).is_success
    assert client.put("/v1/documents/x", json={"text": " "}).status_code == 422
    value = read(client)
    assert [value("wye_change_seconds_count", kind=kind) for kind in ("write", "delete")] == [0, 0]
    assert value("wye_documents_total", taken="direct") == 0


def test_every_metric_says_what_it_is(client: TestClient) -> None:
    client.put("/v1/documents/x", json=TEXT)
    families = [*text_string_to_metric_families(client.get("/metrics").text)]
    names = {family.name for family in families if not family.name.endswith("_created")}
    assert {"wye_jobs", "wye_change_seconds", "wye_stage_seconds", "wye_queue_depth"} <= names
    for family in families:
        assert family.name.startswith("wye_")
        if family.name.endswith("_created"):
            continue
        assert family.documentation.endswith("."), family.name
