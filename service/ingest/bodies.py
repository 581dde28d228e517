"""Reads documents from the body of a request: JSON, JSON lines, or a form with files."""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from pydantic import BaseModel, Field
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from wye.backends.chunks import CHUNK_WORDS, chunk_passage
from wye.backends.documents import METADATA_BYTES, clean_metadata, document_of, parse_record
from wye.backends.errors import SourceError
from wye.backends.readers.drafts import BadFileError, Draft, Limits
from wye.backends.readers.records import BadLine, Ids, read_lines, text_document
from wye.backends.readers.sandbox import Sandbox
from wye.backends.sources import LINES, ROWS, SUFFIXES, TEXTS
from wye.backends.types import Passage
from wye.service.batching import Room
from wye.service.http.edge import MOST_VALUES, JsonValues
from wye.service.http.problems import Problem, not_writable
from wye.service.settings import DocumentSettings

UNREADABLE = 422
LONGEST_ID = 512
LONGEST_NAME = 255
UPLOAD = "wye-upload-"
"""Prefix of an upload's temporary folder; the number of the process follows."""
_SEPARATORS = re.compile(r"[/\\]")
_BODY = "The body"
# Most bytes of a line of JSON; parsing a longer one would block everything else.
_LONGEST_LINE = 4_194_304
_BYTES_PER_CHARACTER = 4  # at most, in UTF-8
# The temporary disk has room for so many uploads of the greatest length, or more shorter ones.
_UPLOADS = 4
# Files that are read at once, and files that may wait for that.
_READERS = 2
_WAITING = 16
_FIELDS = ("collection", "chunk_words", "metadata", "id")


@asynccontextmanager
async def form_of(request: Request, *, files: int, fields: int) -> AsyncIterator[FormData]:
    """Read a request's form; it is closed at the end of the block.

    Args:
        files: Most files.
        fields: Most fields.

    Raises:
        HTTPException: 400 if it is no such form, has too many parts, or breaks off.
    """
    async with aclosing(request.stream()) as stream:
        try:
            form = await _CompleteFormParser(request, stream, files, fields).parse()
        except MultiPartException as error:
            raise HTTPException(400, error.message) from error
        except ValueError as error:  # UnicodeError as well
            raise HTTPException(
                400, "The charset of the form cannot be read; leave it out, it is UTF-8."
            ) from error
    try:
        yield form
    finally:
        await form.close()


class _CompleteFormParser(MultiPartParser):
    """A parser that refuses truncated forms; Starlette's silently drops the truncated part."""

    def __init__(
        self, request: Request, stream: AsyncGenerator[bytes], files: int, fields: int
    ) -> None:
        super().__init__(
            request.headers, self._checked_stream(stream), max_files=files, max_fields=fields
        )
        self._has_ended = False

    def on_end(self) -> None:
        self._has_ended = True

    async def _checked_stream(self, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async for block in stream:
            yield block
        if not self._has_ended:
            raise MultiPartException(
                "The form breaks off before its last boundary, so nothing of it is stored."
            )


def base_name(raw: str | None) -> str:
    """The last component of a file's name as sent by a client.

    It becomes an id and is never used as a path.

    Raises:
        Problem: 422 if it is missing or too long, 415 for a kind of file that is not read.
    """
    name = _SEPARATORS.split(raw or "")[-1]
    if not name.strip(". ") or not name.isprintable():
        raise Problem(422, "bad-file", "An uploaded file needs a name, as in `notes.txt`.")
    if len(name) > LONGEST_NAME:
        raise Problem(
            422,
            "bad-file",
            f"'{name:.40}…' is too long a name; use at most {LONGEST_NAME} characters.",
        )
    if suffix_of(name) not in SUFFIXES:
        raise Problem(
            415,
            "file-type",
            f"'{name:.80}' has an unsupported type; send {', '.join(SUFFIXES)}.",
        )
    return name


def suffix_of(name: str) -> str:
    """The suffix of a file's name in lower case, with the dot."""
    return Path(name).suffix.lower()


class FileReader:
    """Reads uploaded files; all but text and lines in processes with limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(_READERS)
        self._room = Room(
            _READERS + _WAITING, "Many files are waiting to be read. Try again.", retry_after=5
        )

    async def read(
        self, path: Path, name: str, skipped: list[str] | None = None
    ) -> Iterator[Passage]:
        """Read the documents in a file; one that is a single document has the file's name as id.

        Args:
            skipped: Where bad lines and rows are noted; without it, the first is a problem.

        Consume them in another thread: a document is cleaned when it is reached.

        Raises:
            Problem: 422 if the file cannot be read, for bad text, a bad line or row not before that
                is reached; 503 if too many files wait.
        """
        suffix = suffix_of(name)
        if suffix in LINES:
            return _lines(path, name, skipped)
        if not path.stat().st_size:
            raise bad_file(name, "is empty")
        if suffix in TEXTS:
            return _text(path, name)
        try:
            with self._room.reserve():
                async with self._slots:
                    # If the client leaves, closing the sandbox ends the thread's wait.
                    with Sandbox(self._limits) as sandbox, path.open("rb") as file:
                        drafts = await asyncio.to_thread(sandbox.read, file, suffix)
        except BadFileError as error:
            raise bad_file(name, str(error)) from error
        return _documents(drafts, name, skipped)


def bad_file(name: str, reason: str) -> Problem:
    """The problem of a file that yields no document."""
    return Problem(422, "bad-file", f"'{name:.80}' {reason}.")


def _text(path: Path, name: str) -> Iterator[Passage]:
    """The only document of a text file."""
    try:
        yield text_document(name, path.read_bytes())[0]
    except SourceError as error:
        raise bad_file(name, str(error)) from error


def _documents(drafts: Iterable[Draft], name: str, skipped: list[str] | None) -> Iterator[Passage]:
    """The documents that a reader of files drafted."""
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


def _lines(path: Path, name: str, skipped: list[str] | None = None) -> Iterator[Passage]:
    """The documents of a file with a JSON object on each line."""

    def refuse(bad: BadLine) -> None:
        if skipped is None:
            raise bad_file(name, f"cannot be read: line {bad.line}: {bad.reason}")
        skipped.append(f"line {bad.line}: {bad.reason}")

    def bounded() -> Iterator[bytes]:
        """The lines, each of which may be parsed."""
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise bad_file(
                    name, f"cannot be read: line {number} has more than {_LONGEST_LINE:,} bytes"
                )
            if len(line) > MOST_VALUES and JsonValues().add(line) > MOST_VALUES:
                raise bad_file(
                    name, f"cannot be read: line {number} has more than {MOST_VALUES:,} values"
                )
            yield line

    with path.open("rb") as file:
        if not path.stat().st_size:
            raise bad_file(name, "is empty")
        file_name = "" if name == _BODY else name
        once = partial(Ids().once, source=name)
        yield from read_lines(bounded(), refuse, once, name=file_name)


def with_metadata(passage: Passage, metadata: Mapping[str, object]) -> Passage:
    """Add metadata to a document; the values that it has take precedence."""
    if not metadata:
        return passage
    try:
        return replace(passage, metadata=clean_metadata({**metadata, **passage.metadata}))
    except SourceError as error:
        raise Problem(422, "bad-document", f"Document '{passage.id:.80}': {error}.") from error


class FileResult(BaseModel):
    """What became of an uploaded file."""

    name: str
    documents: int = Field(default=0, description="Number of documents that were read.")
    error: str = Field(default="", description="Why no more of it could be read; empty if all was.")
    skipped: list[str] = Field(
        default_factory=list, description="Lines and rows that were left out, with the reason."
    )


@dataclass(frozen=True, slots=True)
class SentDocuments:
    """A request's documents, which can be read only while it is open, and its parameters."""

    documents: Iterable[Passage]
    collection: str | None = None
    chunk_words: int | None = None
    files: list[FileResult] = field(default_factory=list)


class UploadSpace:
    """Limits the bytes of uploads on the temporary disk, which may be in memory."""

    def __init__(self, upload_bytes: int) -> None:
        """Make room for a few uploads of the greatest length."""
        self._upload_bytes = upload_bytes
        full = "Other uploads use all of the space. Try again."
        self._room = Room(_UPLOADS * upload_bytes, full, retry_after=5)

    @contextmanager
    def reserve(self, request: Request, copies: int) -> Iterator[Path]:
        """A temporary folder for a request's body, deleted at the end of the block.

        Args:
            copies: How often the body is written there.

        Raises:
            Problem: 503 while other uploads take all the room.
        """
        header = request.headers.get("content-length", "")
        size = copies * (int(header) if header.isdigit() else self._upload_bytes)
        prefix = f"{UPLOAD}{os.getpid()}-"
        with self._room.reserve(size), tempfile.TemporaryDirectory(prefix=prefix) as name:
            yield Path(name)


@asynccontextmanager
async def documents_of(
    request: Request,
    settings: DocumentSettings,
    reader: FileReader,
    space: UploadSpace,
    parse: Callable[[bytes], SentDocuments],
) -> AsyncIterator[SentDocuments]:
    """Read the documents of a body of any kind; its temporary files go at the end of the block.

    Args:
        parse: Reads a JSON body.

    Raises:
        Problem: 415 for another content type, 422 for bad content, 503 if there is no room.
        RequestValidationError: The JSON does not have the schema.
        HTTPException: 400 for a malformed form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        yield parse(await request.body())
        return
    with ExitStack() as stack:
        try:
            if kind in ("application/x-ndjson", "application/jsonl"):
                path = stack.enter_context(space.reserve(request, 1)) / "body.jsonl"
                with path.open("wb") as file:
                    async for block in request.stream():
                        file.write(block)
                documents = SentDocuments(_lines(path, _BODY))
            elif kind == "multipart/form-data":
                folder = stack.enter_context(space.reserve(request, 2))
                async with form_of(request, files=settings.files, fields=len(_FIELDS)) as form:
                    documents = await _form(form, folder, reader, settings.characters)
            else:
                raise Problem(
                    415,
                    "content-type",
                    "Send application/json, application/x-ndjson (a document on each line) or "
                    "multipart/form-data with files, and say which in content-type.",
                )
        except OSError as error:
            failure = "The upload cannot be stored here"
            raise not_writable(failure, error, "a temporary folder (TMPDIR)") from error
        yield documents


def passage_of(id: str, **record: object) -> Passage:  # noqa: A002 - the word of the API
    """A document sent as JSON, cleaned; a `Problem` 422 for what its schema does not rule out."""
    try:
        return parse_record({"id": id, **record})
    except SourceError as error:
        raise Problem(422, "bad-document", f"Document '{id:.80}': {error}.") from error


async def _form(form: FormData, folder: Path, reader: FileReader, characters: int) -> SentDocuments:
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    if unknown := sorted({*fields} - {*_FIELDS}):
        raise Problem(
            422, "form", f"There is no field '{unknown[0]:.40}'; use {', '.join(_FIELDS)}."
        )
    uploads = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    if not uploads:
        raise Problem(422, "form", "The form has no file; send at least one part with a filename.")
    metadata = _metadata(fields.get("metadata", "{}"))
    names = [base_name(upload.filename) for upload in uploads]
    id_ = fields.get("id")
    if id_ is not None:
        if len(names) > 1 or suffix_of(names[0]) in ROWS:
            raise Problem(422, "form", "`id` is for a single file that is one document.")
        try:
            id_ = parse_record({"id": id_, "text": "any"}).id
        except SourceError as error:
            raise bad_file(names[0], f"cannot be stored under that id: {error}") from error
    results = [FileResult(name=name) for name in names]
    problems: list[Problem] = []
    streams: list[Iterator[Passage]] = []
    for number, (upload, result) in enumerate(zip(uploads, results, strict=True)):
        try:
            if suffix_of(result.name) in TEXTS and (upload.size or 0) > (
                _BYTES_PER_CHARACTER * characters
            ):
                raise bad_file(result.name, f"has more than {characters:,} characters; split it")
            # Never under its own name, which the client chose.
            path = folder / str(number)
            await asyncio.to_thread(_copy, upload.file, path)
            streams.append(await reader.read(path, result.name, result.skipped))
        except Problem as error:
            if error.status != UNREADABLE:
                raise
            _note(error, result, problems)
            streams.append(iter(()))

    def documents() -> Iterator[Passage]:
        ids = Ids()
        for result in results:
            stream = streams.pop(0)
            try:
                for document in stream:
                    named = document if id_ is None else replace(document, id=id_, document=id_)
                    try:
                        ids.claim(named.id, result.name)
                    except SourceError as error:
                        raise bad_file(result.name, f"cannot be stored: {error}") from error
                    whole = with_metadata(named, metadata)
                    result.documents += 1
                    yield whole
            except Problem as error:
                _note(error, result, problems)
            del stream  # with the temporary file of what was not read
            if result.skipped and not result.documents:
                problems.append(bad_file(result.name, f"cannot be read: {result.skipped[0]}"))
        if problems and not any(result.documents for result in results):
            raise problems[0]

    chunk_words = _chunk_words(fields.get("chunk_words"))
    return SentDocuments(documents(), fields.get("collection"), chunk_words, results)


def _note(problem: Problem, result: FileResult, problems: list[Problem]) -> None:
    """Note why a file is not read further; others are."""
    # Its traceback has this list, and both would outlive the request's files.
    problems.append(problem.with_traceback(None))
    result.error = problem.detail


def _copy(source: BinaryIO, path: Path) -> None:
    with path.open("wb") as file:
        shutil.copyfileobj(source, file)


def _metadata(text: str) -> Mapping[str, object]:
    try:
        if len(text) > 8 * METADATA_BYTES:
            raise SourceError("metadata is too long")
        return clean_metadata(json.loads(text))
    except (ValueError, RecursionError, SourceError) as error:
        why = f" ({error})" if isinstance(error, SourceError) else ""
        raise Problem(
            422,
            "form",
            f'The field `metadata` is not a flat JSON object, as in {{"year": 1894}}{why}.',
        ) from error


def _chunk_words(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal() and len(text) <= 4 and 20 <= int(text) <= 2_000:
        return int(text)
    raise Problem(422, "form", "The field `chunk_words` must be a whole number from 20 to 2000.")


def cut(
    documents: Iterable[Passage], words: int | None, settings: DocumentSettings
) -> Iterator[Passage]:
    """Cut documents into passages of at most so many words.

    Raises:
        Problem: 422 for a document that is too long, comes twice or cannot be stored.
    """
    characters = settings.characters
    ids: set[str] = set()
    try:
        for document in documents:
            if len(document.id) > LONGEST_ID:
                raise _bad_document(document, f"has an id of more than {LONGEST_ID} characters")
            if document.id in ids:
                raise _bad_document(document, "occurs twice in the request; send it once")
            ids.add(document.id)
            if len(document.text) > characters:
                raise _bad_document(
                    document,
                    f"has {len(document.text):,} characters, but the limit is {characters:,}; "
                    "split it",
                )
            yield from chunk_passage(document, words or CHUNK_WORDS)
    except SourceError as error:
        raise Problem(422, "bad-document", f"A document cannot be stored: {error}.") from error


def _bad_document(document: Passage, reason: str) -> Problem:
    return Problem(422, "bad-document", f"Document '{document.id:.80}' {reason}.")
