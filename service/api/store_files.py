"""Documents as files of OpenAI's vector stores, and uploads that become documents."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from wye.backends.documents import clean_metadata
from wye.backends.store.documents import Removal, StoredDocument
from wye.backends.types import Metadata, Passage
from wye.service.api.common import Strict
from wye.service.api.documents import StoredId, delete_from, page_of, read_from
from wye.service.api.files import Attachment, FileObject, StagedFiles, file_of, staged_files
from wye.service.api.vector_stores import NO_TIME, StoreId, StoreText, attributes_of
from wye.service.http.auth import READ, WRITE
from wye.service.http.problems import Problem
from wye.service.ingest.bodies import cut, with_metadata
from wye.service.ingest.jobs import Job, State
from wye.service.ingest.writer import WriteResult
from wye.service.search import Collection
from wye.service.service import Served, Service, departure

StoreFileStatus = Literal["completed", "in_progress", "failed", "cancelled"]


class LastError(BaseModel):
    """Why a file did not become a document."""

    code: Literal["server_error", "invalid_file"]
    message: str


class StoreFile(BaseModel):
    """A document, or an upload that is to become one."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    status: StoreFileStatus = "completed"
    created_at: int = Field(default=0, description=NO_TIME)
    usage_bytes: int = Field(description="Size of its text in bytes, as UTF-8.")
    vector_store_id: str
    attributes: dict[str, str | float | bool]
    last_error: LastError | None = None


class StoreFileList(BaseModel):
    """A page of documents."""

    object: Literal["list"] = "list"
    data: list[StoreFile]
    has_more: bool
    first_id: str | None
    last_id: str | None


class StoreFileContent(BaseModel):
    """The passages of a document, always in one page."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[StoreText]
    has_more: bool = False
    next_page: str | None = None


class StoreFileDeleted(BaseModel):
    """The result of a deletion."""

    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: bool = Field(description="Whether there was such a document.")


Attributes = Annotated[
    dict[str, str | bool | int | float] | None,
    Field(description="Metadata of the document; the file's own metadata takes precedence."),
]
_FILE = "file-0006447aa0c0de5eed5eed5e"


class Chunking(Strict):
    """How a file is cut into passages."""

    type: Literal["auto"] = Field(
        description="Use `/v1/documents` to choose the length of passages (`chunk_words`)."
    )


class Attach(Strict):
    """An uploaded file to make a document of."""

    file_id: Annotated[str, Field(max_length=64)]
    attributes: Attributes = None
    chunking_strategy: Chunking | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"file_id": _FILE},
                {"file_id": _FILE, "attributes": {"year": 1566, "cast": True}},
            ]
        }
    )


router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], dependencies=READ)

FileId = Annotated[StoredId, Path()]
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
    filter_: Annotated[Literal["completed"] | None, Query(alias="filter")] = None,  # noqa: ARG001
) -> StoreFileList:
    """Lists the documents of a collection, ascending by id, without any that jobs have to write."""
    target = service.collection(store)
    page = await page_of(service, target, after, limit)
    data = [_file(target.name, document) for document in page.documents]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return StoreFileList(data=data, has_more=page.more, first_id=first, last_id=last)


@router.get(
    "/{store}/files/{document:path}/content",
    summary="Text of a file",
    operation_id="get_file_content",
)
async def content(store: StoreId, document: FileId, service: Served) -> StoreFileContent:
    """Returns the passages of a document, in order."""
    stored = await read_from(service, store, document)
    return StoreFileContent(data=[StoreText(text=passage.text) for passage in stored.passages])


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
    reply = await delete_from(service, store, Removal(documents=(document,)), dry_run=False)
    await asyncio.to_thread(staged.detach, document, target.name)
    return StoreFileDeleted(id=document, deleted=reply.deleted > 0)


@router.post(
    "/{store}/files", summary="Attach a file", operation_id="create_store_file", dependencies=WRITE
)
async def attach(store: StoreId, body: Attach, request: Request, service: Served) -> StoreFile:
    """Makes a document of an uploaded file, under the file's id; it replaces an earlier one.

    A file that is `completed` is searched. One that cannot be read is `failed`, and `last_error`
    says why. One with many passages is `in_progress` until its job has written them.
    """
    target = service.collection(store)
    staged, writer = staged_files(service), service.writers[target.name]
    metadata = clean_metadata(body.attributes)
    file = await file_of(staged, body.file_id)
    attachment = Attachment(attributes=body.attributes or {})
    outcome: Job | WriteResult | None = None
    try:
        passages = await _passages(service, staged, file, metadata)
    except Problem as problem:
        if problem.status != 422:
            raise
        attachment.error = problem.detail
    else:
        outcome = await writer.store(iter(passages), partial(departure, request))
    if isinstance(outcome, Job):
        service.jobs.wake()
        attachment.job = outcome.id
    await asyncio.to_thread(staged.attach, file.id, target.name, attachment)
    if isinstance(outcome, WriteResult):
        await service.refresher.catch_up(target, outcome.report.version)
    return await _state(service, target, file.id)


async def _passages(
    service: Service, staged: StagedFiles, file: FileObject, metadata: Metadata
) -> list[Passage]:
    """The passages of an upload, or a `Problem` 422 that says why it cannot be read."""
    documents = await service.reader.read(staged.content(file), file.filename)

    def work() -> list[Passage]:
        (upload,) = documents
        document = with_metadata(replace(upload, id=file.id, document=file.id), metadata)
        return list(cut([document], None, service.settings.documents))

    return await asyncio.to_thread(work)


async def _state(service: Service, target: Collection, id_: str) -> StoreFile:
    """A document, else the state of the upload it is made from; a `Problem` 404 without both."""
    staged, writer = staged_files(service), service.writers[target.name]
    attachment = await asyncio.to_thread(staged.attachment, id_, target.name)
    status: StoreFileStatus = "completed"
    error: LastError | None = None
    if attachment is not None and attachment.error:
        status, error = "failed", LastError(code="invalid_file", message=attachment.error)
    elif attachment is not None and attachment.job:
        job = await writer.off_loop(lambda: writer.jobs.job(attachment.job))
        if job is not None and job.state != State.DONE:
            status = _STATES[job.state]
            error = LastError(code="server_error", message=job.error) if job.error else None
        elif job is not None and (job.index_version or 0) > target.session.version:
            status = "in_progress"  # it is stored, but not searched yet
    if attachment is None or status == "completed":
        return _file(target.name, await read_from(service, target.name, id_))
    return StoreFile(
        id=id_,
        status=status,
        usage_bytes=0,
        vector_store_id=target.name,
        attributes=attachment.attributes,
        last_error=error,
    )


def _file(store: str, document: StoredDocument) -> StoreFile:
    return StoreFile(
        id=document.id,
        usage_bytes=sum(len(passage.text.encode()) for passage in document.passages),
        vector_store_id=store,
        attributes=attributes_of(document.passages[0].metadata),
    )
