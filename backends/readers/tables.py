"""Tables, in which each row is a document: what is a table and a row, and a reader of CSV."""

import csv as csv_module
import datetime
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise, zip_longest
from typing import BinaryIO

from wye.backends.readers.decode import decoded
from wye.backends.readers.drafts import (
    DEFAULT,
    BadFileError,
    Draft,
    Limits,
    Options,
    in_english,
    one_line,
    scalar,
)

TableRow = tuple[int, list[str]]  # number of a row in its file, from 1, and its cells
Sheet = tuple[str, Sequence[TableRow], Mapping[int, Sequence[str]]]
"""Name of a sheet that is shown, its rows that are not empty, and comments by their row."""

# A line after the last one, to notice a quote that is still open there.
_END = "\0end\0"
_DELIMITERS = ",;\t|"

TITLES = ("title", "name", "heading", "full name", "subject", "product", "item", "label", "term")
"""Columns of a table that can be the title, the first that there is."""
_NAMES = (("first name", "last name"), ("first name", "surname"), ("given name", "family name"))
_QUESTIONS = ("question", "q", "frage", "faq")
_ANSWERS = ("answer", "a", "antwort", "response", "reply")
# A column of text has cells of so many characters on average, which is more than a name has.
_LONG = 80
_LONGEST_NAME = 60
_MOST_METADATA = 60
_HEAD_LINES = 20
_LONGEST_HEAD = 4_096
_DECIMAL = re.compile(r"(?<=\d),(?=\d)")
# What Excel writes above a table, and hides.
_STATED = re.compile(r"sep=(.)(?=\r?\n)")
_REGULAR = 0.8
_LONGEST_VALUE = 240
_YEARS = range(1900, 2101)
_DIGIT = re.compile("[0-9]")
_LEAST_COLUMNS = 2
_MOST_OF_FORM = 4
MOST_MERGED = 1_000
"""Merged cells of a sheet, and rows or columns of one, beyond which they stay as stored."""


def csv(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """A CSV file with one document per row; see `documents_of_rows`."""
    text, note = decoded(file.read(), options.encoding)
    csv_module.field_size_limit(limits.characters)
    stated = _STATED.match(text)
    text = text[stated.end() :] if stated else text
    head = text.split("\n", _HEAD_LINES)[:_HEAD_LINES]
    delimiter = stated[1] if stated else _delimiter(head)
    lines = chain(io.StringIO(text, newline=""), [_END])
    parts: list[list[TableRow]] = [[]]
    before = 0
    reader = csv_module.reader(lines, delimiter=delimiter)
    try:
        for row in reader:
            if row == [_END]:
                break
            if row and row[-1].endswith(_END):
                raise BadFileError(f"is not CSV: a quote after line {before} is never closed")
            if any(map(str.strip, row)):
                parts[-1].append((reader.line_num, [cell.strip() for cell in row]))
            elif parts[-1]:
                parts.append([])
            before = reader.line_num
    except csv_module.Error as error:
        raise BadFileError(f"is not CSV in line {reader.line_num}: {error}") from error
    if not parts[0]:
        raise BadFileError("has no header: it is empty")
    for draft in chain.from_iterable(documents_of_rows(rows, options) for rows in _tables(parts)):
        yield replace(draft, note="; ".join(filter(None, (note, draft.note)))) if note else draft
        note = ""


def _tables(parts: Iterable[list[TableRow]]) -> list[list[TableRow]]:
    """The tables of a sheet whose parts are what is between empty lines.

    A part is a table of its own if it begins with names of columns; a line of one cell before an
    empty line, the first line, and a form are above what follows. Others go on with what is above.
    """
    tables: list[list[TableRow]] = []
    caption: list[TableRow] = []
    header: Sequence[str] = ()
    filled = [*filter(None, parts), []]
    for part, below in pairwise(filled):
        rows, caption = caption + part, []
        form = "" if tables else _form(rows, below)
        if form or (len(rows) == 1 and (_filled(rows[0]) == 1 or not tables)):
            caption = [(rows[0][0], [form])] if form else rows
            continue
        (_, first), *body = rows[_caption_lines(rows) :]
        if not tables or (body and (first == header or _names_columns(first, body))):
            tables.append(rows)
            header = first
        else:
            tables[-1] += rows
    if caption:
        tables[-1:] = [[*chain(*tables[-1:], caption)]]
    return tables


def _form(rows: Sequence[TableRow], below: Sequence[TableRow]) -> str:
    """What labels with their values say above a table, as in "counted by Ada"; "" for a table."""
    groups = (groupby(row, bool) for _, row in rows)
    pairs = [[*dict.fromkeys(pair)] for row in groups for is_filled, pair in row if is_filled]
    is_short = len(rows) <= _MOST_OF_FORM and all(len(pair) <= 2 for pair in pairs)
    is_form = len(pairs) > len(rows) or not _names_columns(rows[0][1], rows[1:])  # with gaps
    is_above = len(below) > 1 and _filled(below[0]) > max(map(len, pairs), default=0)
    return ", ".join(map(" ".join, pairs)) if is_short and is_form and is_above else ""


def _names_columns(header: Sequence[str], rows: Sequence[TableRow]) -> bool:
    """Whether cells are words over columns of numbers or days."""
    if sum(map(bool, header)) < _LEAST_COLUMNS or any(map(_DIGIT.search, header)):
        return False
    columns = zip_longest(*(row for _, row in rows), fillvalue="")
    below = [[*filter(None, column)] for column in columns][: len(header)]
    return any(
        name and cells and all(map(_DIGIT.search, cells))
        for name, cells in zip(header, below, strict=False)
    )


def _delimiter(head: Sequence[str]) -> str:
    """What separates the cells: in the first line, unless it is a caption above others' cells."""
    counts: dict[str, list[int]] = {}
    shares = dict.fromkeys(_DELIMITERS, 0.0)
    for each in _DELIMITERS:
        cut = (_DECIMAL.sub(".", line[:_LONGEST_HEAD]) for line in head)
        reader, counts[each] = csv_module.reader(cut, delimiter=each), []
        with suppress(csv_module.Error):  # which reading the whole will say
            counts[each] += [len(row) - 1 for row in reader if row]
        below = counts[each][1:]
        for _, most in Counter(filter(None, below)).most_common(1):
            shares[each] = most / len(below)
    first = max(_DELIMITERS, key=lambda each: counts[each][:1])
    best = max(_DELIMITERS, key=shares.__getitem__)
    is_caption = shares[best] >= _REGULAR > shares[first] or not any(counts[first][:1])
    return best if is_caption else first


def documents_of_sheets(
    sheets: Iterable[Sheet], hidden: Sequence[str], options: Options, *, are_several: bool
) -> Iterator[Draft]:
    """A document for each row of sheets, and for each comment below the last row.

    A merged cell's value is in each of its cells. Rows say their sheet if there are several.

    Args:
        hidden: Names of sheets that are left out.

    Raises:
        BadFileError: There are no rows.
    """
    note = f"left out: {', '.join(hidden)}, hidden" if hidden else ""
    notes: dict[str, None] = {}
    for name, unequal, by_row in sheets:
        width = max((len(row) for _, row in unequal), default=0)
        rows = [(number, row + [""] * (width - len(row))) for number, row in unequal]
        label = {"sheet": name} if are_several else {}
        comments = dict(by_row)
        drafts = (
            (side, draft)
            for side, rows in enumerate(_sides(rows) if rows else [])
            for table in _tables(_between_gaps(rows))
            for draft in documents_of_rows(table, options, label)
        )
        for side, draft in drafts:
            new = "" if draft.note in notes else draft.note  # sheets are often of one form
            notes[draft.note] = None
            lines = [line for line in comments if line <= draft.line]
            remarks = [text for line in sorted(lines) for text in comments.pop(line)]
            yield replace(
                draft,
                id=f"{name}:{draft.id or draft.line}" + (f":{side + 1}" if side else ""),
                blocks=[*draft.blocks, *((0, f"Comment: {text}") for text in remarks)],
                error=f"{draft.error} (sheet {name})" if draft.error else "",
                metadata={**draft.metadata, "sheet": name},
                note="; ".join(filter(None, (note, new))),
            )
            note = ""
        for line, texts in comments.items():
            blocks = [(0, f"{name}: {text}") for text in texts]
            yield Draft("", blocks, {"sheet": name}, id=f"{name}:{line}", line=line)
    if note:
        raise BadFileError("has no rows in sheets that are shown")


def _between_gaps(rows: Sequence[TableRow]) -> Iterator[list[TableRow]]:
    """Rows of a sheet between those that are empty."""
    gaps = [at for at in range(1, len(rows)) if rows[at][0] > rows[at - 1][0] + 1]
    return ([*rows[a:b]] for a, b in pairwise([0, *gaps, len(rows)]))


def _sides(rows: Sequence[TableRow]) -> list[Sequence[TableRow]]:
    """The tables beside each other in a sheet; else the rows.

    An empty column is between them, and what is right of it is no part of the rows at the left: it
    goes on below them, or the line with the names of their columns has a single cell of it.
    """
    width = len(rows[0][1])
    empty = [n for n in range(width) if not any(row[n] for _, row in rows)]
    spans = [(a + 1, b) for a, b in pairwise([-1, *empty, width]) if b > a + 1]
    sides = [[(line, row[a:b]) for line, row in rows if any(row[a:b])] for a, b in spans]
    for left, right in pairwise(sides):
        header = next((line for line, row in left if sum(map(bool, row)) > 1), 0)
        names = [*filter(None, dict(right).get(header, []))]
        if len(right[0][1]) < _LEAST_COLUMNS or not (len(names) == 1 or right[-1][0] > left[-1][0]):
            return [rows]
    return [*sides] or [rows]


def _filled(row: TableRow) -> int:
    """How many different values the cells of a row have; those of a merged cell are one."""
    return len({*filter(None, row[1])})


def as_text(value: object) -> str:
    """The value of a cell, or in JSON, as it is read."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        is_day = value.time() == datetime.time()
        return value.date().isoformat() if is_day else value.isoformat(" ", "minutes")
    return str(value).strip()


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns of a table are what, by number."""

    names: Sequence[str]  # "" for all if the table has no header
    text: Sequence[int]  # as it is
    others: Sequence[int]  # named in the text
    title: Sequence[int]  # joined by a space
    id: int  # -1 for none
    metadata: Sequence[tuple[int, bool]]  # with whether all are numbers or booleans


def documents_of_rows(
    rows: Sequence[TableRow], options: Options, labels: Mapping[str, str] = {}
) -> Iterator[Draft]:
    """A document for each row of a table, with all of its columns.

    The title is a question if there are answers, or else the first of `TITLES`, or else the first
    column with names, of which each occurs once. The text is the answer, or else a column of long
    texts; other columns follow as "column: value". They are metadata too; numbers and booleans keep
    their types where a whole column is of these.

    Lines above the table with few values are its caption, which its rows repeat at their end.
    A header with names that repeat, as of merged cells, goes on in the next line.

    Args:
        rows: At least one; the first names the columns unless it looks like all others.
        labels: What all rows say at their end.

    Raises:
        BadFileError: A column that the options name is missing.
    """
    top = _caption_lines(rows)
    caption = one_line(" ".join(cell for _, row in rows[:top] for cell in dict.fromkeys(row)))
    rows = rows[top:]
    is_split = len(rows) > 2 and _is_split(rows[0][1], rows[1][1])
    has_header = options.has_header
    if has_header is None:
        has_header = not _is_data([rows[0], *rows[2:]] if is_split else rows)
    header, body = rows[0][1], rows[1:] if has_header else rows
    if has_header and is_split:
        pairs = zip_longest(header, body[0][1], fillvalue="")
        header, body = [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs], body[1:]
    names = _names(header) if has_header else [f"column {n + 1}" for n in range(len(header))]
    body = [row for row in body if row[1] != header] if has_header else body
    columns = _columns(names, body, options, has_header=has_header)
    note = _note(names, columns, is_assumed=not has_header and options.has_header is None)
    labels = {**labels, **({"table": caption} if caption else {})}
    for line, row in body:
        if len(row) > len(names) and any(row[len(names) :]):
            error = f"has {len(row)} fields, but the header has {len(names)}"
            draft = Draft(line=line, error=error)
        else:
            cells = row[: len(names)] + [""] * (len(names) - len(row))
            draft = _document(line, cells, columns, labels, has_header=has_header)
        if caption:
            draft = replace(draft, metadata={**draft.metadata, "caption": caption})
        yield replace(draft, note=note)
        note = ""


def _caption_lines(rows: Sequence[TableRow]) -> int:
    """How many lines above a table are its caption: those with at most half as many cells.

    Lines of a single cell may be rows too, so the table has to have more of them, and most of its
    rows fill more than half of its header.
    """
    usual = sorted(map(_filled, rows))[len(rows) // 2]
    top = 0
    while top < len(rows) - 1 and 2 * _filled(rows[top]) <= usual:
        top += 1
    header, *table = (len(row) for _, row in rows[top:])
    is_regular = sum(header < 2 * length <= 2 * header for length in table) >= _REGULAR * len(table)
    least = 2 if any(len(row) == 1 for _, row in rows[:top]) else 1
    return top if is_regular and len(table) >= least else 0


def _is_split(header: Sequence[str], below: Sequence[str]) -> bool:
    """Whether names of columns repeat side by side and the line below tells them apart."""
    pairs = [n for n in range(1, len(header)) if header[n] and header[n] == header[n - 1]]
    return bool(pairs) and all(
        n < len(below) and below[n] and below[n] != below[n - 1] for n in pairs
    )


def _is_data(rows: Sequence[TableRow]) -> bool:
    """Whether the first row looks like those below: of numbers, or of values that recur there."""
    header, body = rows[0][1], [row for _, row in rows[1:200] if row != rows[0][1]]
    for column, name in enumerate(header):
        below = [row[column] for row in body if column < len(row) and row[column]]
        if not name or not below:
            continue
        value = scalar(name)
        is_number = not isinstance(value, str) and value not in _YEARS
        if is_number and all(not isinstance(scalar(cell), str) for cell in below):
            return True
        if name in below or ("@" in name and all("@" in cell for cell in below)):
            return True
    return False


def _names(header: Sequence[str]) -> list[str]:
    """A name of its own for each column."""
    names: dict[str, None] = {}
    times = Counter[str]()
    for column, cell in enumerate(header, 1):
        base = name = one_line(cell) or f"column {column}"
        while name in names:
            times[base] += 1
            name = f"{base} {times[base] + 1}"
        names[name] = None
    return [*names]


def _columns(
    names: Sequence[str], rows: Sequence[TableRow], options: Options, *, has_header: bool
) -> _Columns:
    every = range(len(names))
    folded = [name.casefold().replace("_", " ") for name in names]
    cells = [[row[n] for _, row in rows if n < len(row) and row[n]] for n in every]
    typed = [all(not isinstance(scalar(cell), str) for cell in cells[n]) for n in every]
    lengths = [sum(map(len, cells[n])) / max(1, len(cells[n])) for n in every]

    def first(wanted: Sequence[str]) -> list[int]:
        return [folded.index(name) for name in wanted if name in folded][:1]

    question, answer = first(_QUESTIONS), first(_ANSWERS)
    id_ = first((" id", "id"))
    # What names a row names no other.
    distinct = [
        n
        for n in every
        if not typed[n] and n not in id_ and lengths[n] <= _LONGEST_NAME and len(names) > 1
        if len({*cells[n]}) == len(cells[n]) == len(rows)
    ]
    both = [[folded.index(part) for part in pair] for pair in _NAMES if {*pair} <= {*folded}]
    if options.title_column:
        title = [_named(options.title_column, names)]
    elif question and answer:
        title = question
    else:
        title = first(TITLES[:1]) or next(iter(both), []) or first(TITLES) or distinct[:1]
    free = [n for n in every if n not in title]
    if options.text_columns:
        text = [_named(name, names) for name in options.text_columns]
    elif question and answer:
        text = answer
    else:
        long = max(free, key=lengths.__getitem__, default=-1)
        is_text = long >= 0 and lengths[long] >= _LONG and not typed[long]
        text = [n for n in first(("text",)) if n in free] or ([long] if is_text else [])
    # A number counts rows, but a code may be asked for.
    others = [n for n in free if n not in text and (n not in id_ or not typed[n])]
    return _Columns(
        names=names if has_header else [""] * len(names),
        text=text,
        others=[] if options.text_columns else others or ([] if text else title or id_),
        title=title,
        id=id_[0] if id_ else -1,
        metadata=[(n, typed[n]) for n in others if lengths[n] <= _LONGEST_VALUE],
    )


def _named(name: str, names: Sequence[str]) -> int:
    folded = [each.casefold() for each in names]
    if name.casefold() not in folded:
        raise BadFileError(f"has no column {name!r}; it has {', '.join(names)}")
    return folded.index(name.casefold())


def _note(names: Sequence[str], columns: _Columns, *, is_assumed: bool) -> str:
    """Which columns are the title and the text, unless they are called so."""
    title = " and ".join(f'"{names[n]:.40}"' for n in columns.title)
    text = " and ".join(f'"{names[n]:.40}"' for n in columns.text) or "all columns"
    if (title.casefold(), text.casefold()) == ('"title"', '"text"') and not is_assumed:
        return ""
    columns_note = f"text from {text}, " + (f"title from {title}" if title else "no title")
    return (
        f"its first row is taken for data, not for names; {columns_note}"
        if is_assumed
        else columns_note
    )


def _document(
    line: int,
    cells: Sequence[str],
    columns: _Columns,
    labels: Mapping[str, str],
    *,
    has_header: bool,
) -> Draft:
    title = " ".join(cells[n] for n in columns.title if cells[n])
    blocks = [(0, cells[n]) for n in columns.text if cells[n]]
    is_alone = len(columns.names) - (columns.id >= 0) == 1
    others = [
        f"{in_english(columns.names[n])}: {cells[n]}" if has_header and not is_alone else cells[n]
        for n in columns.others
        if cells[n]
    ]
    if not blocks and not others and not title:
        return Draft(line=line, error="text is empty")
    others += [f"{label}: {value}" for label, value in labels.items()]
    if others:
        blocks.append((0, "; ".join(others)))
    metadata = {
        columns.names[n] or f"column {n + 1}": scalar(cells[n]) if is_typed else cells[n]
        for n, is_typed in columns.metadata[:_MOST_METADATA]
        if cells[n] and len(cells[n]) <= _LONGEST_VALUE * 4
    }
    # A row without an id must not get that of another row.
    id_ = (cells[columns.id] or f"line-{line}") if columns.id >= 0 else ""
    return Draft(title, blocks or [(0, title)], metadata, id=id_, line=line)
