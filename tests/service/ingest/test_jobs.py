"""Jobs on the disk."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import Timeout
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wye.backends.filters import parse_filter
from wye.backends.types import Passage
from wye.service.api.jobs import JobList, job_value
from wye.service.ingest.jobs import COLUMNS, Job, JobStore, State, parse_job

PASSAGES = [
    Passage(f"d{n}#{c:04d}", "T", f"{n}.{c}", {"y": n}, f"d{n}", c)
    for n in range(3)
    for c in range(2)
]


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path, "c")


def files(store: JobStore) -> list[str]:
    """The files of passages, finished or not, by the ids of their jobs."""
    return sorted(path.stem for path in store.folder.glob("*job-*"))


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


def test_it_knows_which_documents_are_on_their_way(store: JobStore) -> None:
    job = store.submit(PASSAGES)
    assert store.writing(["x", "d1"]) == (job, "d1")
    assert store.writing(["x"]) is None
    store.save(replace(job, state=State.DONE, finished=time.time()))
    assert store.writing(["d1"]) is None


def test_what_ended_long_ago_and_what_was_abandoned_is_swept_away(store: JobStore) -> None:
    old, new, waiting = (store.submit(PASSAGES) for _ in range(3))
    store.save(replace(old, state=State.DONE, finished=time.time() - 100))
    store.save(replace(new, state=State.FAILED, finished=time.time()))
    for name in ("job-1.jsonl", ".job-2.jsonl.1.ab"):  # of killed processes
        (store.folder / name).touch()
        os.utime(store.folder / name, (0, 0))
    (store.folder / ".job-3.jsonl.1.ab").touch()  # on its way
    store.sweep(50)
    assert [job.id for job in store.jobs()] == [new.id, waiting.id]
    assert files(store) == [".job-3.jsonl.1", waiting.id]
    with pytest.raises(OSError, match="was deleted"):
        store.save(old)


def test_the_passages_of_a_job_that_has_ended_go(store: JobStore) -> None:
    ended, cancelled, waiting = (store.submit(PASSAGES) for _ in range(3))
    store.save(replace(ended, state=State.DONE, finished=1.0))
    store.cancel(cancelled)
    assert files(store) == [waiting.id]


def test_a_job_is_asked_to_stop_in_whichever_process(store: JobStore) -> None:
    job = store.submit(PASSAGES)
    other = JobStore(store.folder.parent, "c")
    assert not other.is_cancelled(job)
    store.cancel(job)
    assert other.is_cancelled(job)
    store.save(replace(job, done=2))
    assert other.is_cancelled(job)


def test_a_disk_that_refuses_is_an_os_error(store: JobStore) -> None:
    store.submit(PASSAGES)
    (store.folder / "jobs.sqlite3").unlink()
    (store.folder / "jobs.sqlite3").mkdir()
    with pytest.raises(OSError, match=r"jobs\.sqlite3: unable to open database file"):
        store.submit(PASSAGES)


def test_an_index_that_was_deleted_takes_its_jobs_along(store: JobStore) -> None:
    store.submit(PASSAGES)
    shutil.rmtree(store.folder)
    assert store.jobs() == []
    assert [job.id for job in store.jobs()] == []
    job = store.submit(PASSAGES)
    assert JobStore(store.folder.parent, "c").jobs() == [job]


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
        assert [each.id for each in store.passages(job)] == [
            f"{number}-{p}" for p in range(job.passages)
        ]


def test_one_process_claims_the_jobs(store: JobStore) -> None:
    store.submit(PASSAGES)
    with store.claim(), pytest.raises(Timeout):
        JobStore(store.folder.parent, "c").claim().acquire()
    with JobStore(store.folder.parent, "c").claim() as lock:
        assert lock.is_locked


def one_of_each(store: JobStore) -> list[Job]:
    """Jobs that ended, run, and were cancelled."""
    ended, running, waiting = (store.submit(PASSAGES) for _ in range(3))
    store.save(replace(ended, state=State.DONE, done=6, finished=time.time()))
    store.save(replace(running, state=State.RUNNING, done=2, started=1.0))
    store.cancel(waiting)
    return store.jobs()


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def somebody_elses(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE jobs (title, salary)")
        database.execute("INSERT INTO jobs VALUES ('keeper of the bridge', 3)")
        database.commit()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"no database" * 999),
    "empty": lambda path: path.write_bytes(b""),
    "somebody else's": somebody_elses,
    "truncated": truncate,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_database_is_set_aside_and_another_begun(
    store: JobStore, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    other = JobStore(store.folder.parent, "c")
    ended, running, cancelled = one_of_each(store)
    assert other.jobs() == [ended, running, cancelled]
    DAMAGE[kind](store.folder / "jobs.sqlite3")
    with pytest.raises(OSError, match=r"jobs\.sqlite3: "):  # once
        store.submit(PASSAGES[:2])
    (again,) = store.jobs()  # what has not ended begins again
    assert (again.id, again.state, again.done) == (running.id, State.QUEUED, 0)
    assert (again.documents, again.passages) == (running.documents, running.passages)
    assert list(store.passages(again)) == PASSAGES
    assert store.writing(["d1"]) == (again, "d1")
    job = store.submit(PASSAGES)
    assert store.jobs() == other.jobs() == [again, job]
    (folder,) = store.folder.glob("damaged-*")
    assert (folder / "jobs.sqlite3").exists()
    for each in (store, other):
        assert folder.name in each.fault
    assert [record.message for record in caplog.records] == ["jobs set aside"]
    shutil.rmtree(folder)
    assert store.fault == ""


def test_a_file_that_cannot_be_read_is_a_job_that_failed(store: JobStore) -> None:
    whole, damaged = (store.submit(PASSAGES) for _ in range(2))
    store.file(damaged.id).write_bytes(b"\xff" * 99)
    (store.folder / "jobs.sqlite3").write_bytes(b"no database" * 999)
    with pytest.raises(OSError, match="not a database"):
        store.jobs()
    first, second = store.jobs()
    assert (first.id, first.state) == (whole.id, State.QUEUED)
    assert (second.id, second.state) == (damaged.id, State.FAILED)
    assert "Send its documents again" in second.error


ODD = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=9) | st.binary()


@given(st.dictionaries(st.sampled_from(COLUMNS), ODD, min_size=1))
@example({"state": "lost"})
@example({"state": "queued", "passages": None})
@example({"id": None})
@example({"id": b""})
@example({"created": float("inf")})
@settings(deadline=None, max_examples=25)
def test_a_row_that_cannot_be_read_is_a_job_that_failed(values: dict[str, object]) -> None:
    with TemporaryDirectory() as folder:
        store = JobStore(Path(folder), "c")
        first, odd, last = (store.submit(PASSAGES) for _ in range(3))
        with closing(sqlite3.connect(store.folder / "jobs.sqlite3")) as database:
            sets = ", ".join(f"{name} = ?" for name in values)
            database.execute(f"UPDATE jobs SET {sets} WHERE id = ?", [*values.values(), odd.id])
            database.commit()
        jobs = store.jobs()
        assert (jobs[0], jobs[2], len(jobs)) == (first, last, 3)
        assert JobList(data=[job_value(job) for job in jobs]).model_dump_json()
        assert jobs[1].state == State.FAILED or parse_job([getattr(jobs[1], n) for n in COLUMNS])
        assert store.jobs() == jobs  # also when it ended
        assert {first, last} <= {*store.unfinished()}
        for job in store.unfinished():
            store.save(replace(job, state=State.DONE, finished=1.0))
        assert store.unfinished() == []
        store.sweep(0)
        store.submit(PASSAGES)


@pytest.mark.parametrize(
    "passage", ["{", "[]", "3", '{"id": 3}', '{"id": "a", "title": "", "text": "", "metadata": 1}']
)
def test_a_passage_that_cannot_be_read_is_the_fault_of_its_job(
    store: JobStore, passage: str
) -> None:
    job = store.submit(PASSAGES)
    lines = store.file(job.id).read_text().splitlines()
    store.file(job.id).write_text("\n".join([lines[0], passage, *lines[2:]]))
    with pytest.raises(ValueError, match=r"validation error|Invalid"):
        list(store.passages(job))
    assert store.matching(parse_filter({"type": "eq", "key": "y", "value": 9})) is None


def test_jobs_are_done_in_the_order_in_which_they_were_accepted(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    accepted = []
    for clock in (now, now - 60, now + 3_600, now - 7_200):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        accepted.append(store.submit(PASSAGES).id)

    def slow() -> Iterator[Passage]:
        """An upload that begins first, and ends last."""
        yield PASSAGES[0]
        accepted.append(store.submit(PASSAGES).id)
        yield PASSAGES[1]

    accepted.append(store.submit(slow()).id)
    assert [job.id for job in store.unfinished()] == accepted
    assert [job.id for job in store.jobs()] == accepted
    first = store.unfinished()[0]
    store.save(replace(first, state=State.DONE, done=6, finished=now))
    assert [job.id for job in store.jobs()] == accepted


def test_what_is_ahead_is_counted_by_the_pace_of_the_job_that_runs(store: JobStore) -> None:
    first, second, third = (store.submit(PASSAGES) for _ in range(3))
    assert store.ahead(second) == (12, 1.2)
    store.save(replace(first, state=State.RUNNING, done=4, started=time.time() - 8))
    ahead, seconds = store.ahead(second)
    assert (ahead, round(seconds)) == (8, 16)
    store.cancel(third)
    assert store.ahead(third)[0] == 0


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
    done = subprocess.run(
        [*command, sys.executable, "-c", script, str(tmp_path)],
        env=env,
        capture_output=True,
        check=False,
    )
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
            dirty = {each for each in dirty if not each.startswith(f"{tmp_path}/jobs/")}
            dirty.add(f"{tmp_path}/jobs")
        elif kind == "write" and "job-" in line:
            acknowledged += 1
            assert not dirty
    assert acknowledged == 2
