"""`/v1/jobs`: large uploads that are written to an index."""

from dataclasses import asdict
from time import time
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from wye.service.api.retrieve import CollectionName
from wye.service.http.edge import READ, WRITE
from wye.service.http.openapi import Described
from wye.service.ingest.jobs import Job, State
from wye.service.service import Served


class JobValue(Described):
    """The progress of a job. Times are seconds since 1970."""

    id: str
    collection: str
    state: State
    documents: int
    """Number of documents in the upload."""
    total: int
    """Number of passages that they were cut into."""
    done: int
    """Number of passages committed so far."""
    added: int
    updated: int
    unchanged: int
    removed: int
    rate: float | None
    """Passages per second since it started; null before."""
    created: float
    started: float | None
    finished: float | None
    index_version: int | None
    """Version of its newest commit; null before the first."""
    waits_for: str
    """What it waits for: a writer, models, or another try, and then why the last one failed; empty
    for nothing."""
    error: str
    """What in its documents made it fail; empty if it did not."""


class JobList(BaseModel):
    """Jobs, newest first."""

    data: list[JobValue]


router = APIRouter(prefix="/v1/jobs", tags=["documents"])

JobId = Annotated[str, Path(max_length=64)]


@router.get("", dependencies=READ, summary="List jobs")
async def list_jobs(
    service: Served,
    collection: Annotated[
        CollectionName, Query(description="Only jobs of this collection; default: of all.")
    ] = None,
) -> JobList:
    """Lists jobs that wait, run or ended recently, newest first, of all collections or of one."""
    target = None if collection is None else service.collection(collection)
    return JobList(data=[job_value(job) for job in await service.jobs.jobs(target)])


@router.get("/{job}", dependencies=READ, summary="Follow a job")
async def get_job(job: JobId, service: Served) -> JobValue:
    """Returns the progress of a job, whichever process runs it."""
    return job_value(await service.jobs.job(job))


@router.delete("/{job}", dependencies=WRITE, summary="Cancel a job", status_code=202)
async def cancel_job(job: JobId, service: Served) -> JobValue:
    """Asks a job to end before its next commit; what it has committed stays.

    A job that has ended is not changed. `state` tells when the job has stopped.
    """
    return job_value(await service.jobs.cancel(job))


def job_value(job: Job) -> JobValue:
    """The job as a reply."""
    rate = job.rate(time())
    return JobValue(
        **asdict(job), total=job.passages, rate=None if rate is None else round(rate, 2)
    )
