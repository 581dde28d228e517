"""Jobs: what was accepted is written, once, whoever is killed or in the way."""

import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from tests.hashing import FakeAnalyser, HashAnalyser
from tests.live import PATIENCE, Live, until
from tests.service.conftest import BRIDGES
from tests.service.fakes import Serve
from tests.service.ingest.files import NDJSON, make_lines, send, wait_for
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.service.ingest.jobs import JobStore


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = FakeAnalyser.analyse_in_steps

    def analyse(self: FakeAnalyser, passages: Any) -> Any:  # noqa: ANN401
        yield
        time.sleep(0.05)
        return (yield from quick(self, passages))

    monkeypatch.setattr(FakeAnalyser, "analyse_in_steps", analyse)


def test_another_writer_is_waited_for_and_then_named(start: Serve, folder: Path) -> None:
    client = start(wait_seconds=0.2)
    with PassageStore.open(folder).writer():
        started = time.monotonic()
        reply = client.put("/v1/documents/x", json={"text": "A bridge."})
        assert reply.status_code == 409
        assert time.monotonic() - started > 0.2
        assert reply.headers["retry-after"] == "1"
        assert f"being written by process {os.getpid()}" in reply.json()["detail"]
        assert client.delete("/v1/documents/tower").status_code == 409
    assert client.put("/v1/documents/x", json={"text": "A bridge."}).status_code == 201


def test_a_job_waits_for_another_writer_and_says_for_whom(client: TestClient, folder: Path) -> None:
    with PassageStore.open(folder).writer():
        job = send(client, 20)
        until(lambda: bool(client.get(f"/v1/jobs/{job}").json()["waits_for"]))
        status = client.get(f"/v1/jobs/{job}").json()
        assert (status["state"], status["done"]) == ("running", 0)
        assert f"process {os.getpid()}" in status["waits_for"]
    ended = wait_for(client, job)
    assert (ended["state"], ended["added"], ended["waits_for"]) == ("done", 20, "")


@pytest.mark.usefixtures("slow")
def test_small_changes_have_their_turn_between_the_groups_of_a_job(client: TestClient) -> None:
    job = send(client, 80)
    until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "running")
    assert client.put("/v1/documents/x", json={"text": "A bridge."}).status_code == 201
    assert client.get(f"/v1/jobs/{job}").json()["state"] == "running"
    # What the job is about to write may not be changed behind its back.
    late = client.put("/v1/documents/d00079", json={"text": "Another bridge."})
    assert (late.status_code, int(late.headers["retry-after"]) >= 1) == (409, True)
    sentence = r"d00079', and has \d+ passages left\. .* Retry-After; .* DELETE /v1/jobs/" + job
    assert re.search(sentence, late.json()["detail"])
    assert client.delete("/v1/documents/d00079").status_code == 409
    assert wait_for(client, job)["added"] == 80
    assert client.delete("/v1/documents/d00079").json()["deleted"] == 1


@pytest.mark.usefixtures("slow")
def test_a_job_can_be_cancelled_and_keeps_what_it_committed(client: TestClient) -> None:
    job = send(client, 200)
    until(lambda: client.get(f"/v1/jobs/{job}").json()["done"] > 0)
    assert client.delete(f"/v1/jobs/{job}").status_code == 202
    ended = wait_for(client, job)
    assert ended["state"] == "cancelled"
    assert 0 < ended["done"] < 200
    assert client.get("/v1/documents").json()["total"] == 2 + ended["done"]


def test_a_job_that_waits_ends_as_soon_as_it_is_cancelled(client: TestClient, folder: Path) -> None:
    with PassageStore.open(folder).writer():
        first, second = (send(client, 20, n) for n in (0, 50))
        until(lambda: client.get(f"/v1/jobs/{first}").json()["waits_for"])
        assert client.get(f"/v1/jobs/{second}").json()["state"] == "queued"
        ended = client.delete(f"/v1/jobs/{second}").json()
        assert (ended["state"], ended["finished"] >= ended["created"]) == ("cancelled", True)
        assert client.get(f"/v1/jobs/{first}").json()["state"] == "running"
    assert wait_for(client, first)["added"] == 20
    assert client.get(f"/v1/jobs/{second}").json() == ended
    assert client.get("/v1/documents").json()["total"] == 22


def test_what_a_job_will_write_is_not_deleted_by_filter(client: TestClient, folder: Path) -> None:
    rows = "".join(
        f'{{"_id": "t{n}", "text": "Bridge {n}.", "metadata": {{"tag": {n}}}}}\n' for n in range(20)
    )
    one = {"filter": {"type": "eq", "key": "tag", "value": 19}}
    other = {"filter": {"type": "eq", "key": "tag", "value": 20}}
    with PassageStore.open(folder).writer():
        job = client.post("/v1/documents", content=rows, headers=NDJSON).json()["id"]
        refused = client.post("/v1/documents/delete", json=one)
        assert (refused.status_code, "'t19'" in refused.json()["detail"]) == (409, True)
    assert client.post("/v1/documents/delete", json=other).status_code == 200
    assert wait_for(client, job)["added"] == 20
    assert client.post("/v1/documents/delete", json=one).json()["ids"] == ["t19"]


def test_only_so_many_jobs_may_wait(start: Serve, folder: Path) -> None:
    client = start(direct_passages=1, jobs=1)
    with PassageStore.open(folder).writer():
        send(client, 5)
        more = client.post("/v1/documents", content=make_lines(5, 10), headers=NDJSON)
        assert (more.status_code, "retry-after" in more.headers) == (503, True)


def test_a_job_that_fails_says_why(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: FakeAnalyser, passages: Any) -> Any:  # noqa: ANN401
        raise RuntimeError("the parser is out of ink")

    with monkeypatch.context() as patched:
        patched.setattr(FakeAnalyser, "analyse_in_steps", broken)
        job = send(client, 20)
        ended = wait_for(client, job)
    assert (ended["state"], ended["error"]) == ("failed", "the parser is out of ink")
    counted = 'wye_jobs_ended_total{collection="default",state="failed"} 1.0'
    assert counted in client.get("/metrics").text
    again = send(client, 20)
    assert wait_for(client, again)["added"] == 20


def test_a_job_that_another_process_runs_is_left_to_it(client: TestClient, folder: Path) -> None:
    with JobStore(folder, "default").claim():
        job = send(client, 20)
        time.sleep(0.3)
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        assert "jobs" not in client.get("/ready").json()
    assert wait_for(client, job)["added"] == 20


SERVER = """
import time
import uvicorn
import wye.router.session
from tests.hashing import FakeAnalyser, HashAnalyser

class Slow(FakeAnalyser):
    def __init__(self, settings):
        super().__init__(settings, delay=0.02)

wye.router.session.Analyser = Slow
from dataclasses import replace
from wye.service.app import build
from wye.service.logs import configure
from wye.service.settings import load_settings

configure("json")
settings = load_settings()
small = replace(settings.documents, group_passages=8)
uvicorn.run(build(settings.model_copy(update={"documents": small})), port=0, log_config=None)
"""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Live, httpx.Client]]:
    settings = {"WYE_SERVE__INDEXES": str(folder), "WYE_DOCUMENTS__DIRECT_PASSAGES": "4"}
    server = Live([], settings, program=SERVER)
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        try:
            yield server, client
        finally:
            server.kill()


def test_a_job_outlives_kill_9(folder: Path) -> None:
    with serving(folder) as (_, client):
        job = send(client, 120)
        direct = client.put("/v1/documents/direct", json={"text": "A bridge."})
        assert direct.status_code == 201
        until(lambda: client.get(f"/v1/jobs/{job}").json()["done"] >= 16)
    stored = PassageStore.open(folder).count()
    assert 3 + 16 <= stored < 123
    with serving(folder) as (server, client):
        until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "done")
        ended = client.get(f"/v1/jobs/{job}").json()
        # The group at which it was killed may have been committed without being counted.
        assert ended["added"] + ended["unchanged"] == 120
        assert ended["unchanged"] <= 8
        assert client.get("/v1/documents").json()["total"] == 123
        assert client.get("/v1/documents/direct").status_code == 200
        assert server.stop() in (0, -signal.SIGTERM)


def test_a_server_that_stops_leaves_its_job_to_the_next(start: Serve, folder: Path) -> None:
    with serving(folder) as (server, client):
        job = send(client, 120)
        until(lambda: client.get(f"/v1/jobs/{job}").json()["done"] > 0)
        started = time.monotonic()
        server.stop()
    assert time.monotonic() - started < 10
    stored = JobStore(folder, "default").job(job)
    assert stored is not None
    assert (stored.state, stored.done < 120) == ("running", True)
    later = start()
    until(lambda: later.get(f"/v1/jobs/{job}").json()["state"] == "done")
    assert later.get("/v1/documents").json()["total"] == 122


def test_an_upload_that_a_killed_process_left_is_deleted(start: Serve, folder: Path) -> None:
    store = JobStore(folder, "default")
    store.folder.mkdir()
    left = store.file("job-00000001-0123abcd")
    left.write_text("{}")
    os.utime(left, (0, 0))
    start()
    until(lambda: not left.exists())


def test_a_job_of_an_index_that_was_made_again_waits_for_a_server_with_its_models(
    start: Serve, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = start(direct_passages=8)
    other = HashAnalyser(name="other")
    new = PassageStore.create(tmp_path / "new", other.dimension, other.fingerprint)
    ingest(new, BRIDGES, other)
    rmtree(folder / "passages.lance")
    (tmp_path / "new" / "passages.lance").rename(folder / "passages.lance")
    address = f"/v1/jobs/{send(client, 20)}"
    until(lambda: bool(client.get(address).json()["waits_for"]))
    status = client.get(address).json()
    assert (status["state"], status["done"]) == ("queued", 0)
    assert "other" in status["waits_for"]
    late = send(client, 20, 50)
    assert client.delete(f"/v1/jobs/{late}").status_code == 202
    assert wait_for(client, late)["state"] == "cancelled"
    client.close()
    monkeypatch.setattr(FakeAnalyser, "fingerprint", other.fingerprint)  # of the next server
    later = start()
    until(lambda: later.get(address).json()["state"] == "done")
    assert later.get("/v1/documents").json()["total"] == 22


def test_a_read_only_disk_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("wye.service.ingest.writer.ingest", refuse)
    monkeypatch.setattr("wye.service.ingest.jobs.JobStore.submit", refuse)
    for content in (make_lines(1), make_lines(50)):
        reply = client.post("/v1/documents", content=content, headers=NDJSON)
        assert reply.status_code == 503
        assert "cannot be written here: Read-only file system" in reply.json()["detail"]


def goes_on(client: TestClient) -> None:
    """Whether everything that asks for jobs works."""
    assert client.put("/v1/documents/x", json={"text": "A bridge."}).is_success
    assert client.delete("/v1/documents/x").json()["deleted"] == 1
    job = send(client, 20)
    assert wait_for(client, job)["state"] == "done"
    for address in ("/v1/jobs", "/metrics", "/ready", "/health"):
        assert client.get(address).status_code == 200


def test_a_damaged_job_stops_nothing(start: Serve, folder: Path) -> None:
    store = JobStore(folder, "default")
    damaged = store.submit(BRIDGES).id
    store.file(damaged, "json").write_bytes(b"no state")
    client = start(direct_passages=8, group_passages=8)
    goes_on(client)
    assert client.get(f"/v1/jobs/{damaged}").json()["state"] == "failed"
    assert damaged in client.get("/ready").json()["jobs"]["default"]


def test_jobs_that_cannot_be_read_or_written_are_said(client: TestClient, folder: Path) -> None:
    """Something is in the way that is no file, and questions, metrics and health go on."""
    (folder / "jobs").write_text("in the way")
    for reply in (
        client.get("/v1/jobs"),
        client.get("/v1/jobs/job-00000001-0123abcd"),
        client.delete("/v1/jobs/job-00000001-0123abcd"),
        client.put("/v1/documents/x", json={"text": "A bridge."}),
        client.post("/v1/documents", content=make_lines(20), headers=NDJSON),
    ):
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "30")
        assert str(folder) not in reply.text
    assert client.get("/metrics").status_code == 200
    until(lambda: "cannot run" in client.get("/ready").text)
    assert str(folder) not in client.get("/ready").text
    (folder / "jobs").unlink()
    goes_on(client)
    until(lambda: "jobs" not in client.get("/ready").json())


def test_jobs_that_may_only_be_read(start: Serve, folder: Path) -> None:
    client = start(direct_passages=8, group_passages=8)
    goes_on(client)
    jobs = client.get("/v1/jobs").json()["data"]
    client.close()
    with mounted_read_only(folder / "jobs"):
        other = start(direct_passages=8, group_passages=8)
        assert other.get("/v1/jobs").json()["data"] == jobs
        assert other.get("/metrics").status_code == 200
        refused = other.post("/v1/documents", content=make_lines(20), headers=NDJSON)
        assert (refused.status_code, "Read-only" in refused.text) == (503, True)
        assert other.put("/v1/documents/x", json={"text": "A bridge."}).is_success
    goes_on(other)


@contextmanager
def mounted_read_only(folder: Path) -> Iterator[None]:
    for command in (["--bind", f"{folder}", f"{folder}"], ["-o", "remount,bind,ro", f"{folder}"]):
        if subprocess.run(["mount", *command], capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", f"{folder}"], check=True)
