"""Documents that are JSON or rows of Parquet, their ids, and lines that give none."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, NoReturn, TypeGuard

import pyarrow as pa
from pyarrow import parquet

from wye.backends.documents import document_of, parse_record
from wye.backends.errors import SourceError
from wye.backends.readers.decode import decoded, utf8_lines
from wye.backends.readers.drafts import DEFAULT, ROW, BadFileError, Draft, Options, flat
from wye.backends.readers.tables import as_text, documents_of_rows
from wye.backends.types import Passage


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line, or a whole file, that gave no passage."""

    file: str
    line: int | None  # 1-based; None for a whole file
    reason: str

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{location}: {self.reason}"


OnBad = Callable[[BadLine], None]


class Ids:
    """The ids of the documents that were read, each with the file or the index that it is in.

    Attributes:
        files: Id of a document -> absolute path or address of its file.
    """

    def __init__(self, former: Mapping[str, str] | None = None) -> None:
        """Begin with no ids; `former` is what `files` was after earlier runs."""
        self._former = former or {}
        self.files: dict[str, str] = {}
        self._replaced: dict[tuple[str, str], list[str]] = {}
        self._sources: dict[str, str] = {}
        self._files: set[tuple[str, str]] = set()

    def is_read(self, name: str, source: str) -> bool:
        """Whether a file was read under that name before; notes that it is."""
        count_before = len(self._files)
        self._files.add((name, source))
        return len(self._files) == count_before

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

    def of_record(self, document: Passage, source: str, file: str) -> Passage:
        """As `once`, for a document that brings its id along; `file` is as in `files`."""
        self.claim(document.id, source)
        former = self._former.get(document.id, file)
        if former != file and Path(former).exists():
            self._replaced.setdefault((former, file), []).append(document.id)
        return document

    @property
    def replacements(self) -> list[str]:
        """A sentence for each file with ids that another file, which still exists, gave before."""
        return [
            f"{file} has ids of {former}, which was indexed before: {', '.join(ids[:3])} "
            f"({len(ids):,} in all). The later documents replace those of the former file, so give "
            "each an id of its own if both are meant"
            for (former, file), ids in self._replaced.items()
        ]

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


class RefusedError(SourceError):
    """A bad line ended the reading."""


def refuse(bad: BadLine) -> NoReturn:
    """Stop at the first bad line.

    Raises:
        SourceError: Always; names file, line and reason.
    """
    raise RefusedError(f"{bad}. Correct it, or skip such lines with on_bad.")


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COLUMNS = ("_id", "id", "title", "text", "metadata")


def numbered_lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Number, from 1, and content of each line that is not blank.

    Raises:
        OSError: The file cannot be read.
    """
    for number, line in enumerate(file, 1):
        content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
        if content:
            yield number, content


def read_lines(
    file: Iterable[bytes],
    on_bad: OnBad,
    once: Callable[[Passage], Passage],
    options: Options = DEFAULT,
    name: str = "",
) -> Iterator[Passage]:
    """One document per line of JSON.

    If the first line has neither a text nor an `_id`, as in an export, the lines are rows of a
    table; see `documents_of_rows`.

    Args:
        once: Refuses a document whose id another one has, with a `SourceError`.
        name: The file's name. The id of a line without one begins with it, as that of a table's
            row does; without a name such a line is refused, and so is a table.

    Raises:
        BadFileError: The table lacks a column that the options name.
        OSError: The file cannot be read.
    """
    parsed = _parsed(utf8_lines(file, options.encoding), on_bad)
    first = next(parsed, None)
    records = chain([] if first is None else [first], parsed)
    row = first[1] if first else None
    if name and row and isinstance(row, dict) and row.keys().isdisjoint(("_id", "text")):
        while rows := [*islice(records, _ROWS_AT_ONCE)]:
            for draft in _rows(rows, options):
                try:
                    yield once(document_of(draft, name))
                except SourceError as error:
                    on_bad(BadLine("", draft.line, str(error)))
        return
    for number, record in records:
        try:
            lacks_id = isinstance(record, dict) and record.get("_id", record.get("id")) is None
            line_id = {"_id": f"{name}:{number}"} if name and lacks_id else {}
            yield once(parse_record({**record, **line_id} if isinstance(record, dict) else record))
        except SourceError as error:
            on_bad(BadLine("", number, str(error)))


_ROWS_AT_ONCE = 10_000
"""Rows of a table of JSON that are in memory, and by which its columns are told apart."""
_MOST_COLUMNS = 256
_LONGEST_NAME = 1_024
_MOST_CELLS = 1 << 22  # cells of rows whose columns are told apart together, empty ones too


def _parsed(lines: Iterable[bytes], on_bad: OnBad) -> Iterator[tuple[int, object]]:
    """Number and value of each line that is JSON."""
    for number, line in numbered_lines(lines):
        try:
            yield number, parse_json(line)
        except SourceError as error:
            on_bad(BadLine("", number, str(error)))


def read_json(content: bytes, name: str, options: Options = DEFAULT) -> Iterator[Draft]:
    """The rows of a JSON file that has a list of objects; else one document with its text.

    The file is such a list, or has one beside plain values.

    Raises:
        BadFileError: It is in no known encoding, or lacks a column that the options name.
    """
    try:
        value = parse_json(content.removeprefix(_BYTE_ORDER_MARK))
    except SourceError:  # in another encoding, or with comments, as settings have them
        value = None
    beside: Mapping[str, object] = {}
    if isinstance(value, dict):
        key = next((key for key, each in value.items() if _is_table(each)), None)
        beside = {other: each for other, each in value.items() if other != key}
        is_plain = not any(isinstance(each, list | dict) for each in beside.values())
        value = value.get(key) if is_plain else None
    if _is_table(value):
        labels = {key: each for key, each in beside.items() if each and isinstance(each, str)}
        yield from _rows([*enumerate(value, 1)], options, labels)
    else:
        text, note = decoded(content, options.encoding)
        if not text.strip():
            raise BadFileError("is empty")
        yield Draft(PurePath(name).name, [(ROW, line) for line in text.splitlines()], note=note)


def _is_table(value: object) -> TypeGuard[list[dict[str, object]]]:
    """Whether a value is a list of objects of much the same form."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return False
    return 0 < len({key for each in value for key in each}) <= _MOST_COLUMNS


def _rows(
    rows: Sequence[tuple[int, object]], options: Options, labels: Mapping[str, str] = {}
) -> Iterator[Draft]:
    """A row for each object with its number in the file; `labels` are of all."""
    cells = []
    for number, row in rows:
        try:
            values = flat(row if isinstance(row, dict) else {}, " ", _LONGEST_NAME)
            cells.append((number, {name: _cell(value) for name, value in values}))
        except BadFileError as error:
            yield Draft(line=number, error=str(error))
    yield from _table(cells, options, labels)


def _table(
    cells: Sequence[tuple[int, dict[str, str]]], options: Options, labels: Mapping[str, str]
) -> Iterator[Draft]:
    columns = [*dict.fromkeys(chain.from_iterable(row for _, row in cells))]
    if not columns:
        yield from (Draft(line=number, error="text is empty") for number, _ in cells)
        return
    if (half := len(cells) // 2) and len(cells) * len(columns) > _MOST_CELLS:
        for part in (cells[:half], cells[half:]):
            yield from _table(part, options, labels)
        return
    lines = [(number, [row.get(column, "") for column in columns]) for number, row in cells]
    options = replace(options, has_header=True)
    yield from documents_of_rows([(0, columns), *lines], options, labels)


def _cell(value: object) -> str:
    """The text of a value, or of the values in a list."""
    if not isinstance(value, list | dict):
        return as_text(value)
    is_plain = isinstance(value, list) and not any(isinstance(i, list | dict) for i in value)
    return ", ".join(map(as_text, value)) if is_plain else json.dumps(value)


def read_parquet(
    file: Iterable[bytes], on_bad: OnBad, once: Callable[[Passage], Passage]
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
        reason = str(error).partition("\n")[0]
        raise SourceError(f"cannot be read as a Parquet file: {reason}") from error


def _to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as `parse_record` takes them; metadata may be a struct or a map."""
    return [
        {name: _plain(value) for name, value in row.items() if value is not None}
        for row in batch.to_pylist(maps_as_pydicts="lossy")
    ]


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return value.isoformat() if isinstance(value, date) else value


def parse_json(line: bytes) -> object:
    """The value of a line of JSON; NaN and infinities are not JSON.

    Raises:
        SourceError: It is no JSON; says why.
    """
    try:
        return json.loads(line.decode(), parse_constant=_not_json)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is 0x{line[error.start]:02x}"
        raise SourceError(f"is not UTF-8: {reason}") from error
    except json.JSONDecodeError as error:
        raise SourceError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"not readable as JSON: {error}") from error
    except RecursionError as error:
        raise SourceError("not readable as JSON: nested too deeply") from error


def _not_json(name: str) -> NoReturn:
    raise SourceError(f"not JSON: {name} is not a number")


def text_document(name: str, content: bytes, encoding: str = "") -> tuple[Passage, str]:
    """The content of a text file as one document, whose id is the file's name, and a note.

    Its lines stay whole: they may be a program's.

    Raises:
        SourceError: The content is empty, or in no known encoding.
    """
    try:
        text, note = decoded(content, encoding)
    except BadFileError as error:
        raise SourceError(str(error)) from error
    if not text.strip():
        raise SourceError("text is empty")
    path = PurePath(name)
    if path.suffix.lower() in PROSE:
        return document_of(Draft(path.stem, [(0, text)]), name), note
    lines = [(ROW, line) for line in text.splitlines()]
    return document_of(Draft(path.name, lines), name), note


PROSE = (".txt", ".rst")
"""Extensions of text whose lines end anywhere; those of other texts mean something."""
