"""Readers of PDF, DOCX and CSV files."""

import csv as csv_module
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, BinaryIO

from wye.backends.readers.drafts import (
    BadFileError,
    Block,
    Draft,
    Limits,
    document,
    one_line,
    scalar,
)
from wye.backends.readers.markup import decoded

# Parts of a DOCX file; a real one has dozens.
_MOST_FILES = 10_000
# A line after the last one, to notice a quote that is still open there.
_END = "\0end\0"
TITLES = ("title", "name", "heading")
"""Columns of a table that can be the title, the first that there is."""
_SHOWN_COLUMNS = 8


def pdf(file: BinaryIO, limits: Limits) -> Iterator[Draft]:
    """A PDF file, page by page; an encrypted file is read if the empty password opens it.

    Raises:
        BadFileError: It needs a password, or is too long.
    """
    from pypdf import PdfReader  # noqa: PLC0415

    reader = PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise BadFileError("is encrypted; save it without a password")
    pages = len(reader.pages)
    if pages > limits.pages:
        raise BadFileError(f"has {pages:,} pages, but the limit is {limits.pages:,}; split it")
    draft = document(((0, page.extract_text()) for page in reader.pages), limits)
    title = reader.metadata.title if reader.metadata else None
    yield Draft(one_line(title) if isinstance(title, str) else "", draft.blocks)


def docx(file: BinaryIO, limits: Limits) -> Iterator[Draft]:
    """A DOCX file, tables included, in the order of the document.

    Raises:
        BadFileError: It is not a DOCX file, too large when decompressed, or has a document type
            declaration, whose entities would silently be missing from the text.
    """
    _check_archive(file, limits)
    from docx import Document  # noqa: PLC0415

    whole = Document(file)
    if whole.element.getroottree().docinfo.internalDTD is not None:
        raise BadFileError("declares entities, which no DOCX file needs; save it again")
    draft = document(_blocks(whole), limits)
    title = draft.title or one_line(whole.core_properties.title or "")
    yield Draft(title, draft.blocks)


def _blocks(whole: Any) -> Iterator[Block]:  # noqa: ANN401 - its XML has no types
    from docx.table import Table  # noqa: PLC0415

    levels = {style.style_id: _level(style.name or "") for style in whole.styles}
    for block in whole.iter_inner_content():
        if isinstance(block, Table):
            for row in _rows(block._tbl):
                yield 0, row
        else:
            yield levels.get(block._p.style or "", 0), block.text


def _level(style: str) -> int:
    """The heading level of a style, by its name, which is the same in every language."""
    if style == "Title":
        return 1
    number = style.removeprefix("Heading ")
    return int(number) + 1 if number in set("123456789") else 0


def _rows(table: Any) -> Iterator[str]:  # noqa: ANN401
    """The rows of a table; a cell that spans rows is in each, one that spans columns once."""
    above: dict[int, str] = {}
    for row in table.tr_lst:
        column = row.grid_before
        texts: list[str] = []
        for cell in row.tc_lst:
            if cell.vMerge == "continue":
                text = above.get(column, "")
            else:
                text = "\n".join(paragraph.text for paragraph in cell.p_lst).strip()
            above[column] = text
            column += cell.grid_span
            texts.append(text)
        yield " | ".join(dict.fromkeys(filter(None, texts)))


def _check_archive(file: BinaryIO, limits: Limits) -> None:
    """Check an archive's stated sizes; Python unpacks no more of a part than its stated size."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise BadFileError("is not a DOCX file") from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise BadFileError("is encrypted; save it without a password")
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > _MOST_FILES or unpacked > limits.unpacked_bytes:
        raise BadFileError(
            f"unpacks to {unpacked:,} bytes in {len(entries):,} parts, and "
            f"{limits.unpacked_bytes:,} bytes in {_MOST_FILES:,} are read"
        )
    file.seek(0)


def csv(file: BinaryIO, limits: Limits) -> Iterator[Draft]:
    """A CSV file with one document per row.

    The first row names the columns. The text is `text`, or else the column with the most
    characters, and the title the first of `TITLES`; this and `id` (or `_id`) are optional; all
    other columns are metadata. Values of a column in which all are numbers or booleans are
    converted to these.

    Raises:
        BadFileError: It has no header, a field is too long, or a quote is never closed.
    """
    text = decoded(file.read())
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)

    def rows() -> Iterator[tuple[int, list[str]]]:
        csv_module.field_size_limit(limits.characters)
        lines = chain(io.StringIO(text, newline=""), [_END])
        reader = csv_module.reader(lines, delimiter=delimiter)
        before = 0
        try:
            for row in reader:
                if row == [_END]:
                    return
                if row and row[-1].endswith(_END):
                    raise BadFileError(f"is not CSV: a quote after line {before} is never closed")
                if any(map(str.strip, row)):
                    yield reader.line_num, row
                before = reader.line_num
        except csv_module.Error as error:
            raise BadFileError(f"is not CSV in line {reader.line_num}: {error}") from error

    names = [one_line(name) for name in next(rows(), (0, [""]))[1]]
    if len({*names}) < len(names) or "" in names:
        raise BadFileError("has no header: its first row must give each column a name of its own")
    lengths = [0] * len(names)
    typed = [True] * len(names)
    for _, row in islice(rows(), 1, None):
        for column, cell in enumerate(row[: len(names)]):
            lengths[column] += len(cell)
            typed[column] &= not cell.strip() or not isinstance(scalar(cell.strip()), str)
    folded = [name.casefold() for name in names]
    longest = folded.index("text") if "text" in folded else lengths.index(max(lengths))
    titles = [folded.index(name) for name in TITLES if name in folded]
    roles = {
        "text": longest,
        # A name that is the text is not its title as well.
        "title": next((at for at in titles if at != longest or folded[at] == "title"), -1),
        "id": next((folded.index(name) for name in ("_id", "id") if name in folded), -1),
    }
    rest = [column for column in range(len(names)) if column not in roles.values()]
    note = _roles_in_words(names, roles)
    for line, row in islice(rows(), 1, None):
        draft = _row_document(line, row, names, roles, [(n, typed[n]) for n in rest])
        yield replace(draft, note=note) if note else draft
        note = ""


def _roles_in_words(names: Sequence[str], roles: dict[str, int]) -> str:
    """Which columns are the text and the title; "" if they are called so."""
    names = [f"{name:.40}" for name in names]
    text, title = (names[roles[name]] if roles[name] >= 0 else "" for name in ("text", "title"))
    if (text.casefold(), title.casefold()) == ("text", "title"):
        return ""
    if title:
        return f'text from "{text}", title from "{title}"'
    if not {name.casefold() for name in names}.isdisjoint(TITLES):
        return f'text from "{text}", no title'
    listed = ", ".join(names[:_SHOWN_COLUMNS]) + (", …" if len(names) > _SHOWN_COLUMNS else "")
    return f'text from "{text}", no title; of {listed} none is called {" or ".join(TITLES)}'


def _row_document(
    line: int,
    row: Sequence[str],
    names: Sequence[str],
    roles: dict[str, int],
    rest: Iterable[tuple[int, bool]],
) -> Draft:
    if len(row) > len(names):
        error = f"has {len(row)} fields, but the header has {len(names)}"
        return Draft(line=line, error=error)
    cells = [cell.strip() for cell in row] + [""] * (len(names) - len(row))
    if not cells[roles["text"]]:
        return Draft(line=line, error="text is empty")
    return Draft(
        title=cells[roles["title"]] if roles["title"] >= 0 else "",
        blocks=[(0, cells[roles["text"]])],
        metadata={
            names[column]: scalar(cells[column]) if is_typed else cells[column]
            for column, is_typed in rest
            if cells[column]
        },
        # A row without one must not get that of another row.
        id=cells[roles["id"]] or f"line-{line}" if roles["id"] >= 0 else "",
        line=line,
    )
