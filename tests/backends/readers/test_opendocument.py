import io
import zipfile

import pytest

from wye.backends.documents import document_of
from wye.backends.readers.drafts import DEFAULT, HEADER, ROW, BadFileError, Draft, Limits
from wye.backends.readers.extract import DraftReader
from wye.backends.readers.office import rtf
from wye.backends.readers.opendocument import odp, ods, odt

LIMITS = Limits(characters=10_000, unpacked_bytes=1 << 20)
SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
PREFIXES = ("office", "text", "table", "style", "presentation")
SPACES = " ".join(f'xmlns:{each}="{SPACE}{each}:1.0"' for each in PREFIXES)
SPACES += f' xmlns:draw="{SPACE}drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'


def saved(body: str, automatic: str = "", **parts: str) -> io.BytesIO:
    parts["content"] = (
        f"<office:automatic-styles>{automatic}</office:automatic-styles>"
        f"<office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(f"{name}.xml", f"<office:part {SPACES}>{part}</office:part>")
    file.seek(0)
    return file


def p(text: str) -> str:
    return f"<text:p>{text}</text:p>"


def cell(text: str = "", **attributes: object) -> str:
    names = "".join(
        f' {"table:number-" if "s_" in name else "office:"}{name.replace("_", "-")}="{value}"'
        for name, value in attributes.items()
    )
    return f"<table:table-cell{names}>{text and p(text)}</table:table-cell>"


def row(*cells: str, times: int = 1) -> str:
    repeated = f'table:number-rows-repeated="{times}"'
    return f"<table:table-row {repeated}>{''.join(cells)}</table:table-row>"


def said(text: str) -> str:
    return f"<office:annotation><dc:creator>Ada Finch</dc:creator>{p(text)}</office:annotation>"


COVERED = "<table:covered-table-cell/>"
MANY = cell(columns_repeated=16_000)


def test_a_text_is_read_in_its_order_with_notes_and_tables() -> None:
    """Without what was deleted, and each note beside what it is said of."""
    note = "<text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body>"
    note = f"<text:note>{note.format(p('Two to one.'))}</text:note>"
    items = f"<text:list-item>{p('Mind<text:line-break/>the queen')}</text:list-item>"
    box = "<draw:frame><draw:text-box><text:p>in a box</text:p></draw:text-box></draw:frame>"
    table = row(cell("hive"), cell("frames")) + row(cell("H-2"), cell("11"))
    body = (
        f"<text:tracked-changes>{p('deleted')}</text:tracked-changes>"
        '<text:p text:style-name="P7">Hives<text:s text:c="2"/>of 2031</text:p>'
        '<text:h text:outline-level="1">Spring</text:h>'
        f"<text:p>Feed <text:span>syrup</text:span>{note}.{box}</text:p>"
        f"<text:list>{items}</text:list><table:table>{table}</table:table>"
        f"{p('Swarms' + said('Which?') + ' leave.')}"
    )
    styles = '<style:style style:name="P7" style:parent-style-name="Title"/>'
    page = (
        f"<style:header>{p('Form B-4')}</style:header><style:footer>{p('Form B-4')}</style:footer>"
    )
    [draft] = odt(saved(body, styles, styles=page, meta="<dc:title>Other</dc:title>"), LIMITS)
    assert draft == Draft(
        "Hives of 2031",
        [
            *((2, "Spring"), (0, "Feed syrup."), (0, "Two to one."), (0, "in a box")),
            *((0, "Mind\nthe queen"), (HEADER, "hive | frames"), (ROW, "H-2 | 11")),
            *((0, "Swarms leave."), (0, "Which?"), (0, "Form B-4")),
        ],
    )


def sheet(name: str, *rows: str, style: str = "") -> str:
    return (
        f'<table:table table:name="{name}" table:style-name="{style}">{"".join(rows)}</table:table>'
    )


def test_rows_of_opendocument_sheets() -> None:
    """Numbers and days as they are stored, cells that span others in each, comments below."""
    day = cell("05/03/31", value_type="date", date_value="2031-03-05T00:00:00")
    kilos = cell("1,250.00", value_type="float", value="1250.0")
    honey = sheet(
        "Honey",
        row(cell("Harvest of 2031", columns_spanned=3), COVERED, COVERED, MANY),
        row(cell("Site"), cell("Jar"), cell("Filled"), cell("Kilos"), MANY),
        row(cell("Lee", rows_spanned=2), cell("J-1"), day, kilos, MANY),
        row(COVERED, cell("J-2"), day, cell("3").replace("<text", said("late") + "<text"), MANY),
        row(MANY, times=40),
        row(cell().replace("><", f">{said('Next on 1 May.')}<"), times=1_000_000),
    )
    hidden = (
        '<style:style style:name="t9"><style:table-properties table:display="false"/></style:style>'
    )
    sheets = honey + sheet("Old", row(cell("a")), style="t9") + sheet("Empty", row(MANY))
    first, *_ = drafts = [*ods(saved(sheets, hidden), LIMITS)]
    texts = [f"{draft.id} {draft.title}, {document_of(draft, 'a').text}" for draft in drafts]
    about = "sheet: Honey; table: Harvest of 2031"
    assert texts == [
        f"Honey:3 J-1, Site: Lee; Filled: 2031-03-05; Kilos: 1250; {about}",
        f"Honey:4 J-2, Site: Lee; Filled: 2031-03-05; Kilos: 3; {about}\n\nComment: late",
        "Honey:45 , Honey: Next on 1 May.",
    ]
    assert (first.metadata["Kilos"], "left out: Old, hidden" in first.note) == (1250, True)


@pytest.mark.parametrize("reader", [odt, ods, odp])
def test_what_is_no_opendocument_file_is_refused(reader: DraftReader) -> None:
    def refused(file: io.BytesIO) -> str:
        with pytest.raises(BadFileError) as refusal:
            list(reader(file, LIMITS, DEFAULT))
        return str(refusal.value)

    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("META-INF/manifest.xml", "<encryption-data/>")
        archive.writestr("content.xml", b"\x8f\x00")
    assert refused(other) == "is encrypted; save it without a password"
    with zipfile.ZipFile(other := io.BytesIO(), "w") as archive:
        archive.writestr("word/document.xml", "<a/>")
    assert "content.xml is missing" in refused(other)
    with zipfile.ZipFile(other := io.BytesIO(), "w") as archive:
        archive.writestr("content.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    assert "declares entities" in refused(other)


def test_a_rich_text_with_its_tables() -> None:
    text = r"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title T}}
\b Caf\'e9 rules\b0\par Ask \u8222?Ohm\'94.\par
\trowd\cellx10\cellx20\intbl Day\cell Soup\cell\row
\trowd\cellx10\cellx20\intbl Monday\cell Leek\cell\row\pard Closed{\footnote on feasts}.\par}"""
    [draft] = rtf(io.BytesIO(text.encode()), LIMITS)
    assert draft.blocks == [
        *((0, "Café rules"), (0, "Ask „Ohm”.")),
        *((HEADER, "Day | Soup"), (ROW, "Monday | Leek"), (0, "Closed.")),
    ]
    with pytest.raises(BadFileError, match="is no RTF file"):
        list(rtf(io.BytesIO(b"plain"), LIMITS))


def test_slides_that_are_shown_are_passages_with_their_notes() -> None:
    """A program may put the notes first; a table is read with its rows."""
    hidden = (
        '<style:style style:name="dp2"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style>'
    )

    def slide(style: str, *frames: tuple[str, str], after: str = "") -> str:
        boxes = (
            f'<draw:frame presentation:class="{of}"><draw:text-box>{p(text)}</draw:text-box>'
            "</draw:frame>"
            for of, text in frames
        )
        return f'<draw:page draw:style-name="{style}">{"".join(boxes)}{after}</draw:page>'

    notes = f'<draw:frame presentation:class="notes">{p("Show the smoker.")}</draw:frame>'
    table = (
        f"<table:table>{row(cell('hive'), cell('kg'))}{row(cell('H-2'), cell('11'))}</table:table>"
    )
    pages = (
        slide("dp1", ("title", "Bees"), ("subtitle", "Evening course")),
        slide("dp2", ("title", "Draft"), ("outline", "not shown")),
        slide(
            "dp1",
            ("outline", "Wear white"),
            after=f"<presentation:notes>{notes}</presentation:notes>",
        ),
        slide("dp1", ("title", "Yield"), after=f"<draw:frame>{table}</draw:frame>"),
    )
    [draft] = odp(saved("".join(pages), hidden), LIMITS)
    assert (draft.title, draft.has_pages) == ("Bees", True)
    assert draft.blocks == [
        *((0, "Evening course"), (1, "Slide 3"), (0, "Wear white"), (0, "Notes: Show the smoker.")),
        *((1, "Yield"), (HEADER, "hive | kg"), (ROW, "H-2 | 11")),
    ]
