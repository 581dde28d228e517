"""Documents as files of OpenAI's vector stores, and uploads that become documents."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request

from backends.documents import clean_metadata
from backends.store.documents import Removal, StoredDocument
from backends.types import Metadata, Passage
from service.collections import Collection
from service.http.auth import READ, WRITE
from service.http.problems import Problem
from service.http.replies import attributes_of
from service.ingest.bodies import cut, read_file, with_metadata
from service.ingest.job import Job, State
from service.ingest.staged import Attachment, FileBatch, StagedFile, StagedFiles
from service.ingest.writer import WriteResult
from service.routes.documents import delete_from, page_of, read_from
from service.routes.files import file_of, staged_files
from service.routes.vector_stores import StoreId, not_offered
from service.schemas.documents import StoredId
from service.schemas.files import Attach, AttachMany, BatchValue
from service.schemas.vector_stores import (
    FileCounts,
    LastError,
    StoreFile,
    StoreFileContent,
    StoreFileDeleted,
    StoreFileList,
    StoreFileStatus,
    StoreText,
)
from service.service import Served, Service, gone

router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], dependencies=READ)

FileId = Annotated[StoredId, Path()]
BatchId = Annotated[str, Path(max_length=64)]

_STATES: Mapping[State, StoreFileStatus] = {
    State.QUEUED: "in_progress",
    State.RUNNING: "in_progress",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}


@router.get("/{store}/files", summary="List documents as files", operation_id="list_store_files")
async def files(
    store: StoreId,
    service: Served,
    after: str = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    wanted: Annotated[Literal["completed"] | None, Query(alias="filter")] = None,  # noqa: ARG001
) -> StoreFileList:
    """Lists the documents of a collection, ascending by id, without any that jobs have to write."""
    target = service.collection(store)
    page = await page_of(service, target, after, limit)
    data = [_file(target.name, document) for document in page.documents]
    return _listed(data, more=page.more)


@router.get(
    "/{store}/files/{document:path}/content",
    summary="Text of a file",
    operation_id="get_file_content",
)
async def content(store: StoreId, document: FileId, service: Served) -> StoreFileContent:
    """Returns the passages of a document, in order."""
    found = await read_from(service, store, document)
    return StoreFileContent(data=[StoreText(text=passage.text) for passage in found.passages])


@router.get(
    "/{store}/files/{document:path}", summary="Describe a file", operation_id="get_store_file"
)
async def file_by_id(store: StoreId, document: FileId, service: Served) -> StoreFile:
    """Describes a document, or an upload that is `in_progress` or `failed`, with the reason."""
    return await _state(service, service.collection(store), document)


@router.delete(
    "/{store}/files/{document:path}",
    summary="Delete a file",
    operation_id="delete_store_file",
    dependencies=WRITE,
)
async def delete_file(store: StoreId, document: FileId, service: Served) -> StoreFileDeleted:
    """Deletes a document with all its passages."""
    staged, target = staged_files(service), service.collection(store)
    done = await delete_from(service, store, Removal(documents=(document,)), dry_run=False)
    await asyncio.to_thread(staged.detach, document, target.name)
    return StoreFileDeleted(id=document, deleted=done.deleted > 0)


@router.post(
    "/{store}/files", summary="Attach a file", operation_id="create_store_file", dependencies=WRITE
)
async def attach(store: StoreId, wanted: Attach, request: Request, service: Served) -> StoreFile:
    """Makes a document of an uploaded file, under the file's id; it replaces an earlier one.

    A file that is `completed` is searched. One that cannot be read is `failed`, and `last_error`
    says why. One with many passages is `in_progress` until its job has written them.
    """
    target = service.collection(store)
    await _attach(service, target, [wanted.file_id], wanted.attributes, request)
    return await _state(service, target, wanted.file_id)


@router.post(
    "/{store}/file_batches",
    summary="Attach several files",
    operation_id="create_store_batch",
    dependencies=WRITE,
)
async def attach_many(
    store: StoreId, wanted: AttachMany, request: Request, service: Served
) -> BatchValue:
    """Makes documents of uploaded files in one commit or job; a file that fails stops no other."""
    target = service.collection(store)
    ids = tuple(dict.fromkeys(wanted.file_ids))
    await _attach(service, target, ids, wanted.attributes, request)
    batch = await asyncio.to_thread(staged_files(service).add_batch, target.name, ids)
    return await batch_by_id(store, batch.id, service)


@router.get(
    "/{store}/file_batches/{batch}", summary="Follow a batch", operation_id="get_store_batch"
)
async def batch_by_id(store: StoreId, batch: BatchId, service: Served) -> BatchValue:
    """Returns how many of its files are documents; one deleted since then counts as cancelled."""
    target = service.collection(store)
    found = await _batch(service, target, batch)
    states: Counter[str] = Counter(one.status for one in await _files_of(service, target, found))
    return BatchValue(
        id=found.id,
        created_at=found.created,
        vector_store_id=target.name,
        status="in_progress" if states["in_progress"] else "completed",
        file_counts=FileCounts(**states, total=len(found.files)),
    )


@router.get(
    "/{store}/file_batches/{batch}/files",
    summary="List the files of a batch",
    operation_id="list_store_batch_files",
)
async def files_of_batch(
    store: StoreId,
    batch: BatchId,
    service: Served,
    wanted: Annotated[StoreFileStatus | None, Query(alias="filter")] = None,
) -> StoreFileList:
    """Lists the files of a batch with their states, in the requested order, in one page."""
    target = service.collection(store)
    data = await _files_of(service, target, await _batch(service, target, batch))
    data = [file for file in data if wanted in (None, file.status)]
    return _listed(data, more=False)


router.add_api_route(
    "/{store}/file_batches/{batch}/cancel", not_offered, methods=["POST"], include_in_schema=False
)


async def _batch(service: Service, target: Collection, id_: str) -> FileBatch:
    """A batch of attached files, or a `Problem` 404."""
    found = await asyncio.to_thread(staged_files(service).batch, id_, target.name)
    if found is None:
        raise Problem(
            404, "no-such-batch", f"This key has no batch '{id_:.80}' of '{target.name}'."
        )
    return found


async def _files_of(service: Service, target: Collection, batch: FileBatch) -> list[StoreFile]:
    """The files of a batch with their states; one deleted since then is `cancelled`."""
    found = []
    for id_ in batch.files:
        try:
            found.append(await _state(service, target, id_))
        except Problem as problem:
            if problem.status != 404:
                raise
            found.append(_no_document(target, id_, "cancelled"))
    return found


async def _attach(
    service: Service,
    target: Collection,
    ids: Sequence[str],
    attributes: Mapping[str, str | float | bool] | None,
    request: Request,
) -> None:
    """Make documents of uploads, and record what became of each."""
    staged, writer = staged_files(service), service.writers[target.name]
    metadata = clean_metadata(attributes)
    files = [await file_of(staged, id_) for id_ in ids]
    passages: list[Passage] = []
    became: dict[str, Attachment] = {}
    for file in files:
        try:
            passages += await _passages(service, staged, file, metadata)
            became[file.id] = Attachment(attributes or {})
        except Problem as problem:
            if problem.status != 422:
                raise
            became[file.id] = Attachment(attributes or {}, error=problem.detail)
    done = await writer.store(iter(passages), partial(gone, request)) if passages else None
    if isinstance(done, Job):
        service.jobs.wake()
    job = done.id if isinstance(done, Job) else ""
    for id_, own in became.items():
        noted = own if own.error else replace(own, job=job)
        await asyncio.to_thread(staged.attach, id_, target.name, noted)
    if isinstance(done, WriteResult):
        await service.refresher.catch_up(target, done.report.version)


async def _passages(
    service: Service, staged: StagedFiles, file: StagedFile, metadata: Metadata
) -> list[Passage]:
    """The passages of an upload, or a `Problem` 422 that says why it cannot be read."""
    read = await read_file(staged.content(file), file.name, service.sandbox)

    def work() -> list[Passage]:
        (whole,) = read
        document = with_metadata(replace(whole, id=file.id, document=file.id), metadata)
        return list(cut([document], None, service.settings.documents))

    return await asyncio.to_thread(work)


async def _state(service: Service, target: Collection, id_: str) -> StoreFile:
    """A document, or the state of an upload that is none yet, or a `Problem` 404."""
    staged, writer = staged_files(service), service.writers[target.name]
    known = await asyncio.to_thread(staged.attachment, id_, target.name)
    status: StoreFileStatus = "completed"
    failed: LastError | None = None
    if known is not None and known.error:
        status, failed = "failed", LastError(code="invalid_file", message=known.error)
    elif known is not None and known.job:
        job = await writer.off_loop(lambda: writer.jobs.job(known.job))
        if job is not None and job.state != State.DONE:
            status = _STATES[job.state]
            failed = LastError(code="server_error", message=job.error) if job.error else None
        elif job is not None and (job.index_version or 0) > target.session.version:
            status = "in_progress"  # it is stored, but not searched yet
    if known is None or status == "completed":
        return _file(target.name, await read_from(service, target.name, id_))
    found = _no_document(target, id_, status)
    return found.model_copy(update={"attributes": known.attributes, "last_error": failed})


def _no_document(target: Collection, id_: str, status: StoreFileStatus) -> StoreFile:
    return StoreFile(
        id=id_,
        status=status,
        usage_bytes=0,
        vector_store_id=target.name,
        attributes={},
    )


def _listed(data: list[StoreFile], *, more: bool) -> StoreFileList:
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return StoreFileList(data=data, has_more=more, first_id=first, last_id=last)


def _file(store: str, document: StoredDocument) -> StoreFile:
    return StoreFile(
        id=document.id,
        usage_bytes=sum(len(passage.text.encode()) for passage in document.passages),
        vector_store_id=store,
        attributes=attributes_of(document.passages[0].metadata),
    )
