"""OpenAI's files: uploads that can become documents, on the disk beside an index.

Every file is complete: its content is on the disk before the entry that names it, and the entry
before the reply. A file belongs to the key that sent it, and is deleted by age.
"""

import asyncio
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast, get_args

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from wye.backends.files import sync, write_atomically
from wye.backends.sources import ROWS, SUFFIXES
from wye.service.http.edge import ASKING, READ, WRITE, Key
from wye.service.http.openapi import body_of
from wye.service.http.problems import Problem, not_writable
from wye.service.ingest.forms import base_name, form_of, suffix_of
from wye.service.service import Served, Service
from wye.service.settings import DocumentSettings

Purpose = Literal["assistants", "user_data"]
PURPOSES = get_args(Purpose)

FOLDER = "files"
MOST_FILES = 256
_UPLOADS = 4  # a key may keep as many bytes as so many uploads of the greatest length
_SPARE_SECONDS = 3_600
_EXPIRED: dict[Path, float] = {}  # when files were first seen to have expired, in monotonic time
_ID = re.compile(r"file-[0-9a-f]{24}")


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


def list_of(
    data: list[dict[str, Any]], *, has_more: bool = False, nothing: str | None = None
) -> dict[str, Any]:
    """A list as OpenAI has it; `nothing` is the first and the last id of an empty one."""
    ids = [each["id"] for each in data] or [nothing]
    first, last = ids[0], ids[-1]
    page = {"object": "list", "data": data, "has_more": has_more}
    return {**page, "first_id": first, "last_id": last}


ENDINGS = [suffix for suffix in SUFFIXES if suffix not in ROWS]

router = APIRouter(prefix="/v1/files", tags=["openai"])

FilePath = Annotated[str, PathParameter(max_length=64)]
_FORM = {
    "file": {
        "type": "string",
        "format": "binary",
        "description": f"A file that ends in {', '.join(ENDINGS)}.",
    },
    "purpose": {"type": "string", "enum": list(PURPOSES)},
}
_FIELDS = {"type": "object", "required": ["file", "purpose"], "properties": _FORM}
_BODY = body_of({"multipart/form-data": _FIELDS})


@router.post("", dependencies=WRITE, summary="Upload a file", openapi_extra=_BODY)
async def create_file(request: Request, service: Served) -> FileObject:
    """Keeps a file until `expires_at`, by default for a day, only for the key that sends it.

    A restart of the server loses nothing. The file is searched once it is attached to a vector
    store, as one document with the file's id.
    """
    staged = staged_files(service)
    with service.reader.reserve(request):
        async with form_of(request, files=1, fields=8) as form:
            upload, purpose = form.get("file"), form.get("purpose")
            if not isinstance(upload, UploadFile) or {*form} != {"file", "purpose"}:
                fields = "Send a form with only `file`, which has a name, and `purpose`."
                raise Problem(422, "form", fields)
            if purpose not in PURPOSES:
                raise Problem(422, "form", f"`purpose` must be one of {', '.join(PURPOSES)}.")
            name = base_name(upload.filename)
            if suffix_of(name) in ROWS:
                many = f"'{name:.80}' contains many documents, but a file here is one document."
                raise Problem(415, "file-type", f"{many} Send it to /v1/documents.")
            kind = cast("Purpose", purpose)
            return await asyncio.to_thread(staged.add, name, kind, upload.file, upload.size or 0)


@router.get("", dependencies=READ, summary="List files")
async def list_files(
    service: Served,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
    purpose: Purpose | None = None,
) -> dict[str, Any]:
    """Lists the files that the asking key uploaded, by default the newest first."""
    files = await asyncio.to_thread(staged_files(service).files)
    files = [file for file in files if purpose in (None, file.purpose)]
    if order == "desc":
        files.reverse()
    ids = [file.id for file in files]
    start = ids.index(after) + 1 if after in ids else 0
    data = [file.model_dump() for file in files[start : start + limit]]
    return list_of(data, has_more=start + limit < len(files))


@router.get("/{file}", dependencies=READ, summary="Describe a file")
async def retrieve_file(file: FilePath, service: Served) -> FileObject:
    """Describes an uploaded file."""
    return await asyncio.to_thread(staged_files(service).find, file)


@router.get(
    "/{file}/content",
    dependencies=READ,
    summary="Download a file",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def download_file(file: FilePath, service: Served) -> FileResponse:
    """Returns the bytes that were uploaded."""
    staged = staged_files(service)
    stored = await asyncio.to_thread(staged.find, file)
    return FileResponse(
        staged.content(stored), media_type="application/octet-stream", filename=stored.filename
    )


@router.delete("/{file}", dependencies=WRITE, summary="Delete a file")
async def delete_file(file: FilePath, service: Served) -> dict[str, Any]:
    """Deletes an uploaded file; a document that was made of it stays."""
    await asyncio.to_thread(staged_files(service).delete, file)
    return {"id": file, "object": "file", "deleted": True}


class StagedFiles:
    """The uploads of one key; all methods block on the disk.

    Those that write raise a `Problem` 503 if the disk cannot be written.
    """

    def __init__(self, index: Path, key: Key, settings: DocumentSettings) -> None:
        """Keep the folder of an index; nothing is created before the first file."""
        self._root = index / FOLDER
        self._folder = self._root / (key.digest[:32] or "anybody")
        self._settings = settings

    def add(self, name: str, purpose: Purpose, content: BinaryIO, size: int) -> FileObject:
        """Store a file on the disk; a `Problem` 422 if the key has too many files or bytes."""
        self._sweep()
        stored = self.files()
        limit = _UPLOADS * self._settings.upload_bytes
        if len(stored) >= MOST_FILES or sum(file.bytes for file in stored) + size > limit:
            full = f"A key can keep {MOST_FILES} uploaded files and {limit:,} bytes. Delete some;"
            raise Problem(422, "too-many-files", f"{full} documents that were made from them stay.")
        now = time.time()
        file = FileObject(
            id=f"file-{int(now * 1e6):014x}{secrets.token_hex(5)}",  # sorts by time
            bytes=size,
            created_at=int(now),
            expires_at=int(now) + int(self._settings.keep_seconds),
            filename=name,
            purpose=purpose,
        )
        with _writing():
            if not self._folder.exists():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(self._root)
                sync(self._root.parent)
            with write_atomically(self.content(file)) as target:
                shutil.copyfileobj(content, target)
            with write_atomically(self._folder / f"{file.id}.json") as entry:
                entry.write(file.model_dump_json().encode())
        return file

    def files(self) -> list[FileObject]:
        """All files, oldest first."""
        paths = sorted(self._folder.glob("file-*.json"))
        return [file for path in paths if (file := self._read(path.stem))]

    def find(self, id_: str) -> FileObject:
        """A file by id, or a `Problem` 404."""
        if _ID.fullmatch(id_) and (file := self._read(id_)):
            return file
        missing = f"This key has no uploaded file '{id_:.80}'; they are kept only for a while."
        raise Problem(404, "no-such-file", missing)

    def _read(self, id_: str) -> FileObject | None:
        """A file; None if there is none, it has expired, or its content is incomplete."""
        with suppress(FileNotFoundError, ValueError):
            file = FileObject.model_validate_json((self._folder / f"{id_}.json").read_bytes())
            is_whole = self.content(file).stat().st_size == file.bytes
            return file if is_whole and time.time() < file.expires_at else None
        return None

    def content(self, file: FileObject) -> Path:
        """Path of a file's bytes."""
        return self._folder / f"{file.id}.content"

    def delete(self, id_: str) -> None:
        """Delete a file, or raise a `Problem` 404; documents made of it stay."""
        file = self.find(id_)
        with _writing():
            for path in (self._folder / f"{file.id}.json", self.content(file)):
                path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete files of all keys that were seen to have expired an hour ago: a clock may jump."""
        before, now = time.time() - self._settings.keep_seconds, time.monotonic()
        for path in self._root.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime >= before:
                    _EXPIRED.pop(path, None)
                elif now - _EXPIRED.setdefault(path, now) >= _SPARE_SECONDS:
                    path.unlink()
                    del _EXPIRED[path]


def staged_files(service: Service) -> StagedFiles:
    """The uploads of the asking key, stored beside the first index that it may see."""
    first = next(iter(service.collections), None)
    folder = service.collection(first).session.folder
    return StagedFiles(folder, ASKING.get(), service.settings.documents)


@contextmanager
def _writing() -> Iterator[None]:
    """Turn an `OSError` into a problem that says what to do."""
    try:
        yield
    except OSError as error:
        raise not_writable("No file can be kept here", error) from error
