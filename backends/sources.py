"""Documents from files and folders, read one after another."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import NoReturn

from backends.documents import (
    CHUNK_WORDS,
    LONGEST_WORDS,
    chunk_passage,
    clean,
    found_document,
    parse_record,
)
from backends.errors import SourceError
from backends.readers.extract import READERS
from backends.readers.found import BadFileError, Limits
from backends.readers.markup import decoded
from backends.readers.sandbox import Sandbox
from backends.types import Metadata, Passage

BEIR_CORPUS = "corpus.jsonl"
LINES = (".jsonl", ".ndjson")
"""Endings of files whose lines are documents each."""
ROWS = (*LINES, ".csv")
"""Endings of files of several documents."""
TEXT = ".txt"
SUFFIXES = (TEXT, *READERS, *LINES)
"""All endings of files that are read."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Of a file that is one document, for an estimate of how many passages it becomes.
_BYTES_PER_PASSAGE = 1_000


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line, or a whole file, that gave no passage.

    Attributes:
        line: 1-based; None for a file as a whole.
    """

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


OnBad = Callable[[BadLine], None]


def refuse(bad: BadLine) -> NoReturn:
    """Stop at the first bad line; the strict way to read.

    Raises:
        SourceError: Always; names file, line and reason.
    """
    raise SourceError(f"{bad}. Correct it, or read leniently to skip such lines.")


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be read.

    Attributes:
        name: Its own, or its path below the folder that is read; the id of its document.
        passages: That it may become.
    """

    name: str
    path: Path
    passages: int

    @property
    def suffix(self) -> str:
        """Ending of its name in small letters, with the dot."""
        return self.path.suffix.lower()


class DocumentSource:
    """A file or a folder: what is in it, and the passages of its documents.

    Attributes:
        files: How many files are read.
        left_out: Ending of a file's name -> how many files of a folder are of no kind that is read.
    """

    def __init__(self, path: str | Path) -> None:
        """Look at what there is; nothing is read yet.

        Args:
            path: A BEIR folder, a file that ends like one of `SUFFIXES`, or a folder of such files
                at any depth; names that begin with a dot are passed over.

        Raises:
            SourceError: There is no such file, or it is of no kind that is read.
        """
        source = Path(path)
        if source.is_dir() and (source / BEIR_CORPUS).is_file():
            source = source / BEIR_CORPUS
        self.left_out = Counter[str]()
        self._is_folder = source.is_dir()
        if self._is_folder:
            self._files = [_file(name, found) for name, found in self._walk(source)]
        elif not source.exists():
            raise SourceError(f"There is no file or folder {source}. Check the path.")
        else:
            self._files = [_file(source.name, source)]
            if source.suffix.lower() not in SUFFIXES:
                raise SourceError(
                    f"{source} is not a file we read. Give a file that ends in "
                    f"{', '.join(SUFFIXES)}, a folder of such files, or a BEIR folder with "
                    f"{BEIR_CORPUS}."
                )
        if not self._files:
            others = f" It holds {in_words(self.left_out)}." if self.left_out else ""
            raise SourceError(
                f"{source} holds neither {BEIR_CORPUS} nor any file that ends in "
                f"{', '.join(SUFFIXES)}.{others} Check the path."
            )
        self.files = len(self._files)
        self._estimated = sum(file.passages for file in self._files)
        self._done = self._found = 0

    def split(self) -> "list[DocumentSource]":
        """Sources of one file each, in order."""
        parts = []
        for file in self._files:
            part = copy(self)
            part._files, part.files, part._estimated = [file], 1, file.passages
            parts.append(part)
        return parts

    @property
    def expected(self) -> int:
        """About how many passages there are; the more was read, the better it is known."""
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
    ) -> Iterator[Passage]:
        """All passages, in the order of lines and of file names.

        Lines stay whole unless `chunk_words` is given or they exceed `LONGEST_WORDS`; all else is
        chunked by `CHUNK_WORDS` unless `chunk_words` says otherwise. Memory holds one document at a
        time, and the ids met so far in a file of several.

        Args:
            chunk_words: Longest chunk, in words.
            metadata: Of every document, which its own goes on top of.
            limits: Of reading a file that is neither text nor lines.
            on_bad: Told of every line and file that gives no passage; by default the first ends the
                reading.
        """
        with Sandbox(limits or Limits()) as sandbox:
            for file in self._files:
                words = chunk_words or (LONGEST_WORDS if file.suffix in LINES else CHUNK_WORDS)
                given = {**self._place(file), **(metadata or {})}
                found = 0
                for document in self._documents(file, sandbox, on_bad):
                    whole = replace(document, metadata={**given, **document.metadata})
                    for passage in chunk_passage(whole, words):
                        found += 1
                        yield passage
                self._done += file.passages
                self._found += found

    def _documents(self, file: _File, sandbox: Sandbox, on_bad: OnBad) -> Iterator[Passage]:
        try:
            if file.suffix in LINES:
                yield from read_lines(file.path, on_bad)
            elif file.suffix == TEXT:
                yield text_document(file.name, file.path.read_bytes())
            else:
                yield from self._found_in(file, sandbox, on_bad)
        except OSError as error:
            on_bad(BadLine(str(file.path), None, f"cannot be read: {error}"))
        except (BadFileError, SourceError) as error:
            on_bad(BadLine(str(file.path), None, str(error)))

    def _found_in(self, file: _File, sandbox: Sandbox, on_bad: OnBad) -> Iterator[Passage]:
        met: set[str] = set()
        for found in sandbox.read(file.path, file.suffix):
            if not found.line:
                title = PurePath(file.name).stem
                yield found_document(found, file.name, title)
                continue
            try:
                yield _once(found_document(found, f"{file.name}:{found.line}", ""), met)
            except SourceError as error:
                on_bad(BadLine(str(file.path), found.line, str(error)))

    def _place(self, file: _File) -> Metadata:
        """Where a document of a folder is, and on which day it was changed; {} for rows."""
        if not self._is_folder or file.suffix in ROWS:
            return {}
        folder = PurePath(file.name).parent.as_posix()
        place = {"path": file.name, "folder": "" if folder == "." else folder}
        try:
            changed = datetime.fromtimestamp(file.path.stat().st_mtime, UTC)
        except OSError:  # which the reading will tell
            return place
        return {**place, "modified": changed.date().isoformat()}

    def _walk(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Relative and full paths of files that are read; the others are counted."""
        for here, folders, files in os.walk(folder, onerror=_unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(here, name)
                if name.startswith("."):
                    continue
                if path.suffix.lower() in SUFFIXES:
                    yield path.relative_to(folder).as_posix(), path
                else:
                    self.left_out[path.suffix.lower()] += 1


def in_words(left_out: Mapping[str, int]) -> str:
    """What was left out, most first, as in "25 .xyz, 1 .png"."""
    most = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {suffix or 'without an ending'}" for suffix, count in most)


def read_lines(path: Path, on_bad: OnBad) -> Iterator[Passage]:
    """One document a line of JSON.

    Raises:
        OSError: The file cannot be read.
    """
    met: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
            if not content:
                continue
            try:
                yield _once(parse_record(_json(content)), met)
            except SourceError as error:
                on_bad(BadLine(str(path), number, str(error)))


def _once(document: Passage, met: set[str]) -> Passage:
    if document.id in met:
        raise SourceError(f"id {document.id!r} came up before in this file")
    met.add(document.id)
    return document


def _json(line: bytes) -> object:
    """What a line of JSON says; NaN and infinities are not JSON."""
    try:
        return json.loads(_decode(line), parse_constant=_not_json)
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"not JSON that we read: {error}") from error
    except RecursionError as error:
        raise SourceError("not JSON that we read: nested too deeply") from error


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
        SourceError: It is empty, or not UTF-8.
    """
    text = clean(_decode(content)).strip()
    return parse_record({"id": name, "title": PurePath(name).stem, "text": text})


def _file(name: str, path: Path) -> _File:
    try:
        if path.suffix.lower() not in ROWS:
            return _File(name, path, 1 + path.stat().st_size // _BYTES_PER_PASSAGE)
        with path.open("rb") as content:
            lines = sum(block.count(b"\n") for block in iter(lambda: content.read(1 << 20), b""))
        return _File(name, path, max(1, lines))
    except OSError:  # which the reading will tell
        return _File(name, path, 1)


def _unreadable(error: OSError) -> NoReturn:
    raise SourceError(f"A folder cannot be read: {error}. Check the rights.") from error
