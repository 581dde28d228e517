"""Readers of OpenDocument texts, sheets and slides, as LibreOffice writes them."""

import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from wye.backends.readers import drafts
from wye.backends.readers.drafts import DEFAULT, BadFileError, Block, Draft, Limits, Options
from wye.backends.readers.office import check_archive, deck, table_blocks, xml_of
from wye.backends.readers.tables import MOST_MERGED, Sheet, TableRow, as_text, documents_of_sheets

_MANIFEST = "META-INF/manifest.xml"
# Text that was deleted, and what a program makes of headings.
_UNSEEN = "{*}tracked-changes", "{*}table-of-content", "{*}alphabetical-index"
# What a paragraph has inside it with paragraphs of its own.
_APART = ("}note", "}annotation", "}frame", "}custom-shape", "}ruby-text")
_SIGNS = {"s": " ", "tab": "\t", "line-break": "\n"}


def _parts(file: BinaryIO, limits: Limits, kind: str) -> tuple[Any, Any, str]:
    """The content, the styles of pages, which may be missing, and the title that is stated."""
    check_archive(file, limits, kind)
    with zipfile.ZipFile(file) as archive:
        names = {*archive.namelist()}
        if _MANIFEST in names and b"encryption-data" in archive.read(_MANIFEST):
            raise BadFileError("is encrypted; save it without a password")
        content = xml_of(archive, "content.xml", names, kind)
        others = ("styles.xml", "meta.xml")
        styles, meta = (n in names and xml_of(archive, n, names, kind) for n in others)
    if content.getroottree().docinfo.internalDTD is not None:
        raise BadFileError(f"declares entities, which no {kind} file needs; save it again")
    title = "" if meta is False else meta.findtext(".//{*}title") or ""
    return content, styles, drafts.one_line(title)


def odt(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A text in its order, as if all tracked changes were accepted.

    Notes and comments follow what refers to them; the headers and footers of pages come last.
    """
    content, styles, title = _parts(file, limits, "ODT")
    parents = {_of(s, "name"): _of(s, "parent-style-name") for s in content.iter("{*}style")}
    blocks = [*_blocks(content.find("{*}body"), parents)]
    if styles is not False:
        edges = map(_text_in, styles.iter("{*}header", "{*}footer"))
        blocks += ((0, text) for text in dict.fromkeys(edges))
    draft = drafts.document(blocks, limits)
    yield Draft(draft.title or title, draft.blocks)


def _of(node: Any, name: str, default: object = "") -> str:  # noqa: ANN401 - XML without types
    """An attribute by its name in any namespace."""
    return str(next((value for key, value in node.items() if key.endswith(f"}}{name}")), default))


def _blocks(body: Any, parents: Mapping[str, str]) -> Iterator[Block]:  # noqa: ANN401
    for block in body.iter("{*}p", "{*}h", "{*}table"):
        if next(block.iterancestors("{*}table", *_UNSEEN), None) is not None:
            continue
        if block.tag.endswith("}table"):
            rows = [*_rows(block)]
            cells = (" | ".join(dict.fromkeys(filter(None, row[1]))) for row, _ in rows)
            yield from table_blocks(filter(None, cells))
            yield from ((0, text) for _, texts in rows for text in texts)
            continue
        style = _of(block, "style-name")
        is_title = "Title" in (style, parents.get(style))
        level = int(_of(block, "outline-level", 1)) + 1 if block.tag.endswith("}h") else is_title
        yield int(level), _shown(block)


def _shown(node: Any) -> str:  # noqa: ANN401
    """The text of a paragraph, without that of its notes and frames, which have paragraphs."""
    pieces = [node.text or ""]
    for child in node:
        if isinstance(child.tag, str) and not child.tag.endswith(_APART):
            pieces.append(_SIGNS.get(child.tag.partition("}")[2]) or _shown(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def _text_in(node: Any) -> str:  # noqa: ANN401
    """The text of all paragraphs in a cell or a header, without comments on it."""
    paragraphs = node.iter("{*}p", "{*}h")
    whole = (each for each in paragraphs if not [*each.iterancestors("{*}annotation")])
    return "\n".join(map(_shown, whole)).strip()


def _rows(table: Any) -> Iterator[tuple[TableRow, list[str]]]:  # noqa: ANN401
    """The rows of a table with comments on them; a cell that spans others is in each of these."""
    spans: dict[int, tuple[int, str]] = {}  # column -> the last row of a cell, and its value
    number = 1
    for row in table.iter("{*}table-row"):
        if next(row.iterancestors("{*}table")) is not table:
            continue
        cells: list[str] = []
        column = 0
        for cell in row:
            names = "number-columns-repeated", "number-columns-spanned", "number-rows-spanned"
            times, wide, high = (int(_of(cell, name, 1)) for name in names)
            value = _value(cell) if cell.tag.endswith("}table-cell") else ""
            if wide * high > 1:
                covered = range(column, column + min(wide, MOST_MERGED))
                spans |= dict.fromkeys(covered, (number + high - 1, value))
            for at in range(column, column + min(times, MOST_MERGED) if value or spans else 0):
                if shown := spans.get(at, (0, value))[1]:
                    cells += [""] * (at + 1 - len(cells))
                    cells[at] = shown
            column += times
        times = int(_of(row, "number-rows-repeated", 1))
        if spans and len({*filter(None, cells)}) == 1:  # a heading across the sheet
            cells = [next(filter(None, cells))]
        comments = [" ".join(map(_shown, note.iter("{*}p"))) for note in row.iter("{*}annotation")]
        for each in range(min(times, MOST_MERGED) if cells or comments else 0):
            yield (number + each, cells), comments[: None if each == 0 else 0]
        number += times
        spans = {at: span for at, span in spans.items() if span[0] >= number}


def _value(cell: Any) -> str:  # noqa: ANN401
    """A number or a day as Excel's are read; else what is shown."""
    kind = _of(cell, "value-type")
    if kind in ("float", "currency"):
        return as_text(float(_of(cell, "value")))
    if kind == "date":
        day, _, time = _of(cell, "date-value").partition("T")
        return f"{day} {time[:5]}".removesuffix(" 00:00").strip()
    return _text_in(cell)


def ods(file: BinaryIO, limits: Limits, options: Options = DEFAULT) -> Iterator[Draft]:
    """Sheets with one document per row; see `documents_of_sheets`."""
    content, _, _ = _parts(file, limits, "ODS")
    styles = content.iter("{*}table-properties")
    unseen = {_of(each.getparent(), "name") for each in styles if _of(each, "display") == "false"}
    tables = content.findall("{*}body/{*}spreadsheet/{*}table")
    hidden = [_of(table, "name") for table in tables if _of(table, "style-name") in unseen]
    sheets: list[Sheet] = []
    for table in tables:
        if (name := _of(table, "name")) not in hidden:
            rows = [*_rows(table)]
            comments = {row[0]: texts for row, texts in rows if texts}
            sheets.append((name, [row for row, _ in rows if row[1]], comments))
    yield from documents_of_sheets(sheets, hidden, options, are_several=len(sheets) > 1)


def odp(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """Slides, of which each that is shown is a passage, with its notes."""
    content, _styles, title = _parts(file, limits, "ODP")
    pages = content.iter("{*}drawing-page-properties")
    unseen = {_of(e.getparent(), "name") for e in pages if _of(e, "visibility") == "hidden"}
    blocks: list[Block] = []
    for number, page in enumerate(content.iter("{*}page"), 1):
        if _of(page, "style-name") in unseen:
            continue
        frames = [(_of(each, "class"), each) for each in page.iter("{*}frame")]
        titles, notes = ([e for of, e in frames if of == name] for name in ("title", "notes"))
        name, note_texts = drafts.one_line(" ".join(map(_text_in, titles))), [*map(_text_in, notes)]
        for apart in (*titles, *page.findall("{*}notes")):
            apart.getparent().remove(apart)
        blocks += (1, name or f"Slide {number}"), *_blocks(page, {})
        blocks += ((0, f"Notes: {text}") for text in note_texts if text)
    yield deck(blocks, title, limits)
