"""Jobs on the disk."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends.types import Passage
from service.ingest.jobs import JobStore, State

PASSAGES = [
    Passage(f"d{n}#{c:04d}", "T", f"{n}.{c}", {"y": n}, f"d{n}", c)
    for n in range(3)
    for c in range(2)
]


@pytest.fixture
def spool(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path, "c")


def test_a_job_holds_what_was_sent(spool: JobStore) -> None:
    assert spool.jobs() == []
    job = spool.submit(iter(PASSAGES))
    assert (job.documents, job.passages, job.state) == (3, 6, State.QUEUED)
    assert list(spool.passages(job)) == PASSAGES
    assert list(spool.passages(replace(job, done=4))) == PASSAGES[4:]
    assert JobStore(spool.folder.parent, "c").jobs() == [job]
    later = spool.submit(PASSAGES)
    assert [each.id for each in spool.unfinished()] == [job.id, later.id]


def test_what_cannot_be_read_leaves_nothing_behind(spool: JobStore) -> None:
    def broken() -> Iterator[Passage]:
        yield PASSAGES[0]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        spool.submit(broken())
    assert list(spool.folder.iterdir()) == []


def test_it_knows_which_documents_are_on_their_way(spool: JobStore) -> None:
    job = spool.submit(PASSAGES)
    assert spool.writing(["x", "d1"]) == (job, "d1")
    assert spool.writing(["x"]) is None
    spool.save(replace(job, state=State.DONE, finished=time.time()))
    assert spool.writing(["d1"]) is None


def test_only_ids_of_jobs_are_looked_up(spool: JobStore) -> None:
    spool.submit(PASSAGES)
    for id_ in ("..", "../jobs", "readers", "job-", "/etc/passwd", "job-00000000000000000000"):
        assert spool.job(id_) is None


def test_what_ended_long_ago_and_what_was_abandoned_is_swept_away(spool: JobStore) -> None:
    old, new, waiting = (spool.submit(PASSAGES) for _ in range(3))
    spool.save(replace(old, state=State.DONE, finished=time.time() - 100))
    spool.save(replace(new, state=State.FAILED, finished=time.time()))
    abandoned = spool.folder / f".job-{0:014x}abcdef"
    abandoned.mkdir()
    fresh = spool.folder / f".{waiting.id}"
    fresh.mkdir()
    spool.sweep(50)
    assert [job.id for job in spool.jobs()] == [new.id, waiting.id]
    assert (abandoned.exists(), fresh.exists()) == (False, True)


def test_one_process_claims_the_jobs(spool: JobStore) -> None:
    spool.submit(PASSAGES)
    with spool.claim() as first:
        assert first
        with JobStore(spool.folder.parent, "c").claim() as second:
            assert not second
    with spool.claim() as again:
        assert again
