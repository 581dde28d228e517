"""Readers of PDF, Word and PowerPoint files."""

import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

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

# Parts of an archive; a real one has dozens.
_MOST_FILES = 10_000
# Titles that programs give.
_NO_TITLES = ("", "powerpoint presentation", "presentation")
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
        raise BadFileError(f"is not {'an' if kind[0] in 'EX' else 'a'} {kind} file") from error
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
    """A DOCX file, tables included, in the order of the document.

    Raises:
        BadFileError: It is not a DOCX file, too large when decompressed, or has a document type
            declaration, whose entities would silently be missing from the text.
    """
    check_archive(file, limits, "DOCX")
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
            yield from table_blocks(_rows(block._tbl))
        else:
            yield levels.get(block._p.style or "", 0), block.text


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


def pptx(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
    """A PowerPoint file, of which each slide that is shown is a passage, with its notes.

    Raises:
        BadFileError: It is not such a file, or too large when decompressed.
    """
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
    title = one_line(whole.core_properties.title or "")
    if title.casefold() in _NO_TITLES and blocks and blocks[0][1] != "Slide 1":
        title = blocks[0][1]
    draft = document(blocks, limits, title=title)
    yield Draft(draft.title, draft.blocks, has_pages=True)


def _shape(shape: Any, title_id: int | None, depth: int = 0) -> Iterator[Block]:  # noqa: ANN401
    """The text of a shape, a table or a group of shapes."""
    if getattr(shape, "shape_type", None) == 6 and depth < _DEEPEST_GROUP:
        for inner in shape.shapes:
            yield from _shape(inner, title_id, depth + 1)
    elif getattr(shape, "has_table", False):
        rows = ([one_line(cell.text) for cell in row.cells] for row in shape.table.rows)
        yield from table_blocks(" | ".join(filter(None, cells)) for cells in rows)
    elif shape.has_text_frame and shape.shape_id != title_id:
        yield 0, shape.text_frame.text.replace("\x0b", "\n")


def pdf(file: BinaryIO, limits: Limits, _: Options = DEFAULT) -> Iterator[Draft]:
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
