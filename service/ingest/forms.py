"""Forms with files: their parts, the names of files, and the fields that say how to read them."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from wye.backends.documents import METADATA_BYTES, clean_metadata
from wye.backends.errors import SourceError
from wye.backends.readers.decode import known_encoding
from wye.backends.readers.drafts import Options
from wye.backends.sources import ROWS, SUFFIXES
from wye.service.http.problems import Problem, not_writable

LONGEST_NAME = 255
FIELDS = (
    *("collection", "chunk_words", "metadata", "id", "modified"),
    *("encoding", "as_text", "text_column", "title_column", "header"),
)
_SEPARATORS = re.compile(r"[/\\]")
_ROOT = re.compile(r"[/\\]|[A-Za-z]:")
_TRUTHS = {"": None, "true": True, "false": False}


@asynccontextmanager
async def form_of(request: Request, *, files: int, fields: int) -> AsyncIterator[FormData]:
    """Read a request's form of so many files and fields at most; it is closed after the block.

    Raises:
        HTTPException: 400 if it is no such form, has too many parts, or breaks off.
        Problem: 503; see `not_stored`.
    """
    async with aclosing(request.stream()) as stream:
        try:
            form = await _CompleteFormParser(request, stream, files, fields).parse()
        except MultiPartException as error:
            raise HTTPException(400, error.message) from error
        except KeyError as error:  # the header content-type
            raise HTTPException(415, "Send multipart/form-data with the file.") from error
        except OSError as error:
            raise not_stored(error) from error
        except ValueError as error:  # UnicodeError as well
            raise HTTPException(
                400, "The charset of the form cannot be read; leave it out, it is UTF-8."
            ) from error
    try:
        yield form
    finally:
        await form.close()


def not_stored(error: OSError) -> Problem:
    """The problem (503) of an upload for which the temporary folder has no room."""
    return not_writable("The upload cannot be stored here", error, "a temporary folder (TMPDIR)")


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
    """The last component of a file's name as sent by a client; problems as of `path_name`."""
    return path_name(_SEPARATORS.split(raw or "")[-1])


def path_name(raw: str | None, as_text: tuple[str, ...] = ()) -> str:
    """A file's name with the folders that a client sent before it, as in `notes/a.md`.

    It becomes an id and is never used as a path. Of a path from the root, or with "..", the last
    component is left.

    Raises:
        Problem: 422 if it is missing or too long, 415 for a kind of file that is not read.
    """
    parts = [part for part in _SEPARATORS.split(raw or "") if part not in ("", ".")]
    if ".." in parts or _ROOT.match(raw or ""):
        parts = parts[-1:]
    name = "/".join(parts)
    if not name.strip("./ ") or not name.isprintable():
        raise Problem(422, "bad-file", "An uploaded file needs a name, as in `notes.txt`.")
    if len(name) > LONGEST_NAME:
        raise Problem(
            422,
            "bad-file",
            f"'{name:.40}…' is too long a name; use at most {LONGEST_NAME} characters.",
        )
    if suffix_of(name) not in (*SUFFIXES, *as_text):
        raise Problem(
            415, "file-type", f"'{name:.80}' has an unsupported type; send {', '.join(SUFFIXES)}."
        )
    return name


def suffix_of(name: str) -> str:
    """The suffix of a file's name in lower case, with the dot."""
    return Path(name).suffix.lower()


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """How the files of a form are read, as the options of `wye index` say it.

    Attributes:
        metadata: Of every document that has no such key.
        chunk_words: None for the default.
        as_text: Further suffixes of texts.
        modified: Day of the last change of the files, as in 2026-03-01, or "".
    """

    options: Options
    as_text: tuple[str, ...]
    modified: str
    metadata: Mapping[str, object]
    chunk_words: int | None

    @classmethod
    def of(cls, form: FormData, fields: Mapping[str, str]) -> "UploadOptions":
        """Read the fields, or raise a `Problem` 422 that names the wrong one."""
        if unknown := sorted({*fields} - {*FIELDS}):
            names = ", ".join(FIELDS)
            raise Problem(422, "form", f"There is no field '{unknown[0]:.40}'; use {names}.")
        metadata = _metadata(fields.get("metadata", "{}"))
        chunk_words = _chunk_words(fields.get("chunk_words"))
        suffixes = tuple(part.strip().lower() for part in fields.get("as_text", "").split(","))
        as_text = tuple(filter(None, suffixes))
        if wrong := [suffix for suffix in as_text if not suffix.startswith(".")]:
            raise _bad_field("as_text", f"'{wrong[0]:.40}' is no suffix, as in .conf")
        modified = fields.get("modified", "")
        try:
            modified = date.fromisoformat(modified[:10]).isoformat() if modified else ""
        except ValueError:
            raise _bad_field("modified", "send a day, as in 2026-03-01") from None
        header = fields.get("header", "")
        if header not in _TRUTHS:
            raise _bad_field("header", "send true or false")
        try:
            encoding = known_encoding(fields.get("encoding", ""))
        except LookupError:
            raise _bad_field("encoding", "it is not known, as cp1252 is") from None
        columns = tuple(str(column) for column in form.getlist("text_column"))
        title = fields.get("title_column", "")
        options = Options(encoding, columns, title, _TRUTHS[header])
        return cls(options, as_text, modified, metadata, chunk_words)

    def metadata_of(self, name: str) -> dict[str, object]:
        """Metadata for a file's documents; its path says nothing of rows, as in `wye index`."""
        if suffix_of(name) in ROWS:
            return {**self.metadata}
        folder = PurePosixPath(name).parent.as_posix()
        path = {"path": name, "folder": folder} if folder != "." else {}
        modified = {"modified": self.modified} if self.modified else {}
        return {**path, **modified, **self.metadata}


def _bad_field(name: str, reason: str) -> Problem:
    return Problem(422, "form", f"The field `{name}`: {reason}.")


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
