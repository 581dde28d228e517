"""OpenAI's files: uploads that can become documents."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from wye.backends.sources import ROWS, SUFFIXES
from wye.service.http.auth import ASKING, READ, WRITE
from wye.service.http.problems import Problem
from wye.service.ingest.bodies import base_name, form_of, suffix_of
from wye.service.ingest.staged import StagedFile, StagedFiles
from wye.service.service import Served, Service

Purpose = Literal["assistants", "user_data"]


class FileObject(BaseModel):
    """An uploaded file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class FileList(BaseModel):
    """A page of the files that the asking key uploaded."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class FileDeleted(BaseModel):
    """The result of a deletion."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


ENDINGS = [suffix for suffix in SUFFIXES if suffix not in ROWS]
PURPOSES = ("assistants", "user_data")

router = APIRouter(prefix="/v1/files", tags=["openai"])

Id = Annotated[str, Path(max_length=64)]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": f"A file that ends in {', '.join(ENDINGS)}.",
                        },
                        "purpose": {"type": "string", "enum": list(PURPOSES)},
                    },
                }
            }
        },
    }
}


@router.post(
    "",
    dependencies=WRITE,
    summary="Upload a file",
    operation_id="create_file",
    openapi_extra=_BODY,
)
async def create(request: Request, service: Served) -> FileObject:
    """Keeps a file until `expires_at`, by default for a day, only for the key that sends it.

    A restart of the server loses nothing. The file is searched once it is attached to a vector
    store, as one document with the file's id.
    """
    staged = staged_files(service)
    with service.uploads.taken(request, 1):
        async with form_of(request, files=1, fields=8) as form:
            upload, purpose = form.get("file"), form.get("purpose")
            if not isinstance(upload, UploadFile) or {*form} != {"file", "purpose"}:
                raise Problem(
                    422,
                    "form",
                    "Send a form with only `file`, which has a name, and `purpose`.",
                )
            if purpose not in PURPOSES:
                raise Problem(422, "form", f"`purpose` must be one of {', '.join(PURPOSES)}.")
            name = base_name(upload.filename)
            if suffix_of(name) in ROWS:
                raise Problem(
                    415,
                    "file-type",
                    f"'{name:.80}' contains many documents, but a file here is one document. Send "
                    "it to /v1/documents.",
                )
            size = upload.size or 0
            add = asyncio.to_thread(staged.add, name, purpose, upload.file, size)
            return _value(staged, await add)


@router.get("", dependencies=READ, summary="List files", operation_id="list_files")
async def listed(
    service: Served,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
    purpose: Purpose | None = None,
) -> FileList:
    """Lists the files that the asking key uploaded, by default the newest first."""
    staged = staged_files(service)
    files = await asyncio.to_thread(staged.files)
    files = [file for file in files if purpose in (None, file.purpose)]
    if order == "desc":
        files.reverse()
    ids = [file.id for file in files]
    start = ids.index(after) + 1 if after in ids else 0
    page = [_value(staged, file) for file in files[start : start + limit]]
    return FileList(
        data=page,
        has_more=start + limit < len(files),
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
    )


@router.get("/{file}", dependencies=READ, summary="Describe a file", operation_id="retrieve_file")
async def retrieve(file: Id, service: Served) -> FileObject:
    """Describes an uploaded file."""
    staged = staged_files(service)
    return _value(staged, await file_of(staged, file))


@router.get(
    "/{file}/content",
    dependencies=READ,
    summary="Download a file",
    operation_id="download_file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def content(file: Id, service: Served) -> FileResponse:
    """Returns the bytes that were uploaded."""
    staged = staged_files(service)
    stored = await file_of(staged, file)
    return FileResponse(
        staged.content(stored), media_type="application/octet-stream", filename=stored.name
    )


@router.delete("/{file}", dependencies=WRITE, summary="Delete a file", operation_id="delete_file")
async def delete(file: Id, service: Served) -> FileDeleted:
    """Deletes an uploaded file; a document that was made of it stays."""
    staged = staged_files(service)
    await asyncio.to_thread(staged.delete, await file_of(staged, file))
    return FileDeleted(id=file)


def staged_files(service: Service) -> StagedFiles:
    """The uploads of the asking key, stored beside the first index that it may see."""
    folder = service.collection(None).session.folder
    return StagedFiles(folder, ASKING.get(), service.settings.documents)


async def file_of(staged: StagedFiles, id_: str) -> StagedFile:
    """An upload of the key by id, or a `Problem` 404."""
    stored = await asyncio.to_thread(staged.file, id_)
    if stored is None:
        raise Problem(
            404,
            "no-such-file",
            f"This key has no uploaded file '{id_:.80}'; they are kept only for a while.",
        )
    return stored


def _value(staged: StagedFiles, file: StagedFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=file.created,
        expires_at=staged.expires(file),
        filename=file.name,
        purpose=file.purpose,  # type: ignore[arg-type]
    )
