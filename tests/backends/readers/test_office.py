"""PDF, DOCX and CSV files: what is text, and what is refused rather than stored cut off."""

import io
import re
import zipfile
from collections.abc import Callable

import docx as word
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.ingest.files import make_word, saved
from wye.backends.readers.drafts import (
    DEFAULT,
    HEADER,
    ROW,
    BadFileError,
    Draft,
    Limits,
    Options,
    scalar,
)
from wye.backends.readers.office import docx, epub, in_columns
from wye.backends.readers.tables import csv

LIMITS = Limits(characters=10_000)


def rewritten(content: bytes, change: Callable[[bytes], bytes]) -> io.BytesIO:
    """A DOCX file with another document in it."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, change(part) if name == "word/document.xml" else part)
    written.seek(0)
    return written


def rows(text: str | bytes, options: Options = DEFAULT) -> list[Draft]:
    return list(csv(io.BytesIO(text.encode() if isinstance(text, str) else text), LIMITS, options))


def test_changes_fields_boxes_notes_and_headers_of_a_word_file() -> None:
    """What a reader of the pages sees, each note beside what it is said of."""
    space, run = "http://schemas.openxmlformats.org/", "<w:r><w:t>{}</w:t></w:r>".format
    field = "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>".format
    row = "<w:tr>{}<w:tc><w:p>{}</w:p></w:tc></w:tr>".format
    box = f"<w:r><w:pict><w:txbxContent><w:p>{run('in a box')}</w:p></w:txbxContent></w:pict></w:r>"
    old = f'<m:Fallback xmlns:m="{space}markup-compatibility/2006">{box}</m:Fallback>'
    gone = f"<w:del><w:r><w:delText>two</w:delText></w:r></w:del><w:moveFrom>{run(9)}</w:moveFrom>"
    moved = f"{gone}<w:ins>{run('six')}</w:ins><w:r><w:tab/><w:t>days</w:t></w:r>{box}{old}"
    table = row("", run("kept")) + row("<w:trPr><w:del/></w:trPr>", run("deleted"))
    table = f"<w:tbl>{table}{field(row('', run('filled in')))}</w:tbl>"
    mark = '<w:r><w:t>Open.</w:t><w:footnoteReference w:id="7"/></w:r>'
    body = field(f"<w:p>{moved}</w:p>{table}<w:p>{mark}</w:p>").encode()
    note = f'<w:footnote w:id="7"><w:p>{run("Not on Fridays.")}</w:p></w:footnote>'
    note = f'<w:footnotes xmlns:w="{space}wordprocessingml/2006/main">{note}</w:footnotes>'

    whole = word.Document()
    whole.add_comment(whole.add_paragraph("Before").runs, "why not?", author="Ada Finch")
    whole.sections[0].header.paragraphs[0].text = "Form F-19"
    part = Part(PackURI("/word/notes.xml"), "application/xml", note.encode(), whole.part.package)
    whole.part.relate_to(part, f"{space}officeDocument/2006/relationships/footnotes")
    kept, end = saved(whole).getvalue(), b"<w:sectPr"
    [result] = docx(rewritten(kept, lambda part: part.replace(end, body + end)), LIMITS)
    assert [level for level, _ in result.blocks] == [0, 0, 0, 0, HEADER, ROW, 0, 0, 0]
    assert [text for _, text in result.blocks] == [
        *("Before", "Ada Finch: why not?", "six\tdays", "in a box", "kept", "filled in"),
        *("Open.", "Not on Fridays.", "Form F-19"),
    ]


def test_headings_and_cells_of_a_word_file() -> None:
    whole = word.Document()
    whole.add_heading("The Memo", 0)
    whole.add_paragraph("Before.")
    whole.add_heading("Part", 1)
    table = whole.add_table(3, 3)
    table.cell(0, 0).merge(table.cell(1, 0)).text = "down"
    table.cell(2, 0).merge(table.cell(2, 2)).text = "across"
    table.cell(0, 2).text = "c"
    [result] = docx(saved(whole), LIMITS)
    assert result.title == "The Memo"
    table_blocks = [(HEADER, "down | c"), (ROW, "down"), (ROW, "across")]
    assert result.blocks == [(0, "Before."), (2, "Part"), *table_blocks]


@pytest.mark.parametrize("columns", [b"2000000000", b"-7"])
def test_a_cell_that_spans_no_end_of_columns_is_one_cell(columns: bytes) -> None:
    def wide(part: bytes) -> bytes:
        return part.replace(b"<w:tcPr>", b'<w:tcPr><w:gridSpan w:val="' + columns + b'"/>')

    [result] = docx(rewritten(make_word(["x"], ["a", "b"]), wide), LIMITS)
    assert result.blocks == [(0, "x"), (HEADER, "a | b")]


@pytest.mark.parametrize("entity", ['SYSTEM "file:///etc/passwd"', '"hello"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_word_file_with_an_entity_is_refused_and_not_cut_off(entity: str, encoding: str) -> None:
    def declared(part: bytes) -> bytes:
        kind = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE r [<!ENTITY x {entity}>]>'
        text = re.sub(r"^<\?xml[^>]*\?>", kind, part.decode())
        return text.replace("MARK", "&x;").encode(encoding)

    with pytest.raises(BadFileError, match="declares entities"):
        list(docx(rewritten(make_word(["before MARK after"]), declared), LIMITS))


def test_a_row_is_a_document() -> None:
    text = 'ID,Title,text,year,zip,ok\n1,One,"Hello, text",1999,01234,true\n2,,Second,,9,false\n'
    one, two = rows("\ufeff" + text)
    others = (0, "year: 1999; zip: 01234; ok: true")
    assert (one.id, one.title, one.line) == ("1", "One", 2)
    assert one.blocks == [(0, "Hello, text"), others]
    assert one.metadata == {"year": 1999, "zip": "01234", "ok": True}
    assert (two.title, two.metadata) == ("", {"zip": "9", "ok": False})
    errors = [result.error for result in rows("text,a\nx,1,2\n,\ny\n,4\n")]
    assert errors == ["has 3 fields, but the header has 2", "", ""]
    assert [each.blocks for each in rows("note\nPump\nBolt\n")] == [[(0, "Pump")], [(0, "Bolt")]]


LONG = "The east crane was inspected, and its rope replaced, before the first ship of spring."


@pytest.mark.parametrize(
    ("header", "title", "text", "note"),
    [
        ("Title,name,text", "a", f"{LONG}\n\nname: bb", ""),
        ("heading,Name,text", "bb", f"{LONG}\n\nheading: a", 'text from "text", title from "Name"'),
        ("price,label,about", "bb", f"{LONG}\n\nprice: a", 'text from "about", title from "label"'),
        ("first_name,Last name,about", "a bb", LONG, 'title from "first_name" and "Last name"'),
        ("Question,who,answer", "a", f"{LONG}\n\nwho: bb", 'text from "answer"'),
        ("price,sku,about", "", f"{LONG}\n\nprice: a; sku: bb", 'text from "about", no title'),
    ],
)
def test_a_row_is_all_of_its_columns(header: str, title: str, text: str, note: str) -> None:
    first, second = rows(f'{header}\na,bb,"{LONG}"\na,bb,"{LONG}"\n')
    assert (first.title, "\n\n".join(block for _, block in first.blocks)) == (title, text)
    assert (note in first.note, bool(note), second.note) == (True, bool(first.note), "")


def test_columns_that_are_named_and_rows_without_names() -> None:
    staff = "who,role,team\nAda,welder,north\nBen,fitter,north\n"
    [ada, _] = rows(staff)
    assert (ada.title, ada.blocks) == ("Ada", [(0, "role: welder; team: north")])
    assert ada.metadata == {"role": "welder", "team": "north"}
    [ada, _] = rows(staff, Options(text_columns=("team",), title_column="ROLE"))
    assert (ada.title, ada.blocks, ada.metadata) == ("welder", [(0, "north")], {"who": "Ada"})
    with pytest.raises(BadFileError, match="has no column 'x'; it has who, role, team"):
        rows(staff, Options(title_column="x"))
    bare = "Ada,welder,3\nBen,fitter,5\nCy,welder,7\n"
    result = rows(bare)
    first = [(one.title, one.blocks) for one in result[:2]]
    assert first == [("Ada", [(0, "welder; 3")]), ("Ben", [(0, "fitter; 5")])]
    assert "its first row is taken for data" in result[0].note
    assert len(rows("city,2029,2030\nPorto,4,5\nPorto,6,7\n")) == 2, "years are names"
    assert len(rows(staff + "who,role,team\nCy,cook,south\n")) == 3, "a header that is repeated"
    assert len(rows(staff, Options(has_header=False))) == 3
    assert len(rows("Ada,welder\nBen,fitter\nCy,welder\n", Options(has_header=True))) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no header"),
        ("id,text\n1," + "x" * 10_001, "field larger"),
        (b"text\ncaf\xe9", "is not UTF-8: byte 8"),
    ],
    ids=["nothing", "long", "latin"],
)
def test_what_is_no_table_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(BadFileError, match=said):
        rows(text)


@given(st.text(alphabet="0123456789.-+eEinfat ruls", max_size=8))
def test_a_number_is_what_is_written_like_one(text: str) -> None:
    value = scalar(text)
    assert value == text or (not isinstance(value, str) and str(value).lower() == text)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(["text", "id", ",", ";", "\n", '"', "x", "1", "\r", "\x00", "é"])))
def test_no_table_is_a_fault(parts: list[str]) -> None:
    try:
        result = rows("".join(parts))
    except BadFileError as error:
        assert str(error).strip()  # noqa: PT017 - either is right
        return
    assert all(bool(one.error) != bool(one.blocks) for one in result)


def test_a_quote_that_is_never_closed_is_refused_not_read_to_the_end() -> None:
    with pytest.raises(BadFileError, match="a quote after line 2 is never closed"):
        rows('id,text\n0,fine\n1,"a, quoted\n2,b\n')
    assert [result.id for result in rows('id,text\n1,"two\nlines"\n2,last')] == ["1", "2"]


BOOK = {
    "META-INF/container.xml": "<container><rootfile full-path='in/book.opf'/></container>",
    "in/book.opf": "<package><title>On Locks</title><creator>Ada Vale</creator>"
    "<manifest><item id='b' href='two%20.xhtml'/><item id='a' href='one.xhtml'/>"
    "<item id='c' href='notes.xhtml'/></manifest>"
    "<itemref idref='a'/><itemref idref='b'/><itemref idref='c' linear='no'/></package>",
    "in/one.xhtml": "<html><body><h1>Gates</h1><p>A gate turns.</p></body></html>",
    "in/two .xhtml": "<html><body><p>A pin at 5 °C stops it.</p></body></html>",
    "in/notes.xhtml": "<html><body><p>Not read in order.</p></body></html>",
}


def book(parts: dict[str, str]) -> io.BytesIO:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    written.seek(0)
    return written


def test_an_e_book_is_read_in_its_order() -> None:
    [draft] = epub(book(BOOK), LIMITS)
    assert (draft.title, draft.metadata) == ("On Locks", {"author": ["Ada Vale"]})
    assert draft.blocks == [(1, "Gates"), (0, "A gate turns."), (0, "A pin at 5 °C stops it.")]
    for missing in ("META-INF/container.xml", "in/book.opf"):
        with pytest.raises(BadFileError, match=f"is no EPUB file: {missing} is missing"):
            [*epub(book({name: BOOK[name] for name in BOOK if name != missing}), LIMITS)]


def test_columns_of_a_page_are_read_one_after_the_other() -> None:
    left = ["The ferry at Osla runs", "every hour in winter and"]
    left += ["twice in summer; a ticket", "costs two crowns for all"]
    right = [
        "The cable car at Tarn was",
        "closed in March. It opens",
        "on 4 May, if the wind does",
        "not blow across the pass",
    ]
    lines = [f"{one:<30}{other}" for one, other in zip(left, right, strict=True)]
    assert in_columns(
        "\n".join(["Lines of the north coast and of the hills behind it", *lines])
    ) == "\n".join(["Lines of the north coast and of the hills behind it", *left, *right])
    table = [f"{name:<16}{room:<16}{place}" for name, room, place in [("Ada", "12", "east")] * 6]
    assert in_columns("\n".join(table)) == in_columns("\n".join(left)) == ""
