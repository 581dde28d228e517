"""Readers of PDF, Word, RTF, Excel and PowerPoint files and e-books."""

import posixpath
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from typing import Any, BinaryIO
from urllib.parse import unquote

from wye.backends.readers.drafts import (
    DEFAULT,
    HEADER,
    ROW,
    BadFileError,
    Block,
    Draft,
    Limits,
    Options,
    document,
    one_line,
)
from wye.backends.readers.markup import html_blocks
from wye.backends.readers.tables import MOST_MERGED, TableRow, as_text, documents_of_sheets

# Parts of an archive; a real one has dozens.
_MOST_FILES = 10_000
# Titles that programs give.
_NO_TITLES = frozenset(["powerpoint presentation", "presentation", "slide 1"])
_DEEPEST_GROUP = 20


def check_archive(file: BinaryIO, limits: Limits, kind: str) -> None:
    """Check an archive's stated sizes; Python unpacks no more of a part than its stated size.

    Raises:
        BadFileError: It is no archive, encrypted, or too large when decompressed.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise BadFileError(f"is no {kind} file") from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise BadFileError("is encrypted; save it without a password")
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > _MOST_FILES or unpacked > limits.unpacked_bytes:
        raise BadFileError(
            f"unpacks to {unpacked:,} bytes in {len(entries):,} parts, and "
            f"{limits.unpacked_bytes:,} bytes in {_MOST_FILES:,} are read"
        )
    file.seek(0)


def docx(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A DOCX file in the order of the document, as if all tracked changes were accepted.

    Notes and comments follow what refers to them; the headers and footers of pages come last.
    """
    check_archive(file, limits, "DOCX")
    from docx import Document  # noqa: PLC0415

    whole = Document(file)
    if whole.element.getroottree().docinfo.internalDTD is not None:
        raise BadFileError("declares entities, which no DOCX file needs; save it again")
    draft = document(_blocks(whole), limits)
    title = draft.title or one_line(whole.core_properties.title or "")
    yield Draft(title, draft.blocks)


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# What was moved away, and the copy of a text box for old programs.
_UNSEEN = f"{_W}moveFrom", "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def _blocks(whole: Any) -> Iterator[Block]:  # noqa: ANN401 - its XML has no types
    levels = {style.style_id: _level(style.name or "") for style in whole.styles}
    notes = {
        (f"{note.tag}Reference", note.get(f"{_W}id")): ": ".join(
            filter(None, (note.get(f"{_W}author"), _shown_in(note)))
        )
        for part in _parts(whole, "footnotes", "endnotes", "comments")
        for note in part
    }
    for block in whole.element.body.iter(f"{_W}p", f"{_W}tbl"):
        if next(block.iterancestors(f"{_W}tbl", *_UNSEEN), None) is not None:
            continue
        if block.tag == f"{_W}tbl":
            yield from table_blocks(_rows(block))
        else:
            yield levels.get(block.style or "", 0), _shown(block)
        for run in block.iter(f"{_W}r"):
            yield from ((0, notes.pop((mark.tag, mark.get(f"{_W}id")), "")) for mark in run)
    edges = map(_shown_in, _parts(whole, "header", "footer"))
    yield from ((0, text) for text in dict.fromkeys(edges))


def _parts(whole: Any, *kinds: str) -> Iterator[Any]:  # noqa: ANN401
    from docx.oxml import parse_xml  # noqa: PLC0415

    for relation in whole.part.rels.values():
        if not relation.is_external and relation.reltype.rpartition("/")[2] in kinds:
            yield parse_xml(relation.target_part.blob)


def _shown(paragraph: Any) -> str:  # noqa: ANN401
    """The text of a paragraph, without that of its text boxes, which have paragraphs."""
    return "".join(
        _SIGNS.get(piece.tag.removeprefix(_W)) or piece.text or ""
        for piece in paragraph.iter(f"{_W}t", *(f"{_W}{sign}" for sign in _SIGNS))
        if piece.getparent().tag == f"{_W}r"
        and next(piece.iterancestors(f"{_W}p", *_UNSEEN)) is paragraph
    )


def _shown_in(part: Any) -> str:  # noqa: ANN401
    """The text of all paragraphs in a cell, a note or a header."""
    shown = (each for each in part.iter(f"{_W}p") if not [*each.iterancestors(*_UNSEEN)])
    return "\n".join(map(_shown, shown)).strip()


def _level(style: str) -> int:
    """The heading level of a style, by its name, which is the same in every language."""
    if style == "Title":
        return 1
    number = style.removeprefix("Heading ")
    return int(number) + 1 if number in set("123456789") else 0


def table_blocks(rows: Iterator[str]) -> Iterator[Block]:
    """Rows of a table, the first of which names the columns."""
    for number, row in enumerate(rows):
        yield ROW if number else HEADER, row


def _rows(table: Any) -> Iterator[str]:  # noqa: ANN401
    """The rows of a table; a cell that spans rows is in each, one that spans columns once."""
    above: dict[int, str] = {}
    inside = "{0} | w:sdt/w:sdtContent/{0}".format  # a form's field is around it
    for row in table.xpath(inside("w:tr[not(w:trPr/w:del)]")):
        column = row.grid_before
        texts: list[str] = []
        for cell in row.xpath(inside("w:tc")):
            text = above.get(column, "") if cell.vMerge == "continue" else _shown_in(cell)
            above[column] = text
            column += cell.grid_span
            texts.append(text)
        yield " | ".join(dict.fromkeys(filter(None, texts)))


def pptx(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A PowerPoint file, of which each slide that is shown is a passage, with its notes."""
    check_archive(file, limits, "PPTX")
    from pptx import Presentation  # noqa: PLC0415

    whole = Presentation(file)
    blocks: list[Block] = []
    for number, slide in enumerate(whole.slides, 1):
        if slide._element.get("show") == "0":
            continue
        title = slide.shapes.title
        name = one_line(title.text_frame.text) if title is not None else ""
        blocks.append((1, name or f"Slide {number}"))
        title_id = title.shape_id if title is not None else None
        blocks += [block for shape in slide.shapes for block in _shape(shape, title_id)]
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if frame is not None and (notes := frame.text.strip()):
            blocks.append((0, f"Notes: {notes}"))
    yield deck(blocks, one_line(whole.core_properties.title or ""), limits)


def deck(blocks: Sequence[Block], title: str, limits: Limits) -> Draft:
    """A document of slides, named as is stated, or by the first slide."""
    if title.casefold() in {"", *_NO_TITLES}:
        title = "".join(text for _, text in blocks[:1] if text != "Slide 1")
    draft = document(blocks, limits, title=title)
    return Draft(draft.title, draft.blocks, has_pages=True)


def _shape(shape: Any, title_id: int | None, depth: int = 0) -> Iterator[Block]:  # noqa: ANN401
    """The text of a shape, a table or a group of shapes."""
    if getattr(shape, "shape_type", None) == 6 and depth < _DEEPEST_GROUP:
        for inner in shape.shapes:
            yield from _shape(inner, title_id, depth + 1)
    elif getattr(shape, "has_table", False):
        rows = ([one_line(cell.text) for cell in row.cells] for row in shape.table.rows)
        yield from table_blocks(" | ".join(filter(None, cells)) for cells in rows)
    elif getattr(shape, "has_chart", False):
        with suppress(ValueError, KeyError, AttributeError):  # a kind that the library lacks
            for plot in shape.chart.plots:
                yield HEADER, " | ".join(series.name for series in plot.series)
                values = (series.values for series in plot.series)
                points = zip(plot.categories, *values, strict=False)
                yield from ((ROW, " | ".join(map(str, point))) for point in points)
    elif shape.has_text_frame and shape.shape_id != title_id:
        yield 0, shape.text_frame.text.replace("\x0b", "\n")


_MERGED = re.compile(rb'<mergeCell [^<>]*?ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_NO_DIGIT = re.compile("[^0-9]")
# What Excel writes before the comments of a conversation, for former versions of itself.
_THREADED = re.compile(r"^\[Threaded comment\].*?Comment: ")


def xlsx(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """An Excel file with one document per row of its sheets; see `documents_of_sheets`.

    The value of a formula is the one that Excel computed last.
    """
    check_archive(file, limits, "XLSX")
    from openpyxl import load_workbook  # noqa: PLC0415

    book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
    hidden = [sheet.title for sheet in book.worksheets if sheet.sheet_state != "visible"]
    shown = [sheet for sheet in book.worksheets if sheet.title not in hidden]
    sheets = ((sheet.title, _cells(sheet), _comments(book, sheet)) for sheet in shown)
    yield from documents_of_sheets(sheets, hidden, options, are_several=len(shown) > 1)


def _comments(book: Any, sheet: Any) -> dict[int, list[str]]:  # noqa: ANN401 - without types
    """Number of a row -> what comments on its cells say."""
    from openpyxl.packaging.relationship import get_dependents, get_rels_path  # noqa: PLC0415

    path, names = get_rels_path(sheet._worksheet_path), {*book._archive.namelist()}
    comments = defaultdict[int, list[str]](list)
    for part in get_dependents(book._archive, path) if path in names else ():
        if part.Type.endswith("/comments") and part.target in names:
            for comment in xml_of(book._archive, part.target, names).iterfind(".//{*}comment"):
                line = int(_NO_DIGIT.sub("", comment.get("ref", "")) or 0)
                text = one_line("".join(part.text or "" for part in comment.iter("{*}t")))
                comments[line].append(_THREADED.sub("", text))
    return comments


def _cells(sheet: Any) -> list[TableRow]:  # noqa: ANN401 - openpyxl has no types
    """The rows of a sheet that are not empty, without empty columns at the end."""
    from openpyxl.utils.cell import range_boundaries  # noqa: PLC0415

    sheet.reset_dimensions()  # they may be stated wrongly
    with sheet._get_source() as content:
        names = _MERGED.findall(content.read())
    merged: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for left, top, right, bottom in map(range_boundaries, map(bytes.decode, names[:MOST_MERGED])):
        for number in range(top, min(bottom, top + MOST_MERGED) + 1):
            merged[number].append((left - 1, min(right, left + MOST_MERGED), top))
    values: dict[tuple[int, int], str] = {}  # of the first cells of merged ones
    rows = []
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = [as_text(value) for value in row]
        for left, right, top in merged.get(number, ()):
            cells += [""] * (right - len(cells))
            value = values.setdefault((top, left), cells[left])
            cells[left:right] = [value] * (right - left)
        if number in merged and len({*filter(None, cells)}) == 1:  # a heading across the sheet
            cells = [next(filter(None, cells))]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            rows.append((number, cells))
    return rows


def epub(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """An e-book in the order in which it is read."""
    check_archive(file, limits, "EPUB")
    with zipfile.ZipFile(file) as archive:
        names = {*archive.namelist()}
        roots = xml_of(archive, "META-INF/container.xml", names).iterfind(".//{*}rootfile")
        name = next((root.get("full-path", "") for root in roots), "")
        package = xml_of(archive, name, names)
        items = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}item")}
        folder = posixpath.dirname(name)
        blocks: list[Block] = []
        for entry in package.iterfind(".//{*}itemref"):
            href = unquote(items.get(entry.get("idref"), "")).partition("#")[0]
            part = posixpath.normpath(posixpath.join(folder, href))
            if part in names and entry.get("linear") != "no":
                page = archive.read(part)
                with suppress(UnicodeDecodeError):  # the usual encoding need not be stated
                    blocks += html_blocks(page.decode("utf-8-sig"))
                    continue
                blocks += html_blocks(page)
        title = one_line(package.findtext(".//{*}title") or "")
        authors = [one_line(creator.text or "") for creator in package.iterfind(".//{*}creator")]
    metadata = {"author": authors} if any(authors) else {}
    yield document(blocks, limits, title=title, metadata=metadata)


def xml_of(archive: zipfile.ZipFile, name: str, names: set[str], kind: str = "EPUB") -> Any:  # noqa: ANN401
    """A part of an archive, whose names are `names`, as XML.

    Raises:
        BadFileError: It is missing.
    """
    from lxml import etree  # noqa: PLC0415

    if name not in names:
        raise BadFileError(f"is no {kind} file: {name or 'its list of parts'} is missing")
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    return etree.fromstring(archive.read(name), parser)


def rtf(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A text of WordPad or Word with its tables, without notes, headers and pictures."""
    from striprtf.striprtf import rtf_to_text  # noqa: PLC0415

    content = file.read().decode("cp1252", "replace")
    if not content.startswith("{\\rtf"):
        raise BadFileError("is no RTF file")
    text = rtf_to_text(content, errors="replace")  # type: ignore[no-untyped-call]
    lines = text.replace("\xad", "").split("\n")
    blocks: list[Block] = []
    for is_table, group in groupby(lines, lambda line: line.endswith("|")):
        cells = (map(one_line, line.split("|")) for line in group)
        rows = (" | ".join(filter(None, row)) for row in cells)
        blocks += table_blocks(rows) if is_table else ((0, row) for row in rows)
    yield document(blocks, limits)


_DRAWS_TEXT = frozenset([b"Tj", b"TJ", b"'", b'"'])
# Two columns are assumed where so many lines, and so large a share of all, have a gap of so many
# spaces at one place, with so many letters on each side: the cells of tables have fewer.
_FEWEST_LINES = 4
_SHARE = 0.6
_GAP = 3
_FEWEST_LETTERS = 15


def pdf(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A PDF file, page by page; an encrypted file is read if the empty password opens it."""
    from pypdf import PdfReader  # noqa: PLC0415

    reader = PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise BadFileError("is encrypted; save it without a password")
    pages = len(reader.pages)
    if pages > limits.pages:
        raise BadFileError(f"has {pages:,} pages, but the limit is {limits.pages:,}; split it")
    draft = document(((0, _text(page)) for page in reader.pages), limits)
    title = reader.metadata.title if reader.metadata else None
    yield Draft(one_line(title) if isinstance(title, str) else "", draft.blocks)


def _text(page: Any) -> str:  # noqa: ANN401 - its parts have no types
    """The text of a page; where lines run across two columns, one column after the other."""
    starts: list[tuple[float, float]] = []

    def note(operator: bytes, _: object, cm: Sequence[float], tm: Sequence[float]) -> None:
        if operator in _DRAWS_TEXT:
            x, y = tm[4], tm[5]
            starts.append((x * cm[0] + y * cm[2] + cm[4], x * cm[1] + y * cm[3] + cm[5]))

    text = str(page.extract_text(visitor_operand_before=note))
    middle = float(page.mediabox.left) + float(page.mediabox.width) / 2
    crossings = sum(
        x < middle <= next_x and abs(y - next_y) < 1
        for (x, y), (next_x, next_y) in pairwise(starts)
    )
    if crossings < _FEWEST_LINES:
        return text
    return in_columns(str(page.extract_text(extraction_mode="layout"))) or text


def in_columns(layout: str) -> str:
    """A page that is laid out with spaces, column by column; "" if it has not two columns.

    A line across the page ends the columns above it.
    """
    lines = layout.splitlines()
    gaps = [_gaps(line) for line in lines]
    counts = Counter(
        column for spans in gaps for start, end in spans for column in range(start, end)
    )
    most = max(counts.values(), default=0)
    candidates = sorted(column for column, count in counts.items() if count == most)
    if most < max(_FEWEST_LINES, _SHARE * sum(bool(line.strip()) for line in lines)):
        return ""
    gutter = candidates[len(candidates) // 2]
    columns: list[list[str]] = [[], []]
    pieces: list[str] = []
    letters = [0, 0]
    for line in lines:
        if line[max(0, gutter - 1) : gutter + 1].strip():
            pieces += [*columns[0], *columns[1], line]
            columns = [[], []]
            continue
        sides = line[:gutter], line[gutter:]
        for side, text in enumerate(sides):
            columns[side].append(text)
            letters[side] += len(text.strip()) if all(map(str.strip, sides)) else 0
    pieces += [*columns[0], *columns[1]]
    is_table = sum(len(spans) > 1 for spans in gaps) > most / 2
    if is_table or min(letters) < _FEWEST_LETTERS * most:
        return ""
    return "\n".join(filter(None, map(one_line, pieces)))


def _gaps(line: str) -> list[tuple[int, int]]:
    """Where a line has many spaces between words."""
    spans = []
    start = len(line) - len(line.lstrip())
    while (start := line.find(" " * _GAP, start)) >= 0:
        end = start + len(line[start:]) - len(line[start:].lstrip())
        if end < len(line):
            spans.append((start, end))
        start = end
    return spans
