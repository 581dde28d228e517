"""Forms with files: their parts, the names of files, and the fields that say how to read them."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self

from fastapi import Request
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from wye.backends.documents import METADATA_BYTES, clean_metadata
from wye.backends.errors import SourceError
from wye.backends.readers.decode import known_encoding
from wye.backends.readers.drafts import Options
from wye.backends.sources import ROWS, SUFFIXES
from wye.backends.types import Metadata
from wye.service.http.edge import Strict
from wye.service.http.problems import Problem, not_writable, validated

LONGEST_NAME = 255
_SEPARATORS = re.compile(r"[/\\]")
_ROOT = re.compile(r"[/\\]|[A-Za-z]:")


@asynccontextmanager
async def form_of(request: Request, *, files: int, fields: int) -> AsyncIterator[FormData]:
    """A form of so many parts at most, open for a block; an HTTPException, or `not_stored`."""
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
    component is left. A `Problem` 422 if it is missing or too long, 415 if its kind is not read.
    """
    parts = [part for part in _SEPARATORS.split(raw or "") if part not in ("", ".")]
    if ".." in parts or _ROOT.match(raw or ""):
        parts = parts[-1:]
    name = "/".join(parts)
    if not name.strip("./ ") or not name.isprintable():
        raise Problem(422, "bad-file", "An uploaded file needs a name, as in `notes.txt`.")
    if len(name) > LONGEST_NAME:
        long = f"'{name:.40}…' is too long a name; use at most {LONGEST_NAME} characters."
        raise Problem(422, "bad-file", long)
    if suffix_of(name) not in (*SUFFIXES, *as_text):
        raise Problem(
            415, "file-type", f"'{name:.80}' has an unsupported type; send {', '.join(SUFFIXES)}."
        )
    return name


def suffix_of(name: str) -> str:
    """The suffix of a file's name in lower case, with the dot."""
    return Path(name).suffix.lower()


def _suffixes(text: str) -> tuple[str, ...]:
    suffixes = tuple(filter(None, (part.strip().lower() for part in text.split(","))))
    if wrong := [suffix for suffix in suffixes if not suffix.startswith(".")]:
        raise ValueError(f"'{wrong[0]:.40}' is no suffix, as in .conf")
    return suffixes


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        raise ValueError("send a day, as in 2026-03-01") from None


def _encoding(text: str) -> str:
    try:
        return known_encoding(text)
    except LookupError:
        raise ValueError("it is not known, as cp1252 is") from None


def _metadata(text: str) -> Metadata:
    try:
        if len(text) > 8 * METADATA_BYTES:
            raise SourceError("metadata is too long")
        return clean_metadata(json.loads(text))
    except (ValueError, RecursionError, SourceError) as error:
        why = f" ({error})" if isinstance(error, SourceError) else ""
        raise ValueError(f'send a flat JSON object, as in {{"year": 1894}}{why}') from None


_TEXT = WithJsonSchema({"type": "string"})
_WORDS = WithJsonSchema({"type": "integer", "minimum": 20, "maximum": 2_000})


class UploadForm(Strict):
    """The fields of a form beside its files, which say how to read these, as in `wye index`."""

    id: str = ""
    """Id of the document, instead of the file's name."""
    metadata: Annotated[dict[str, Any], BeforeValidator(_metadata), _TEXT] = Field(default={})
    """A JSON object: metadata for every document."""
    collection: str = ""
    chunk_words: Annotated[int | None, Field(ge=20, le=2_000), _WORDS] = None
    modified: Annotated[str, AfterValidator(_day)] = ""
    """Day of the files' last change, as metadata."""
    encoding: Annotated[str, AfterValidator(_encoding)] = ""
    """Of texts that are not Unicode, as in cp1252."""
    as_text: Annotated[tuple[str, ...], BeforeValidator(_suffixes), _TEXT] = ()
    """Further suffixes of texts, as in .conf,.tex."""
    text_column: Annotated[tuple[str, ...], _TEXT] = ()
    """Column of tables that is the text, alone."""
    title_column: str = ""
    """Column of tables that is the title."""
    header: Annotated[bool | None, WithJsonSchema({"type": "boolean"})] = None
    """Whether tables have a header; default: by looks."""

    @classmethod
    def of(cls, form: FormData) -> Self:
        """Check the fields of a form; a `RequestValidationError` names the wrong ones."""
        fields: dict[str, Any] = {k: v for k, v in form.multi_items() if isinstance(v, str) and v}
        if "text_column" in fields:
            fields["text_column"] = tuple(map(str, form.getlist("text_column")))
        return validated(cls.model_validate, fields)

    @classmethod
    def schema_of_fields(cls) -> dict[str, dict[str, Any]]:
        """The fields in words of OpenAPI."""
        return {
            name: {key: fact for key, fact in field.items() if key not in ("title", "default")}
            for name, field in cls.model_json_schema()["properties"].items()
        }

    @property
    def options(self) -> Options:
        """How the files are read."""
        return Options(self.encoding, self.text_column, self.title_column, self.header)

    def metadata_of(self, name: str) -> dict[str, object]:
        """Metadata for a file's documents; its path says nothing of rows, as in `wye index`."""
        if suffix_of(name) in ROWS:
            return {**self.metadata}
        folder = PurePosixPath(name).parent.as_posix()
        path = {"path": name, "folder": folder} if folder != "." else {}
        modified = {"modified": self.modified} if self.modified else {}
        return {**path, **modified, **self.metadata}
