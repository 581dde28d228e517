"""Bodies of requests as documents: JSON, JSON lines, and forms with files."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from backends.errors import SourceError
from backends.sources import parse_record
from backends.types import Passage
from service.documents.files import (
    LINES,
    base_name,
    read_file,
    read_lines,
    suffix_of,
    with_metadata,
)
from service.documents.multipart import form_of
from service.documents.sandbox import Sandbox, bad_file
from service.documents.settings import DocumentSettings
from service.problems import Problem
from service.schemas.documents import DocumentBody, DocumentsRequest, DocumentValue

# Parsed in one go, during which nothing else runs.
LONGEST_JSON = 4_194_304
_FIELDS = ("collection", "chunk_words", "metadata", "id")


@dataclass(frozen=True, slots=True)
class Sent:
    """What a request holds.

    Attributes:
        documents: Whole ones; read them while the request is open.
        collection: That it names; None for none.
        chunk_words: That it asks for; None for none.
    """

    documents: Iterable[Passage]
    collection: str | None = None
    chunk_words: int | None = None


@asynccontextmanager
async def documents_of(
    request: Request, settings: DocumentSettings, sandbox: Sandbox
) -> AsyncIterator[Sent]:
    """The documents of a body, whatever its kind; what was put aside for it goes at the end.

    Raises:
        Problem: 415 for another kind, 422 for what is wrong with it.
        RequestValidationError: JSON that is not as it should be.
        HTTPException: 413 for JSON that is too long, 400 for a form that is none.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    with tempfile.TemporaryDirectory(prefix="wye-upload-") as name:
        folder = Path(name)
        if kind == "application/json":
            yield await _json(request)
        elif kind in ("application/x-ndjson", "application/jsonl"):
            yield Sent(read_lines(await _saved(request, folder / "body.jsonl"), "The body"))
        elif kind == "multipart/form-data":
            async with form_of(request, files=settings.files, fields=len(_FIELDS)) as form:
                yield await _form(form, folder, sandbox)
        else:
            raise Problem(
                415,
                "content-type",
                "Send application/json, application/x-ndjson (a document on each line) or "
                "multipart/form-data with files, and say which in content-type.",
            )


def passage_of(id_: str, body: DocumentBody) -> Passage:
    """A document of JSON, cleaned.

    Raises:
        Problem: 422 for what JSON schema cannot tell, such as nested metadata.
    """
    record = {"id": id_, "title": body.title, "text": body.text, "metadata": body.metadata}
    try:
        return parse_record(record)
    except SourceError as error:
        raise Problem(422, "bad-document", f"Document '{id_:.80}': {error}.") from error


async def _json(request: Request) -> Sent:
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > LONGEST_JSON:
            raise HTTPException(
                413,
                f"A JSON body may have {LONGEST_JSON:,} bytes. Send application/x-ndjson, a "
                "document on each line, or several requests.",
            )
    try:
        wanted = DocumentsRequest.model_validate_json(bytes(body))
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error
    passages = (_of_value(value) for value in wanted.values())
    return Sent(passages, wanted.collection, wanted.chunk_words)


def _of_value(value: DocumentValue) -> Passage:
    return passage_of(value.id, value)


async def _saved(request: Request, path: Path) -> Path:
    """A body as a file."""
    with path.open("wb") as file:
        async for block in request.stream():
            file.write(block)
    return path


async def _form(form: FormData, folder: Path, sandbox: Sandbox) -> Sent:
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    if unknown := sorted({*fields} - {*_FIELDS}):
        raise Problem(
            422, "form", f"There is no field '{unknown[0]:.40}'; there is {', '.join(_FIELDS)}."
        )
    uploads = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    if not uploads:
        raise Problem(
            422, "form", "The form holds no file; send at least one part with a filename."
        )
    metadata = _metadata(fields.get("metadata", "{}"))
    names = [base_name(upload.filename) for upload in uploads]
    id_ = fields.get("id")
    if id_ is not None and (len(names) > 1 or suffix_of(names[0]) in LINES):
        raise Problem(422, "form", "`id` is for a single file that is one document.")
    streams: list[Iterable[Passage]] = []
    for number, (upload, name) in enumerate(zip(uploads, names, strict=True)):
        # Never under its own name: that is anything a client likes.
        path = folder / f"{number}.jsonl"
        await asyncio.to_thread(_copy, upload.file, path)
        if suffix_of(name) in LINES:
            streams.append(read_lines(path, name))
            continue
        document = await read_file(path, name, sandbox)
        streams.append([_renamed(document, id_) if id_ is not None else document])
    return Sent(
        _with(chain.from_iterable(streams), metadata),
        fields.get("collection"),
        _chunk_words(fields.get("chunk_words")),
    )


def _copy(source: BinaryIO, path: Path) -> None:
    with path.open("wb") as file:
        shutil.copyfileobj(source, file)


def _with(documents: Iterable[Passage], metadata: Mapping[str, object]) -> Iterator[Passage]:
    for document in documents:
        yield with_metadata(document, metadata)


def _renamed(document: Passage, id_: str) -> Passage:
    try:
        return parse_record({"id": id_, "title": document.title, "text": document.text})
    except SourceError as error:
        raise bad_file(document.id, f"cannot be stored under that id: {error}") from error


def _metadata(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
        return parse_record({"id": "x", "text": "x", "metadata": value}).metadata
    except (ValueError, RecursionError, SourceError) as error:
        raise Problem(
            422, "form", 'The field `metadata` is no flat JSON object, as in {"year": 1894}.'
        ) from error


def _chunk_words(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return DocumentsRequest(id="x", text="x", metadata={}, chunk_words=int(text)).chunk_words
    except ValueError as error:
        raise Problem(
            422, "form", "The field `chunk_words` is a whole number from 20 to 2000."
        ) from error
