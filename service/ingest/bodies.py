"""Reads documents from the body of a request: JSON, JSON lines, or a form with files."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO

from fastapi import Request
from pydantic import Field
from starlette.datastructures import FormData, UploadFile

from wye.backends.documents import clean_metadata, document_of, parse_record
from wye.backends.errors import SourceError
from wye.backends.readers.drafts import DEFAULT, BadFileError, Draft, Options
from wye.backends.readers.records import BadLine, Ids, read_json, read_lines, text_document
from wye.backends.readers.sandbox import Sandbox
from wye.backends.sources import JSON, LINES, ROWS, TEXTS
from wye.backends.types import Passage
from wye.service.batching import Room
from wye.service.http.edge import MOST_VALUES, json_values
from wye.service.http.openapi import Described
from wye.service.http.problems import Problem
from wye.service.ingest.forms import UploadForm, form_of, not_stored, path_name, suffix_of
from wye.service.settings import DocumentSettings

UNREADABLE = (415, 422)
_BODY = "The body"
# Most bytes of a line of JSON; parsing a longer one would block everything else.
_LONGEST_LINE = 4_194_304
_BYTES_PER_CHARACTER = 4  # at most, in UTF-8
# The temporary disk has room for so many uploads of the greatest length, or more shorter ones.
_UPLOADS = 4
# Files that are read at once, and files that may wait for that.
_READERS = 2
_WAITING = 16


class FileReader:
    """Reads uploaded files, all but text and lines in processes with limits."""

    def __init__(self, settings: DocumentSettings) -> None:
        self.settings = settings
        full = "Other uploads use all of the space. Try again."
        self._space = Room(_UPLOADS * settings.upload_bytes, full, retry_after=5)
        self._slots = asyncio.Semaphore(_READERS)
        self._room = Room(
            _READERS + _WAITING, "Many files are waiting to be read. Try again.", retry_after=5
        )

    def reserve(self, request: Request) -> AbstractContextManager[None]:
        """Room for a body on the temporary disk; a `Problem` 503 if other uploads take it."""
        header = request.headers.get("content-length", "")
        return self._space.reserve(int(header) if header.isdigit() else self.settings.upload_bytes)

    async def read(
        self,
        file: BinaryIO,
        name: str,
        skipped: list[str] | None = None,
        options: Options = DEFAULT,
        texts: Collection[str] = TEXTS,
    ) -> Iterator[Passage]:
        """Read the documents in a file; one that is a single document has the file's name as id.

        The file stays open until they are consumed, in another thread. `texts` are suffixes of
        files that are text; bad lines and rows are noted in `skipped`, without which the first is a
        problem. A `Problem` 422 if the file cannot be read, 503 if too many files wait.
        """
        suffix = suffix_of(name)
        if suffix in LINES:
            return _lines(file, name, skipped, options)
        _refuse_empty(file, name)
        if suffix in texts:
            return _text(file, name, options.encoding)
        if suffix == JSON:
            return _documents(_json(file, name, options), name, skipped)
        try:
            with self._room.reserve():
                async with self._slots:
                    # If the client leaves, closing the sandbox ends the thread's wait.
                    with Sandbox(self.settings.limits) as sandbox:
                        drafts = await asyncio.to_thread(sandbox.read, file, suffix, options)
        except BadFileError as error:
            raise bad_file(name, str(error)) from error
        return _documents(drafts, name, skipped)


def _refuse_empty(file: BinaryIO, name: str) -> None:
    """Refuse (422) an empty file; the descriptor of another is then at its beginning."""
    if not file.seek(0, os.SEEK_END):
        raise bad_file(name, "is empty")
    file.seek(0)


def bad_file(name: str, reason: str) -> Problem:
    """The problem of a file that yields no document."""
    return Problem(422, "bad-file", f"'{name:.80}' {reason}.")


def _text(file: BinaryIO, name: str, encoding: str) -> Iterator[Passage]:
    try:
        yield text_document(name, file.read(), encoding)[0]
    except SourceError as error:
        raise bad_file(name, str(error)) from error


def _documents(drafts: Iterable[Draft], name: str, skipped: list[str] | None) -> Iterator[Passage]:
    try:
        for draft in drafts:
            try:
                document = document_of(draft, name)
            except SourceError as error:
                row = f"row {draft.line}: " if draft.line else ""
                if skipped is None or not row:
                    prefix = "cannot be read: " if row else ""
                    raise bad_file(name, f"{prefix}{row}{error}") from error
                skipped.append(f"{row}{error}")
            else:
                yield document
    except BadFileError as error:
        raise bad_file(name, str(error)) from error


def _json(file: BinaryIO, name: str, options: Options) -> Iterator[Draft]:
    content = file.read()
    if len(content) > MOST_VALUES and json_values(content) > MOST_VALUES:
        many = f"has more than {MOST_VALUES:,} values"
        raise bad_file(name, f"{many}; send it as .jsonl, with an object on each line")
    yield from read_json(content, name, options)


def _lines(
    file: BinaryIO, name: str, skipped: list[str] | None = None, options: Options = DEFAULT
) -> Iterator[Passage]:

    def refuse(bad: BadLine) -> None:
        if skipped is None:
            raise bad_file(name, f"cannot be read: line {bad.line}: {bad.reason}")
        skipped.append(f"line {bad.line}: {bad.reason}")

    def bounded() -> Iterator[bytes]:
        """The lines, each of which may be parsed."""
        lines = iter(partial(file.readline, _LONGEST_LINE + 1), b"")
        for number, line in enumerate(lines, start=1):
            limit = ""
            if len(line) > _LONGEST_LINE:
                limit = f"{_LONGEST_LINE:,} bytes"
            elif len(line) > MOST_VALUES and json_values(line) > MOST_VALUES:
                limit = f"{MOST_VALUES:,} values"
            if limit:
                raise bad_file(name, f"cannot be read: line {number} has more than {limit}")
            yield line

    _refuse_empty(file, name)
    file_name = "" if name == _BODY else name
    once = partial(Ids().once, source=name)
    try:
        yield from read_lines(bounded(), refuse, once, options, file_name)
    except BadFileError as error:
        raise bad_file(name, str(error)) from error


def with_metadata(passage: Passage, metadata: Mapping[str, object]) -> Passage:
    """Add metadata to a document; the values that it has take precedence."""
    if not metadata:
        return passage
    try:
        return replace(passage, metadata=clean_metadata({**metadata, **passage.metadata}))
    except SourceError as error:
        raise Problem(422, "bad-document", f"Document '{passage.id:.80}': {error}.") from error


class FileResult(Described):
    """What became of an uploaded file."""

    name: str
    documents: int = 0
    """Number of documents that were read."""
    error: str = ""
    """Why no more of it could be read; empty if all was."""
    skipped: list[str] = Field(default_factory=list)
    """Lines and rows that were left out, with the reason."""


@dataclass(frozen=True, slots=True)
class SentDocuments:
    """A request's documents, which can be read only while it is open, and its parameters."""

    documents: Iterable[Passage]
    collection: str | None = None
    chunk_words: int | None = None
    files: list[FileResult] = field(default_factory=list)


@asynccontextmanager
async def documents_of(
    request: Request, reader: FileReader, parse: Callable[[bytes], SentDocuments]
) -> AsyncIterator[SentDocuments]:
    """Read the documents of a body of any kind; its temporary files go at the end of the block.

    Raises:
        Problem: 415 for another content type, 422 for bad content, 503 if there is no room.
        RequestValidationError: JSON, which `parse` reads, does not have the schema.
        HTTPException: 400 for a malformed form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        yield parse(await request.body())
        return
    async with AsyncExitStack() as stack:
        try:
            if kind in ("application/x-ndjson", "application/jsonl"):
                stack.enter_context(reader.reserve(request))
                file = tempfile.TemporaryFile()  # noqa: SIM115 - a false alarm
                stack.callback(_close, file)
                async for block in request.stream():
                    file.write(block)
                file.seek(0)
                documents = SentDocuments(_lines(file, _BODY))
            elif kind == "multipart/form-data":
                stack.enter_context(reader.reserve(request))
                opened = form_of(
                    request, files=reader.settings.files, fields=2 * len(UploadForm.model_fields)
                )
                documents = await _form(await stack.enter_async_context(opened), reader)
            else:
                raise Problem(
                    415,
                    "content-type",
                    "Send application/json, application/x-ndjson (a document on each line) or "
                    "multipart/form-data with files, and say which in content-type.",
                )
        except OSError as error:
            raise not_stored(error) from error
        yield documents


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # of a full disk, which refuses what is still in memory
        file.close()


async def _form(form: FormData, reader: FileReader) -> SentDocuments:
    characters = reader.settings.characters
    uploads = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    if not uploads:
        raise Problem(422, "form", "The form has no file; send at least one part with a filename.")
    reading = UploadForm.of(form)
    texts = (*TEXTS, *reading.as_text)
    results = [FileResult(name=f"{upload.filename or '':.80}") for upload in uploads]
    id_ = reading.id
    if id_:
        if len(results) > 1 or suffix_of(results[0].name) in ROWS:
            raise Problem(422, "form", "`id` is for a single file that is one document.")
        try:
            id_ = parse_record({"id": id_, "text": "any"}).id
        except SourceError as error:
            raise bad_file(results[0].name, f"cannot be stored under that id: {error}") from error
    problems: list[Problem] = []
    streams: list[Iterator[Passage]] = []
    for upload, result in zip(uploads, results, strict=True):
        try:
            result.name = path_name(upload.filename, reading.as_text)
            is_read_whole = suffix_of(result.name) in (*texts, JSON)
            if is_read_whole and (upload.size or 0) > _BYTES_PER_CHARACTER * characters:
                raise bad_file(result.name, f"has more than {characters:,} characters; split it")
            streams.append(
                await reader.read(upload.file, result.name, result.skipped, reading.options, texts)
            )
        except Problem as error:
            if error.status not in UNREADABLE:
                raise
            _note(error, result, problems)
            streams.append(iter(()))

    def documents() -> Iterator[Passage]:
        ids = Ids()
        for result in results:
            stream = streams.pop(0)
            try:
                for document in stream:
                    named = replace(document, id=id_, document=id_) if id_ else document
                    try:
                        ids.claim(named.id, result.name)
                    except SourceError as error:
                        raise bad_file(result.name, f"cannot be stored: {error}") from error
                    whole = with_metadata(named, reading.metadata_of(result.name))
                    result.documents += 1
                    yield whole
            except Problem as error:
                _note(error, result, problems)
            del stream  # with the temporary file of what was not read
            if result.skipped and not result.documents:
                problems.append(bad_file(result.name, f"cannot be read: {result.skipped[0]}"))
        if problems and not any(result.documents for result in results):
            raise problems[0]

    return SentDocuments(documents(), reading.collection or None, reading.chunk_words, results)


def _note(problem: Problem, result: FileResult, problems: list[Problem]) -> None:
    """Note why a file is not read further; others are."""
    problem.__cause__ = problem.__context__ = None  # tracebacks would keep the streams open
    problems.append(problem.with_traceback(None))
    result.error = problem.detail
