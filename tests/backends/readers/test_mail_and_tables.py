"""Mails, sheets and slides, encodings, and what none of them may do."""

import io
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import openpyxl
import pptx
import pytest
from openpyxl.comments import Comment
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from tests.service.ingest.files import saved
from wye.backends.documents import chunk_passage, document_of
from wye.backends.readers.decode import decoded, utf8_lines
from wye.backends.readers.drafts import DEFAULT, HEADER, ROW, BadFileError, Draft, Limits
from wye.backends.readers.extract import READERS, DraftReader
from wye.backends.readers.mail import eml, mbox
from wye.backends.readers.office import pptx as slides
from wye.backends.readers.office import xlsx
from wye.backends.readers.sandbox import Sandbox
from wye.backends.readers.tables import csv

LIMITS = Limits(characters=10_000, unpacked_bytes=1 << 20)


def mail(number: int, text: str, answers: int = 0) -> EmailMessage:
    made = EmailMessage()
    made["From"] = "Rosa Quill <rosa@example.org>"
    made["To"] = "Tam Ober <tam@example.org>, desk@example.org"
    made["Subject"] = f"Kiln {number}"
    made["Date"] = "Wed, 05 Mar 2031 14:02:00 +0100"
    made["Message-ID"] = f"<{number}@example.org>"
    if answers:
        made["In-Reply-To"] = f"<{answers}@example.org>"
    made.set_content(text)
    return made


REPLY = "It cools overnight.\n\nOn Tue, 4 Mar 2031 Tam Ober wrote:\n> When is it cold?\n\nRosa\n"


def test_a_mail_says_its_own_before_what_it_quotes() -> None:
    made = mail(2, REPLY, answers=1)
    made.add_alternative("<p>Not this one</p>", subtype="html")
    made.add_attachment(b"x", maintype="application", subtype="pdf", filename="plan.pdf")
    made.add_attachment(mail(7, "A forwarded line."))
    draft, _ = eml(bytes(made), LIMITS)
    text = document_of(draft, "a.eml").text
    order = ["From: Rosa Quill", "cools", "Quoted", "When is it cold?", "forwarded"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert (draft.title, "wrote:" in text, "Not this one" in text) == ("Kiln 2", False, False)
    assert draft.metadata["to"] == ["Tam Ober <tam@example.org>", "desk@example.org"]
    assert draft.metadata["date"] == "2031-03-05T14:02:00+01:00"
    assert (draft.metadata["attachments"], "Attachments: plan.pdf" in text) == (["plan.pdf"], True)
    with pytest.raises(BadFileError, match="is no mail"):
        eml(b"\nNo header.", LIMITS)


STUB_AND_PAGE = [
    ("See the HTML part.", "<p>The lid comes on <b>9 May</b>, eleven kilos, by Ohm.</p>"),
    ("", "<p>The lid comes on 9 May, eleven kilos, by Ohm.</p>"),
]
QUOTES = [
    "<blockquote><p>When does it come?</p></blockquote>",
    "<div class='gmail_quote'>On Tuesday Tam wrote: When does it come?</div>",
    "<p>Von: Tam Ober<br>Gesendet: Dienstag<br>Betreff: Deckel</p><p>When does it come?</p>",
]


@pytest.mark.parametrize(("stub", "page"), STUB_AND_PAGE)
@pytest.mark.parametrize("quote", QUOTES)
def test_a_mail_with_a_stub_is_its_page_without_quotes(stub: str, page: str, quote: str) -> None:
    made = mail(3, stub)
    made.add_alternative(f"<html><body>{page}{quote}</body></html>", subtype="html")
    draft, _ = eml(bytes(made), LIMITS)
    text = document_of(draft, "a.eml").text
    order = ["The lid comes on 9 May", "Quoted", "When does it come?"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_a_page_that_cannot_be_read_costs_no_mail_its_text() -> None:
    made = mail(3, "The lid comes on 9 May.")
    made.add_alternative("<div>" * 5_000 + "deep", subtype="html")
    draft, _ = eml(bytes(made), LIMITS)
    assert "The lid comes on 9 May." in document_of(draft, "a.eml").text


@pytest.mark.parametrize(
    "header",
    [
        "Von: Tam Ober\nGesendet: Dienstag\nAn: Rosa Quill",
        "De : Tam Ober\nEnvoyé : mardi",
        "From: Tam Ober\nTo: Rosa Quill\nDate: Tuesday",
        "*From:* Tam Ober\n*Sent:* Tuesday",
    ],
)
def test_a_mail_below_a_header_is_quoted(header: str) -> None:
    draft, _ = eml(bytes(mail(3, f"On 9 May.\n\n{header}\n\nWhen?\n")), LIMITS)
    text = document_of(draft, "a.eml").text
    order = ["On 9 May", "Quoted", "Tam Ober\n", "When?"]
    assert [text.index(part) for part in order[:2]] < [text.rindex(part) for part in order[2:]]
    plain, _ = eml(bytes(mail(3, "From: Oslo, by rail.\nTo: Bergen.\n")), LIMITS)
    assert "Quoted" not in document_of(plain, "a.eml").text


def test_a_mailbox_is_its_mails_and_quotes_none_twice() -> None:
    one = bytes(mail(1, "When is it cold?\n>From here it looks hot.\n\nFrom May on, by wood\n"))
    box = b"From a\n" + one + b"\nFrom b\n" + bytes(mail(2, REPLY, answers=1))
    (first, _), (second, _) = mbox(io.BytesIO(box), LIMITS)
    assert (first.id, second.id) == ("1@example.org", "2@example.org")
    assert "From here it looks hot." in first.blocks[-2][1]
    assert first.blocks[-1] == (0, "From May on, by wood")
    assert "When is it cold?" not in document_of(second, "b.mbox").text
    with pytest.raises(BadFileError, match="is no mailbox"):
        list(mbox(io.BytesIO(one), LIMITS))


def test_rows_of_sheets_that_are_shown() -> None:
    book = openpyxl.Workbook()
    book.active.title = "Kilns"
    for row in (["Kilns in use"], ["Name", "Place", "Degrees"], ["Vesta", "yard", 900.0]):
        book.active.append(row)
    book.create_sheet("Old").append(["a", "b"])
    book["Old"].sheet_state = "hidden"
    [draft] = xlsx(saved(book), LIMITS)
    assert (draft.id, draft.title) == ("Kilns:3", "Vesta")
    assert draft.blocks == [(0, "Place: yard; Degrees: 900; table: Kilns in use")]
    around = {"sheet": "Kilns", "caption": "Kilns in use"}
    assert draft.metadata == {"Place": "yard", "Degrees": 900, **around}
    assert "left out: Old, hidden" in draft.note


def test_rows_say_their_sheet_where_there_are_several() -> None:
    book = openpyxl.Workbook()
    for town in ("Ulm", "Kiel"):
        sheet = book.create_sheet(town)
        sheet.append(["Month", "Visitors"])
        sheet.append(["May", 40])
    book.remove(book.worksheets[0])
    first, second = xlsx(saved(book), LIMITS)
    assert first.blocks == [(0, "Visitors: 40; sheet: Ulm")]
    assert second.blocks == [(0, "Visitors: 40; sheet: Kiel")]
    assert (bool(first.note), second.note) == (True, "")  # sheets of one form, one note


def test_merged_cells_are_in_each_of_their_rows_and_columns() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Firings", None, None, None, None],
        ["Yard", "Name", "May", None, "June"],
        [None, None, "early", "late"],
        ["north", "Vesta", 1, 2, 3],
        [None, "Brand", 4, 5, 6, "broken"],
        ["closed in July"],
    ):
        sheet.append(row)
    for cells in ("A1:E1", "A2:A3", "C2:D2", "A4:A5", "A6:E6"):
        sheet.merge_cells(cells)
    vesta, brand, closed = xlsx(saved(book), LIMITS)
    assert (vesta.title, brand.title) == ("Vesta", "Brand")
    north = "Yard: north; May early: {}; May late: {}; June: {}"
    assert vesta.blocks == [(0, north.format(1, 2, 3) + "; table: Firings")]
    assert brand.blocks == [(0, north.format(4, 5, 6) + "; column 6: broken; table: Firings")]
    assert closed.blocks == [(0, "Yard: closed in July; table: Firings")]


@pytest.mark.parametrize(
    "captions", ["Museum of Clocks;;\n", "Museum of Clocks\nBy month\n", "Museum of Clocks, Vell\n"]
)
def test_lines_above_a_table_are_its_caption(captions: str) -> None:
    table = f"{captions}month;adults;children\nMay;812;240\nJune;765;311\nJuly;3;4\n"
    drafts = [*csv(io.BytesIO(table.encode()), LIMITS)]
    caption = captions.replace(";", "").strip().replace("\n", " ")
    assert [draft.title for draft in drafts] == ["May", "June", "July"]
    assert drafts[0].blocks == [(0, f"adults: 812; children: 240; table: {caption}")]
    assert drafts[0].metadata["caption"] == caption


def test_what_separates_the_cells() -> None:
    """Neither a comma within cells does nor the line that states it becomes a caption."""
    prices = "Prices, May\npart;price;kind\nlid;1,50;a\nrim;2,75;b\nbell;0,80;c\n"
    assert [draft.title for draft in csv(io.BytesIO(prices.encode()), LIMITS)][:2] == ["lid", "rim"]
    stated = b"sep=|\r\nname|size, in cm\r\nlid|1,5\r\n"
    [draft] = csv(io.BytesIO(stated), LIMITS)
    assert (draft.title, draft.blocks, draft.line) == ("lid", [(0, "size, in cm: 1,5")], 3)


STACKED = (
    *("Staff", "", "name,desk", "Ada,17", "", "Cy,18", "", "Boats", "boat,owner,checked"),
    *("Gull,Ada,2031-03-05", "Tern,Ada,2031-03-06", "", "Rooks and ravens", ""),
    *("boat,owner,checked", "Rook,Cy,2031-03-09", "Crow,Cy,"),
)


def sheet_of(lines: Sequence[str]) -> bytes:
    book = openpyxl.Workbook()
    for number, line in enumerate(lines, 1):
        for column, value in enumerate(filter(None, line.split(",")), 1):
            book.active.cell(number, column, value)
    return saved(book).getvalue()


@pytest.mark.parametrize(
    ("reader", "content"),
    [(csv, "\n".join(STACKED).encode()), (xlsx, sheet_of(STACKED))],
    ids=["csv", "xlsx"],
)
def test_tables_below_each_other(reader: DraftReader, content: bytes) -> None:
    drafts = [*reader(io.BytesIO(content), LIMITS, DEFAULT)]
    assert [draft.title for draft in drafts] == ["Ada", "Cy", "Gull", "Tern", "Rook", "Crow"]
    text = [document_of(draft, "a").text for draft in drafts]
    said = ("desk: 17", "desk: 18", *["owner: Ada"] * 2, *["owner: Cy"] * 2)
    assert all(part in each for part, each in zip(said, text, strict=True))
    assert [draft.metadata["caption"] for draft in drafts][3:5] == ["Boats", "Rooks and ravens"]


def test_files_that_a_mail_brings_are_documents(tmp_path: Path) -> None:
    made = mail(2, "See the two files.")
    files = {"Menu.csv": b"day,dish\nMon,plaice\n", "cut.pdf": b"x", "a.exe": b""}
    for name, content in files.items():
        made.add_attachment(content, maintype="application", subtype="x", filename=name)
    (path := tmp_path / "a.eml").write_bytes(bytes(made))
    with Sandbox(LIMITS) as sandbox, path.open("rb") as file:
        letter, dish, cut = sandbox.read(file, ".eml")
    assert document_of(letter, "a.eml").id == "a.eml"
    document = document_of(dish, "a.eml")
    assert (document.id, document.title) == ("a.eml:Menu.csv:2", "Mon")
    assert "plaice" in document.text
    assert cut.error.startswith("cut.pdf is no PDF file, or a damaged one")


def test_files_that_mails_of_a_mailbox_bring(tmp_path: Path) -> None:
    made = mail(2, "See the menu.")
    menu = b"day,dish\nMon,plaice\n"
    made.add_attachment(menu, maintype="application", subtype="x", filename="Menu.csv")
    (path := tmp_path / "a.mbox").write_bytes(b"From a\n" + bytes(made))
    with Sandbox(LIMITS) as sandbox, path.open("rb") as file:
        _, dish = sandbox.read(file, ".mbox")
    document = document_of(dish, "a.mbox")
    assert (document.id, document.text) == ("a.mbox:2@example.org:Menu.csv:2", "dish: plaice")


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("Betrag", "Betrag (amount)"),
        ("Kundennr.", "Kundennr. (customer number)"),
        ("Fällig am", "Fällig am (due)"),
        ("Prénom", "Prénom (first name)"),
        ("Qty", "Qty (quantity)"),
        ("Schwierigkeit", "Schwierigkeit (difficulty)"),
        *((label, label) for label in ("amount", "Report", "Stock", "load kW", "Heft")),
    ],
)
def test_labels_say_what_they_mean_in_english(label: str, shown: str) -> None:
    (draft,) = csv(io.BytesIO(f"name;{label};x\nAda;7;1\n".encode()), LIMITS)
    assert draft.blocks[0][1].startswith(f"{shown}: 7; ")
    assert label in draft.metadata


@pytest.mark.parametrize(
    ("right", "is_apart"),
    [
        (["fees", "per night,EUR", "long,9"], True),  # with a caption
        (["short,4", "tall,9", "late,3", "lost,5"], True),  # longer
        (["mast,oak", "tall,9"], False),
    ],
)
def test_tables_beside_each_other(right: Sequence[str], *, is_apart: bool) -> None:
    book = openpyxl.Workbook()
    for lines, left in ((["boat,berth", "Gull,B3", "Tern,B4"], 1), (right, 4)):
        for number, line in enumerate(lines, 1):
            for column, value in enumerate(line.split(","), left):
                book.active.cell(number, column, value)
    texts = {draft.title: document_of(draft, "a").text for draft in xlsx(saved(book), LIMITS)}
    assert (texts["Gull"] == "berth: B3") is is_apart
    assert is_apart or texts["Gull"] == "berth: B3; mast: tall; oak: 9"


def test_comments_on_cells_are_said_in_their_row() -> None:
    book = openpyxl.Workbook()
    for row in (["boat", "berth"], ["Gull", 3], ["Tern", 4]):
        book.active.append(row)
    told = "[Threaded comment]\nThis Excel is old: read more.\nComment:\n    until June"
    for cell, text in (("B1", "as of May"), ("A3", "sold\nto Ohm"), ("B3", told)):
        book.active[cell].comment = Comment(text, "Ada")
    gull, tern = (document_of(draft, "a").text for draft in xlsx(saved(book), LIMITS))
    assert gull == "berth: 3\n\nComment: as of May"
    assert tern == "berth: 4\n\nComment: sold to Ohm\n\nComment: until June"
    book.active["B9"].comment = Comment("Ask Ohm.", "Ada")
    *_, below = xlsx(saved(book), LIMITS)
    assert (below.id, below.blocks) == ("Sheet:9", [(0, "Sheet: Ask Ohm.")])


def test_a_title_beside_a_date_is_a_caption() -> None:
    rows = ["name;team;head;desk;floor", "Ada;North;Bo;7;2", "Cy;North;Bo;8;2", "Di;South;Ed;9;3"]
    table = "\n".join(["Staff as of;Feb 2031;;;", ";;;;", *rows])
    drafts = [*csv(io.BytesIO(table.encode()), LIMITS)]
    assert [draft.title for draft in drafts] == ["Ada", "Cy", "Di"]
    assert drafts[0].metadata["caption"] == "Staff as of Feb 2031"


FORM = ["Hives checked,,,", "by,Ada,,on 9 May", ",,,"]
HIVES = ["hive,site,frames,queen", "H-1,lee,9,blue", "H-2,moor,7,red"]


@pytest.mark.parametrize(
    "form", [FORM, [FORM[1], ",,,"], ["by,Ada,,", "on,9 May,,", "in,mist,,", ",,,"]]
)
def test_a_form_above_a_table_is_its_caption(form: Sequence[str]) -> None:
    first, second = csv(io.BytesIO("\n".join([*form, *HIVES]).encode()), LIMITS)
    assert (first.title, second.title) == ("H-1", "H-2")
    assert second.metadata["frames"] == 7
    assert all(part in str(first.metadata["caption"]) for part in ("by Ada", "on", "9 May"))


@pytest.mark.parametrize("table", [["site,hives", "lee,9"], ["a,b,c", "d,e,f"], ["x,y"] * 5])
def test_a_table_above_a_table_is_no_form(table: Sequence[str]) -> None:
    drafts = [*csv(io.BytesIO("\n".join([*table, ",,,", *HIVES]).encode()), LIMITS)]
    assert not any("caption" in draft.metadata for draft in drafts)


def test_one_column_of_texts_has_no_caption() -> None:
    drafts = [*csv(io.BytesIO(b"text\nHello, world\nGoodbye\nFar, far, away\n"), LIMITS)]
    error = "has {} fields, but the header has 1"
    assert [draft.error for draft in drafts] == [error.format(2), "", error.format(3)]
    fine, bad = csv(io.BytesIO(b"text\nfine\n1,2\n"), LIMITS)
    assert (fine.blocks, bad.error) == ([(0, "fine")], error.format(2))


def test_columns_of_one_name_are_counted() -> None:
    [draft] = csv(io.BytesIO(b"Name,Name,Name 2\nIlse,Ohm,Kiel\n"), LIMITS)
    assert draft.blocks == [(0, "Name 2: Ohm; Name 2 2: Kiel")]


def test_each_slide_is_a_passage_with_its_notes() -> None:
    deck = pptx.Presentation()
    for title in ("Firing", "Costs"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"About {title}."
        slide.notes_slide.notes_text_frame.text = f"Say more of {title}."
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["May", "June"]
    data.add_series("Cracked", (3, 7.5))
    slide.shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, 9, 9, data)
    [draft] = slides(saved(deck), LIMITS)
    passages = list(chunk_passage(document_of(draft, "d.pptx"), 200))
    assert [passage.title for passage in passages] == ["Firing", "Firing > Costs"]
    chart = "Cracked\nMay | 3.0\nJune | 7.5"
    assert passages[1].text == f"About Costs.\n\n{chart}\n\nNotes: Say more of Costs."


@pytest.mark.parametrize("suffix", [".xlsx", ".pptx", ".docx"])
def test_archives_that_are_none_or_too_large(suffix: str, tmp_path: Path) -> None:
    for content, reason in ((b"PK no", "is no [A-Z]+ f"), (b"", "is no "), (None, "unpacks to")):
        with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/sharedStrings.xml", b"\0" * (2 << 20))
        if content is not None:
            (tmp_path / "x").write_bytes(content)
        with (
            (tmp_path / "x").open("rb") as file,
            Sandbox(LIMITS) as sandbox,
            pytest.raises(BadFileError, match=reason),
        ):
            list(sandbox.read(file, suffix))


@pytest.mark.parametrize("suffix", sorted({*READERS} - {".csv", ".tsv", ".md", ".html", ".htm"}))
def test_hostile_bytes_are_refused_or_read(suffix: str, tmp_path: Path) -> None:
    deep = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n" * 3_000
    with Sandbox(LIMITS) as sandbox:
        for content in (b"\xff" * 99, b"From x\n" + deep, deep, b"From \n\n" * 999):
            (tmp_path / "x").write_bytes(content)
            with (tmp_path / "x").open("rb") as file:
                try:
                    assert list(sandbox.read(file, suffix))
                except BadFileError as error:
                    assert str(error)  # noqa: PT017 - either is right


def test_small_files_are_read_together_up_to_one_that_cannot_be(tmp_path: Path) -> None:
    for name, text in (("a.md", "# One"), ("b.csv", 'a,b\n1,"'), ("c.md", "# Three")):
        (tmp_path / name).write_text(text)
    a, b = tmp_path / "a.md", tmp_path / "b.csv"
    with Sandbox(LIMITS) as sandbox, a.open("rb") as good, b.open("rb") as bad:
        assert len(sandbox.read_small([(good, ".md"), (bad, ".csv"), (good, ".md")])) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "cp1252", "cp1251"])
def test_a_text_is_decoded_by_its_mark_or_by_what_is_certain(encoding: str) -> None:
    text = "Café über der Brücke."
    if encoding == "cp1251":
        text = "Привет, как дела? Мы работаем сегодня до шести часов вечера."
    assert decoded(text.encode(encoding)) == (
        text,
        f"read as {encoding}, since it is not UTF-8" if encoding.startswith("cp") else "",
    )
    # Which of two encodings fit alike is told by which one programs write.
    table = "Nummer;Bezeichnung;Lieferung\nT-1;Ofenrohr Ø 24;Montag\nT-2;Kachel weiß;Dienstag\n"
    assert decoded(table.encode("cp1252")) == (table, "read as cp1252, since it is not UTF-8")
    units = "Probe;Wert;Einheit\n1;38;µmol/l\n2;21;µmol/l\n3;92;µmol/l\n4;17;µmol/l\n"
    assert decoded(units.encode("latin-1"))[0] == units
    with pytest.raises(BadFileError, match="is not UTF-8: byte 3"):
        decoded(b"caf\xe9")
    assert decoded(b"caf\xe9", "latin-1") == ("café", "")
    lines = '{"a": 1}\n{"a": "é"}'.encode("utf-16").splitlines(keepends=True)
    assert [*utf8_lines(lines)] == [b'{"a": 1}', '{"a": "é"}'.encode()]


def test_every_chunk_of_a_table_begins_with_its_header() -> None:
    rows = [(ROW, f"V-{number} | a valve of the lower hall") for number in range(40)]
    draft = Draft("Valves", [(0, "All of them."), (HEADER, "Code | What"), *rows, (0, "The end.")])
    chunks = [passage.text for passage in chunk_passage(document_of(draft, "v.md"), 60)]
    assert all(part.startswith("Code | What\n") or "All of them." in part for part in chunks[:-1])
    lines = [line for chunk in chunks for line in chunk.splitlines() if line.startswith("V-")]
    assert lines == [text for _, text in rows]
