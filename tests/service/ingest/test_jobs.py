import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import Timeout

from wye.backends.filters import parse_filter
from wye.backends.types import Passage
from wye.service.api.jobs import JobList, job_value
from wye.service.ingest.jobs import UNREADABLE, JobStore, State

PASSAGES = [
    Passage(f"d{n}#{c:04d}", "T", f"{n}.{c}", {"y": n}, f"d{n}", c)
    for n in range(3)
    for c in range(2)
]


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path, "c")


def files(store: JobStore) -> list[str]:
    """The files but for states of jobs, by the ids of their jobs."""
    names = [path for path in store.folder.iterdir() if path.suffix not in (".json", ".lock")]
    return sorted(path.stem for path in names)


def test_nothing_is_made_before_there_is_a_job(store: JobStore) -> None:
    assert (store.jobs(), store.unfinished(), store.job("job-1")) == ([], [], None)
    assert store.writing(["d1"]) is None
    assert not store.folder.exists()


def test_a_job_holds_what_was_sent(store: JobStore) -> None:
    job = store.submit(iter(PASSAGES))
    assert (job.documents, job.passages, job.state) == (3, 6, State.QUEUED)
    assert list(store.passages(job)) == PASSAGES
    assert list(store.passages(replace(job, done=4))) == PASSAGES[4:]
    assert JobStore(store.folder.parent, "c").jobs() == [job]
    later = store.submit(PASSAGES)
    assert [each.id for each in store.unfinished()] == [job.id, later.id]


def test_what_cannot_be_read_leaves_nothing_behind(store: JobStore) -> None:
    def broken() -> Iterator[Passage]:
        yield PASSAGES[0]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        store.submit(broken())
    assert (store.jobs(), files(store)) == ([], [])


def test_what_ended_long_ago_and_what_was_abandoned_is_swept_away(store: JobStore) -> None:
    old, new, waiting = (store.submit(PASSAGES) for _ in range(3))
    store.save(replace(old, state=State.DONE, finished=time.time() - 100))
    store.save(replace(new, state=State.FAILED, finished=time.time()))
    for name in ("job-00000009-0123abcd.jsonl", "upload-1", ".upload-2.1.ab"):  # of killed ones
        (store.folder / name).touch()
        os.utime(store.folder / name, (0, 0))
    (store.folder / ".upload-3.1.ab").touch()  # on its way
    store.sweep(50)
    assert [job.id for job in store.jobs()] == [new.id, waiting.id]
    assert files(store) == [".upload-3.1", waiting.id]
    with pytest.raises(OSError, match="was deleted"):
        store.save(old)


def test_the_passages_of_a_job_that_has_ended_go(store: JobStore) -> None:
    ended, cancelled, waiting = (store.submit(PASSAGES) for _ in range(3))
    store.save(replace(ended, state=State.DONE, finished=1.0))
    store.cancel(cancelled)
    (job, _) = store.due()
    assert (job.id, job.state, store.unfinished()) == (cancelled.id, State.CANCELLED, [waiting])
    store.save(job)  # as the runner does
    assert store.job(cancelled.id) == job
    assert files(store) == [waiting.id]


def test_a_job_is_asked_to_stop_in_whichever_process(store: JobStore) -> None:
    job = store.submit(PASSAGES)
    other = JobStore(store.folder.parent, "c")
    assert not other.is_cancelled(job)
    store.cancel(job)
    assert other.is_cancelled(job)
    store.save(replace(job, done=2))
    assert other.is_cancelled(job)


SUBMIT = """
import sys
from pathlib import Path
from wye.backends.types import Passage
from wye.service.ingest.jobs import JobStore
store = JobStore(Path(sys.argv[1]), "c")
for n in range(10_000):
    passages = (Passage(f"{n}-{p}", "", "A bridge.") for p in range(1 + n % 5 * 600))
    print(store.submit(passages).id, flush=True)
"""


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5])
def test_what_was_accepted_outlives_kill_9(store: JobStore, seconds: float) -> None:
    """Whatever is at hand when it comes: a file of passages, or a commit."""
    command = [sys.executable, "-c", SUBMIT, str(store.folder.parent)]
    accepted = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    ) as process:
        assert process.stdout is not None
        accepted.append(process.stdout.readline().strip())
        time.sleep(seconds)
        process.kill()
        accepted += process.stdout.read().split()
    stored = store.unfinished()
    # The last may have been accepted without anybody being told.
    assert [job.id for job in stored][: len(accepted)] == accepted
    assert len(stored) <= len(accepted) + 1
    for number, job in enumerate(stored):
        assert job.passages == 1 + number % 5 * 600
        ids = [f"{number}-{p}" for p in range(job.passages)]
        assert [each.id for each in store.passages(job)] == ids


def test_one_process_claims_the_jobs(store: JobStore) -> None:
    store.submit(PASSAGES)
    with store.claim(), pytest.raises(Timeout):
        JobStore(store.folder.parent, "c").claim().acquire()
    with JobStore(store.folder.parent, "c").claim() as lock:
        assert lock.is_locked


DAMAGE: dict[str, bytes] = {
    "garbage": b"no state" * 999,
    "empty": b"",
    "another's": b'{"title": "keeper of the bridge"}',
    "odd": b'{"documents": 3, "passages": -1, "created": 1e999, "state": "lost"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_state_that_cannot_be_read_is_a_job_that_failed(store: JobStore, kind: str) -> None:
    first, odd, last = (store.submit(PASSAGES) for _ in range(3))
    store.file(odd.id, "json").write_bytes(DAMAGE[kind])
    jobs = store.jobs()
    assert (jobs[0], jobs[2], len(jobs)) == (first, last, 3)
    assert JobList(data=[job_value(job) for job in jobs]).model_dump_json()
    assert (jobs[1].state, jobs[1].error) == (State.FAILED, UNREADABLE)
    assert odd.id in store.fault
    assert store.unfinished() == store.due() == [first, last]
    for job in store.unfinished():
        store.save(replace(job, state=State.DONE, finished=1.0))
    store.sweep(0)
    assert (store.jobs(), files(store), store.fault) == ([], [], "")


def test_a_process_killed_while_a_job_ended_left_an_ended_job(store: JobStore) -> None:
    job = store.submit(PASSAGES)
    passages = store.file(job.id).read_bytes()
    store.save(replace(job, state=State.DONE, done=6, finished=1.0))
    store.file(job.id).write_bytes(passages)
    assert [each.state for each in store.jobs()] == [State.DONE]
    assert store.due() == []


@pytest.mark.parametrize(
    "passage", ["{", "[]", "3", '{"id": 3}', '{"id": "a", "title": "", "text": "", "metadata": 1}']
)
def test_a_passage_that_cannot_be_read_is_a_fault_of_its_job(store: JobStore, passage: str) -> None:
    job = store.submit(PASSAGES)
    lines = store.file(job.id).read_text().splitlines()
    store.file(job.id).write_text("\n".join([lines[0], passage, *lines[2:]]))
    with pytest.raises(ValueError, match=r"validation error|Invalid"):
        list(store.passages(job))
    assert store.writing([], parse_filter({"type": "eq", "key": "y", "value": 9})) is None


def test_jobs_are_done_in_the_order_in_which_they_were_accepted(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    accepted = []
    for clock in (now, now - 60, now + 3_600, now - 7_200):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        accepted.append(store.submit(PASSAGES).id)

    def slow() -> Iterator[Passage]:
        yield PASSAGES[0]
        accepted.append(store.submit(PASSAGES).id)
        yield PASSAGES[1]

    accepted.append(store.submit(slow()).id)
    assert [job.id for job in store.unfinished()] == accepted
    assert [job.id for job in store.jobs()] == accepted
    first = store.unfinished()[0]
    store.save(replace(first, state=State.DONE, done=6, finished=now))
    assert [job.id for job in store.jobs()] == accepted


def test_what_was_accepted_is_synced_to_the_disk(tmp_path: Path) -> None:
    """As the kernel sees it, for a power cut: everything that was written was synced after it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    script = SUBMIT.replace("range(10_000)", "range(2)").replace("flush=True)", "flush=True)")
    trace = tmp_path / "trace"
    calls = "trace=openat,pwrite64,write,fsync,fdatasync,rename,ftruncate"
    command = [strace, "-f", "-y", "-e", calls, "-o", str(trace)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command += [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("strace may not trace here")
    dirty: set[str] = set()
    acknowledged = 0
    for line in trace.read_text().splitlines():
        call = re.match(r"\d+ +(\w+)\((?:\d+<([^>]*)>)?", line)
        if call is None:
            continue
        kind, path = call[1], call[2] or ""
        if kind in ("pwrite64", "ftruncate") or ("/jobs/" in path and kind == "write"):
            dirty.add(path)
        elif kind in ("fsync", "fdatasync"):
            dirty.discard(path)
        elif kind == "rename":
            dirty.add(f"{tmp_path}/jobs")
        elif kind == "write" and "job-" in line:
            acknowledged += 1
            assert not dirty
    assert acknowledged == 2
