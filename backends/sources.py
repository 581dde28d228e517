"""Reading documents from files and folders, one after another."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
from pyarrow import parquet

from wye.backends.documents import (
    CHUNK_WORDS,
    LONGEST_TITLE,
    LONGEST_WORDS,
    chunk_passage,
    clean,
    found_document,
    parse_record,
)
from wye.backends.errors import SourceError
from wye.backends.files import open_regular, require_regular
from wye.backends.readers.extract import READERS
from wye.backends.readers.found import BadFileError, Limits
from wye.backends.readers.markup import decoded
from wye.backends.readers.sandbox import Sandbox
from wye.backends.remote_files import RemoteFile, list_files, local_path
from wye.backends.store.source import IndexSource, is_index
from wye.backends.types import Metadata, Passage

BEIR_CORPUS = "corpus.jsonl"
LINES = (".jsonl", ".ndjson")
"""Extensions of files in which each line is a document."""
ROWS = (*LINES, ".csv")
"""Extensions of files with several documents."""
TEXT = ".txt"
SUFFIXES = (TEXT, *READERS, *LINES)
"""Extensions of supported files, also for uploads."""
PARQUET = ".parquet"
"""Also supported, except for uploads."""
_READ = (*SUFFIXES, PARQUET)
_COLUMNS = ("_id", "id", "title", "text", "metadata")

_ONE_FOLDER = "index the folder that holds both files, or rename one"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# For estimating the number of passages of a file that is one document.
_BYTES_PER_PASSAGE = 1_000


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line, or a whole file, that gave no passage.

    Attributes:
        line: 1-based; None for a whole file.
    """

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


OnBad = Callable[[BadLine], None]


class Ids:
    """The ids of the documents that were read, each with the file or the index that it is in."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}
        self._files: set[tuple[str, str]] = set()

    def is_read(self, name: str, source: str) -> bool:
        """Whether a file was read under that name before; notes that it is."""
        known = len(self._files)
        self._files.add((name, source))
        return len(self._files) == known

    def claim(self, id_: str, source: str, advice: str = "give each document its own") -> None:
        """Note which source a document is in.

        Args:
            advice: What to do if another source has that id.

        Raises:
            SourceError: There is a document with its id; names the other source.
        """
        first = self._sources.get(id_)
        if first == source:
            raise SourceError(f"id {id_!r} occurs twice in this file")
        if first is not None:
            raise SourceError(f"id {id_!r} is in {first} as well; {advice}")
        self._sources[id_] = source

    def once(self, document: Passage, source: str, **advice: str) -> Passage:
        """A document whose id no other has; arguments and errors as of `claim`."""
        self.claim(document.id, source, **advice)
        return document

    def first(self, passages: Iterable[tuple[str, Passage]], on_bad: OnBad) -> Iterator[Passage]:
        """Leave out documents whose id an earlier one has, and name them.

        Args:
            passages: Each with its source; those of a document are consecutive.
        """
        document, is_first = None, True
        for source, passage in passages:
            if passage.chunk == 0 or passage.document != document:
                document, is_first = passage.document, True
                try:
                    self.claim(document, source)
                except SourceError as error:
                    is_first = False
                    on_bad(BadLine(source, None, str(error)))
            if is_first:
                yield passage


class _RefusedError(SourceError):
    """A bad line ended the reading."""


def refuse(bad: BadLine) -> NoReturn:
    """Stop at the first bad line, for strict reading.

    Raises:
        SourceError: Always; names file, line and reason.
    """
    raise _RefusedError(
        f"{bad}. Correct it, or skip such lines: without --strict, or in Python with on_bad."
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read.

    Attributes:
        name: Name of the file, or its path relative to the folder; the id of its document.
        passages: Estimated number of its passages.
    """

    name: str
    path: Path | RemoteFile
    passages: int

    @property
    def suffix(self) -> str:
        """Extension in lower case, with the dot."""
        return PurePosixPath(self.name).suffix.lower()

    @property
    def shown(self) -> str:
        """Its path, for messages."""
        return str(self.path) if isinstance(self.path, Path) else self.path.place

    def here(self) -> AbstractContextManager[Path]:
        """Context manager that gives the local path of the file.

        Raises:
            OSError: It cannot be fetched.
        """
        return nullcontext(self.path) if isinstance(self.path, Path) else self.path.fetched()

    def modified(self) -> datetime | None:
        """When it was last modified; None if that is unknown.

        Raises:
            OSError: The file is missing.
        """
        if isinstance(self.path, Path):
            return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
        return self.path.modified


class DocumentSource:
    """A file or a folder, and the passages of its documents.

    Attributes:
        files: Number of files that are read.
        left_out: Extension -> number of files in the folder that are skipped as unsupported.
    """

    def __init__(self, path: str | Path) -> None:
        """List the files; reading begins with `passages`.

        Args:
            path: A BEIR folder, a file with one of `SUFFIXES` or .parquet, or a folder of such
                files at any depth (names that begin with a dot are skipped); or the address of
                these in an object store, see `remote_files`.

        Raises:
            SourceError: There is no such file, or its kind is not supported.
        """
        self.left_out = Counter[str]()
        source = local_path(path)
        if source is None:
            self._is_folder, self._files = self._listed(str(path))
        else:
            self._is_folder, self._files = self._found_at(source)
        if not self._files:
            others = f" It contains {in_words(self.left_out)}." if self.left_out else ""
            raise SourceError(
                f"{path} contains neither {BEIR_CORPUS} nor a file that ends in "
                f"{', '.join(_READ)}.{others} Check the path."
            )
        self.files = len(self._files)
        self._estimated = sum(file.passages for file in self._files)
        self._done = self._found = 0

    def _found_at(self, source: Path) -> tuple[bool, list[_File]]:
        """Whether a path is a folder, and its files."""
        corpus = source / BEIR_CORPUS
        if corpus.exists() and not corpus.is_dir():
            source = corpus
        if source.is_dir():
            return True, [_file(name, found) for name, found in self._walk(source)]
        if not source.exists():
            raise SourceError(f"There is no file or folder {source}. Check the path.")
        _require_read(source.name)
        try:
            require_regular(source)
        except SourceError as error:
            raise SourceError(f"{source} {error}.") from None
        return False, [_file(source.name, source)]

    def _listed(self, address: str) -> tuple[bool, list[_File]]:
        """Whether an address is a folder, and its files."""
        is_folder, found = list_files(address)
        corpus = [file for file in found if file.name == BEIR_CORPUS]
        if not is_folder or corpus:
            (one,) = corpus or found
            _require_read(one.name)
            return False, [_remote(one)]
        hidden = (any(part.startswith(".") for part in file.name.split("/")) for file in found)
        files = [file for file, is_hidden in zip(found, hidden, strict=True) if not is_hidden]
        return True, [_remote(file) for file in files if self._is_read(file.name)]

    def _is_read(self, name: str) -> bool:
        """Whether a file of a folder is supported; others are counted in `left_out`."""
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in _READ:
            self.left_out[suffix] += 1
        return suffix in _READ

    def split(self) -> "list[DocumentSource]":
        """Sources of one file each, in order."""
        parts = []
        for file in self._files:
            part = copy(self)
            part._files, part.files, part._estimated = [file], 1, file.passages
            parts.append(part)
        return parts

    @property
    def shown(self) -> str:
        """The path of its first file, for messages."""
        return self._files[0].shown

    @property
    def expected(self) -> int:
        """Estimated number of passages, which gets better the more has been read."""
        if not self._done:
            return self._estimated
        left = self._estimated - self._done
        return self._found + round(left * self._found / self._done)

    def passages(
        self,
        *,
        chunk_words: int | None = None,
        metadata: Metadata | None = None,
        limits: Limits | None = None,
        on_bad: OnBad = refuse,
        on_note: Callable[[str], None] = lambda _: None,
        ids: Ids | None = None,
    ) -> Iterator[Passage]:
        """All passages, in the order of file names and of lines.

        Lines of JSON and rows of Parquet stay whole unless `chunk_words` is given or they exceed
        `LONGEST_WORDS`; all else is chunked by `CHUNK_WORDS` by default. Memory holds one document
        at a time, and the ids so far.

        Args:
            chunk_words: Longest chunk, in words.
            metadata: Metadata of every document; a document's own takes precedence.
            limits: Limits for reading a file that is neither text nor lines.
            on_bad: Called for every line and file that gives no passage; by default the first is an
                error.
            on_note: Called once for a table whose text or title is a column of another name.
            ids: Those of documents of other sources, which documents here may not have.

        Raises:
            SourceError: `chunk_words` is below 1.
        """
        ids = ids or Ids()
        with Sandbox(limits or Limits()) as sandbox:
            for file in self._files:
                if ids.is_read(file.name, file.shown):
                    continue  # by a source before this one
                is_whole = file.suffix in (*LINES, PARQUET)
                words = LONGEST_WORDS if is_whole else CHUNK_WORDS
                if chunk_words is not None:
                    words = chunk_words
                given = {**self._place(file), **(metadata or {})}
                found = 0
                for document in self._documents(file, sandbox, ids, on_bad, on_note):
                    whole = replace(document, metadata={**given, **document.metadata})
                    for passage in chunk_passage(whole, words):
                        found += 1
                        yield passage
                self._done += file.passages
                self._found += found

    def _documents(
        self,
        file: _File,
        sandbox: Sandbox,
        ids: Ids,
        on_bad: OnBad,
        on_note: Callable[[str], None],
    ) -> Iterator[Passage]:
        def note(bad: BadLine) -> None:
            on_bad(replace(bad, file=file.shown))

        once = partial(ids.once, source=file.shown)
        try:
            with file.here() as path, open_regular(path) as content:
                if file.suffix in LINES:
                    yield from read_lines(content, note, once)
                elif file.suffix == PARQUET:
                    yield from _read_parquet(content, note, once)
                elif file.suffix == TEXT:
                    yield once(text_document(file.name, content.read()), advice=_ONE_FOLDER)
                elif file.suffix in ROWS:
                    rows = sandbox.read(content, file.suffix)
                    # The ids of its rows begin like this.
                    ids.claim(f"{file.name}:…", file.shown, _ONE_FOLDER)
                    for found in rows:
                        if found.note:
                            on_note(f"{file.shown}: {found.note}.")
                        try:
                            yield once(found_document(found, file.name))
                        except SourceError as error:
                            note(BadLine("", found.line, str(error)))
                else:
                    for found in sandbox.read(content, file.suffix):
                        yield once(found_document(found, file.name), advice=_ONE_FOLDER)
        except _RefusedError:
            raise
        except OSError as error:
            note(BadLine("", None, f"cannot be read: {error}"))
        except (BadFileError, SourceError) as error:
            note(BadLine("", None, str(error)))

    def _place(self, file: _File) -> Metadata:
        """Metadata on the path and the modification date of a document of a folder; {} for rows."""
        if not self._is_folder or file.suffix in (*ROWS, PARQUET):
            return {}
        folder = PurePath(file.name).parent.as_posix()
        place = {"path": file.name, "folder": "" if folder == "." else folder}
        try:
            changed = file.modified()
        except OSError:  # reported when the file is read
            return place
        return {**place, "modified": changed.date().isoformat()} if changed else place

    def _walk(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Relative and full paths of supported files; others are counted in `left_out`."""
        for here, folders, files in os.walk(folder, onerror=_unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(here, name)
                if not name.startswith(".") and self._is_read(name):
                    yield path.relative_to(folder).as_posix(), path


def open_source(path: str | Path) -> DocumentSource | IndexSource:
    """Open what documents are read from: an index, or files.

    Raises:
        BackendError: The path is missing, of a kind that is not read, or a damaged index.
    """
    folder = local_path(path)
    return IndexSource(folder) if folder and is_index(folder) else DocumentSource(path)


def in_words(left_out: Mapping[str, int]) -> str:
    """Skipped files by extension, most first, as in "25 .xyz, 1 .png"."""
    most = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {suffix or 'without an ending'}" for suffix, count in most)


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number, from 1, and content of each line that is not blank.

    Raises:
        OSError: The file cannot be read.
    """
    for number, line in enumerate(file, 1):
        content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
        if content:
            yield number, content


def read_lines(
    file: BinaryIO, on_bad: OnBad, once: Callable[[Passage], Passage]
) -> Iterator[Passage]:
    """One document per line of JSON.

    Args:
        once: Refuses a document whose id another one has, with a `SourceError`.

    Raises:
        OSError: The file cannot be read.
    """
    for number, line in numbered_lines(file):
        try:
            yield once(parse_record(parse_json(line)))
        except SourceError as error:
            on_bad(BadLine("", number, str(error)))


def _read_parquet(
    file: BinaryIO, on_bad: OnBad, once: Callable[[Passage], Passage]
) -> Iterator[Passage]:
    """One document per row; arguments as of `read_lines`.

    Raises:
        OSError: The file cannot be read.
        SourceError: It is not a Parquet file that we can read.
    """
    try:
        opened = parquet.ParquetFile(file)
        columns = [name for name in _COLUMNS if name in opened.schema_arrow.names]
        batches = opened.iter_batches(512, columns=columns)
        rows: Iterable[dict[str, Any]] = chain.from_iterable(map(_to_rows, batches))
        for number, row in enumerate(rows, 1):
            try:
                yield once(parse_record(row))
            except SourceError as error:
                on_bad(BadLine("", number, str(error)))
    except pa.ArrowException as error:
        said = str(error).partition("\n")[0]
        raise SourceError(f"cannot be read as a Parquet file: {said}") from error


def _to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as `parse_record` takes them; metadata may be a struct or a map."""
    return [
        {name: _plain(value) for name, value in row.items() if value is not None}
        for row in batch.to_pylist(maps_as_pydicts="lossy")
    ]


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items() if own is not None}
    return value.isoformat() if isinstance(value, date) else value


def parse_json(line: bytes) -> object:
    """The value of a line of JSON; NaN and infinities are not JSON.

    Raises:
        SourceError: It is no JSON; says why.
    """
    try:
        return json.loads(_decode(line), parse_constant=_not_json)
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"not readable as JSON: {error}") from error
    except RecursionError as error:
        raise SourceError("not readable as JSON: nested too deeply") from error


def _not_json(name: str) -> NoReturn:
    raise SourceError(f"not JSON: {name} is not a number")


def _decode(content: bytes) -> str:
    try:
        return decoded(content)
    except BadFileError as error:
        raise SourceError(str(error)) from error


def text_document(name: str, content: bytes) -> Passage:
    """The content of a .txt file as one document, whose id is the file's name.

    Raises:
        SourceError: The content is empty, or not UTF-8.
    """
    text = clean(_decode(content)).strip()
    return parse_record({"id": name, "title": PurePath(name).stem[:LONGEST_TITLE], "text": text})


def _require_read(name: str) -> None:
    if PurePosixPath(name).suffix.lower() not in _READ:
        raise SourceError(
            f"{name} has an unsupported type. Give a file that ends in {', '.join(_READ)}, a "
            f"folder of such files, or a BEIR folder with {BEIR_CORPUS}."
        )


def _remote(file: RemoteFile) -> _File:
    return _File(file.name, file, 1 + file.size // _BYTES_PER_PASSAGE)


def _file(name: str, path: Path) -> _File:
    try:
        with open_regular(path) as content:
            if path.suffix.lower() == PARQUET:
                return _File(name, path, max(1, parquet.read_metadata(content).num_rows))
            if path.suffix.lower() not in ROWS:
                return _File(name, path, 1 + path.stat().st_size // _BYTES_PER_PASSAGE)
            lines = sum(block.count(b"\n") for block in iter(lambda: content.read(1 << 20), b""))
            return _File(name, path, max(1, lines))
    except (OSError, SourceError, pa.ArrowException):  # reported when the file is read
        return _File(name, path, 1)


def _unreadable(error: OSError) -> NoReturn:
    raise SourceError(f"A folder cannot be read: {error}. Check the permissions.") from error
