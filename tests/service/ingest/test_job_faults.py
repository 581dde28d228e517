"""What fails beside a job costs it time and nothing else: it is put back, and ends as it would."""

import errno
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import wye.service.ingest.job_runner
import wye.service.ingest.writer
from tests.hashing import HashAnalyser
from tests.live import inside, until
from tests.service.fakes import Serve
from tests.service.ingest.files import send, wait_for
from wye.backends.errors import IndexDamagedError
from wye.backends.store import index as index_module
from wye.backends.store import versions
from wye.backends.store.index import PassageStore, Writer
from wye.backends.store.ingest import ingest
from wye.router.session import Session
from wye.router.snapshot import Snapshot
from wye.service.app import build
from wye.service.ingest.job_runner import JobRunner
from wye.service.ingest.jobs import Job, JobStore, State
from wye.service.ingest.writer import CollectionWriter
from wye.service.settings import DocumentSettings, ServeSettings, ServiceSettings

STEPS: tuple[tuple[Any, str], ...] = (
    (JobStore, "claim"),
    (JobStore, "due"),
    (JobStore, "passages"),
    (JobStore, "save"),
    (CollectionWriter, "analyse"),
    (CollectionWriter, "commit"),
    (PassageStore, "open"),
    (Snapshot, "passages"),
    (HashAnalyser, "analyse_in_steps"),
    (wye.service.ingest.writer, "ingest"),
    (PassageStore, "writer"),
    (index_module, "write_fragments"),
    (Writer, "commit"),
    (lance.LanceDataset, "commit"),
    (versions, "flush"),
)
"""What a job calls, from the outside to the inside."""
KINDS: dict[str, Callable[[], Exception]] = {
    "disk full": lambda: OSError(errno.ENOSPC, "No space left on device", "/srv/index/data"),
    "EIO": lambda: OSError(errno.EIO, "Input/output error"),
    "Lance": lambda: OSError("LanceError(IO): Generic LocalFileSystem error: /srv/index/a.lance"),
    "Arrow": lambda: pa.ArrowInvalid("cannot be written"),
    "memory": MemoryError,
    "damage": lambda: IndexDamagedError("The index /srv/index is damaged: a.lance is missing."),
}


class Fault:
    """Fails some calls of one function, once it is set."""

    def __init__(self, patch: pytest.MonkeyPatch, where: Any, name: str) -> None:  # noqa: ANN401
        self._failing = range(0)
        self.calls = self.failures = 0
        self._make: Callable[[], Exception] = OSError
        raw = vars(where)[name]
        before: Callable[..., Any] = getattr(raw, "__func__", raw)

        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            self.calls += 1
            if self.calls in self._failing:
                self.failures += 1
                raise self._make()
            return before(*arguments, **options)

        patch.setattr(where, name, type(raw)(call) if before is not raw else call)

    def set(self, make: Callable[[], Exception], first: int, times: int) -> None:
        """Have calls fail from now on, the first of them number 1."""
        self.calls, self._make = 0, make
        self._failing = range(first, first + times)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that looks and tries again at once."""
    for name, seconds in (("_POLL", 0.01), ("_FIRST_PAUSE", 0.005), ("_PAUSE", 0.0)):
        monkeypatch.setattr(wye.service.ingest.job_runner, name, seconds)
    monkeypatch.setattr(wye.service.ingest.job_runner, "_LONGEST_PAUSE", 0.02)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the disk full for documents with a word, until called with ""."""
    failing = ""

    def refuse(index: Any, passages: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        if failing and any(failing in passage.text for passage in passages):
            raise KINDS["disk full"]()
        return ingest(index, passages, *arguments, **options)

    def fail(word: str) -> None:
        nonlocal failing
        failing = word

    monkeypatch.setattr(wye.service.ingest.writer, "ingest", refuse)
    return fail


def reason(client: TestClient, job: str) -> str:
    return str(client.get(f"/v1/jobs/{job}").json()["waits_for"])


def has_ended(folder: Path, job: str) -> bool:
    return state_of(folder, job) in ("done", "failed")


def state_of(folder: Path, job: str) -> str:
    """As the disk has it, without a call that may fail."""
    return str(json.loads((folder / "jobs" / f"{job}.json").read_bytes())["state"])


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Open it to have jobs run."""
    gate = threading.Event()
    run_jobs = JobRunner._run_jobs

    async def wait(self: JobRunner, writer: CollectionWriter) -> bool:
        return await run_jobs(self, writer) if gate.is_set() else True

    monkeypatch.setattr(JobRunner, "_run_jobs", wait)
    return gate


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("step", STEPS, ids=[name for _, name in STEPS])
def test_whatever_fails_once_or_for_a_while_a_job_is_done(
    start: Serve,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    gate: threading.Event,
    step: tuple[Any, str],
) -> None:
    fault = Fault(monkeypatch, *step)
    client = start(direct_passages=4, group_passages=8)
    calls, total = 1, 2
    for turn, make in enumerate((OSError, *KINDS.values())):
        gate.clear()
        job = send(client, 12, total)
        # First nothing fails, to count the calls; then one, or seven from there on.
        first = 1 + (turn - 1) * calls // len(KINDS)
        fault.set(make, first, times=(1, 7)[turn % 2] if turn else 0)
        gate.set()
        until(partial(has_ended, folder, job))
        calls = calls if turn else fault.calls
        fault.set(make, 1, times=0)
        ended = client.get(f"/v1/jobs/{job}").json()
        assert (ended["state"], ended["error"], ended["waits_for"]) == ("done", "", "")
        total += 12
        assert client.get("/v1/documents").json()["total"] == total
    assert fault.failures >= len(KINDS)
    until(lambda: client.get("/ready").json().get("jobs") is None)


def test_a_job_that_waits_says_why_without_a_path(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(f"LanceError(IO): {folder}/passages.lance/data/a.lance: no space")

    monkeypatch.setattr(wye.service.ingest.writer, "ingest", refuse)
    job = send(client, 20)
    until(partial(reason, client, job))
    status = client.get(f"/v1/jobs/{job}").json()
    assert (status["state"], status["error"], status["finished"]) == ("queued", "", None)
    assert status["waits_for"] == (
        "another try, since the last one failed: "
        "LanceError(IO): default/passages.lance/data/a.lance: no space"
    )
    refused = client.put("/v1/documents/d00003", json={"text": "Another bridge."})
    assert (refused.status_code, job in refused.json()["detail"]) == (409, True)
    assert client.delete("/v1/documents/d00003").status_code == 409


def test_too_little_memory_for_a_small_change_is_said(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        Fault(patched, HashAnalyser, "analyse_in_steps").set(MemoryError, 1, times=1)
        refused = client.put("/v1/documents/x", json={"text": "A bridge."})
        assert (refused.status_code, "not enough memory" in refused.text) == (503, True)
        assert client.get("/v1/documents").json()["total"] == 2
        assert client.put("/v1/documents/x", json={"text": "A bridge."}).status_code == 201


def test_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(wye.service.ingest.job_runner, "monotonic", lambda: now)
    pauses = wye.service.ingest.job_runner._Pauses()
    lengths = []
    for _ in range(8):
        pauses.put_back("EIO")
        lengths.append(pauses.length)
        now = pauses.end
    assert lengths == [1, 2, 4, 8, 16, 32, 60, 60]
    assert now - pauses.start == sum(lengths)


@pytest.mark.usefixtures("hasty")
def test_other_jobs_go_on_but_none_about_the_same_documents(
    client: TestClient, full: Callable[[str], None]
) -> None:
    full("Town3.")
    first, same, after_that, other = (
        send(client, count, start) for count, start in ((12, 0), (12, 10), (12, 21), (12, 50))
    )
    assert wait_for(client, other)["state"] == "done"
    states = [client.get(f"/v1/jobs/{job}").json()["state"] for job in (same, after_that)]
    assert states == ["queued", "queued"]
    assert client.put("/v1/documents/x", json={"text": "A bridge."}).status_code == 201
    full("")
    ended = [wait_for(client, job) for job in (first, same, after_that)]
    assert [job["state"] for job in ended] == ["done"] * 3
    versions = [job["index_version"] for job in ended]
    assert versions == sorted(versions)
    assert client.get("/v1/documents").json()["total"] == 2 + 33 + 12 + 1


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_job_that_pauses_can_be_cancelled(
    client: TestClient,
    full: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_saved: bool,
) -> None:
    """Also if the disk was too full to store that it was put back."""
    save = JobStore.save

    def refuse(self: JobStore, job: Job) -> None:
        if job.state == State.QUEUED and job.waits_for:
            raise KINDS["disk full"]()
        save(self, job)

    full("Town3.")
    with monkeypatch.context() as patched:
        if not is_saved:
            patched.setattr(JobStore, "save", refuse)
        job = send(client, 12)
        until(partial(reason, client, job))
        (status,) = client.get("/v1/jobs").json()["data"]
        assert status["state"] == "queued"
        assert "No space left on device" in status["waits_for"]
    assert client.delete(f"/v1/jobs/{job}").status_code == 202
    assert wait_for(client, job)["state"] == "cancelled"
    assert client.put("/v1/documents/d00003", json={"text": "Another."}).status_code == 201


def test_a_server_ends_and_the_next_begins_while_a_job_pauses(
    folder: Path, full: Callable[[str], None]
) -> None:
    serve = ServeSettings(refresh_seconds=0.05)
    settings = ServiceSettings(serve=serve, documents=DocumentSettings(direct_passages=4))
    open_ = partial(Session.open, settings, folder)
    full("Town3.")
    job = ""
    for _ in range(8):  # more often than a job may end its process
        with inside(build(settings, {"default": open_})) as client:
            job = job or send(client, 12)
            until(partial(reason, client, job))
        assert state_of(folder, job) in ("queued", "running")  # the next goes on
    full("")
    with inside(build(settings, {"default": open_})) as client:
        assert wait_for(client, job)["added"] == 12


@pytest.mark.usefixtures("hasty")
def test_after_an_hour_ready_says_so(
    client: TestClient, full: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    full("Town3.")
    job = send(client, 12)
    until(partial(reason, client, job))
    assert "jobs" not in client.get("/ready").json()
    since = time.monotonic()
    monkeypatch.setattr(
        wye.service.ingest.job_runner, "monotonic", lambda: 3_700 + 2 * time.monotonic() - since
    )
    sentence = f"Job {job} has been tried for 1 h: No space left on device"
    until(lambda: client.get("/ready").json().get("jobs") == {"default": sentence})
    assert client.get("/ready").status_code == 200
    full("")
    assert wait_for(client, job)["state"] == "done"
    assert "jobs" not in client.get("/ready").json()
