"""Mails, sheets and slides, encodings, and what none of them may do."""

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import openpyxl
import pptx
import pytest

from wye.backends.documents import chunk_passage, document_of
from wye.backends.readers.decode import decoded, utf8_lines
from wye.backends.readers.drafts import HEADER, ROW, BadFileError, Draft, Limits
from wye.backends.readers.extract import READERS
from wye.backends.readers.mail import eml, mbox
from wye.backends.readers.office import pptx as slides
from wye.backends.readers.sandbox import Sandbox
from wye.backends.readers.tables import xlsx

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
    [draft] = eml(io.BytesIO(bytes(made)), LIMITS)
    text = document_of(draft, "a.eml").text
    order = ["From: Rosa Quill", "cools", "Quoted", "When is it cold?", "forwarded"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert (draft.title, "wrote:" in text, "Not this one" in text) == ("Kiln 2", False, False)
    assert draft.metadata["to"] == ["Tam Ober <tam@example.org>", "desk@example.org"]
    assert draft.metadata["date"] == "2031-03-05T14:02:00+01:00"
    assert (draft.metadata["attachments"], "Attachments: plan.pdf" in text) == (["plan.pdf"], True)
    with pytest.raises(BadFileError, match="is no mail"):
        list(eml(io.BytesIO(b"\nNo header."), LIMITS))


def test_a_mailbox_is_its_mails_and_quotes_none_twice() -> None:
    one = bytes(mail(1, "When is it cold?\n>From here it looks hot.\n"))
    box = b"From a\n" + one + b"\nFrom b\n" + bytes(mail(2, REPLY, answers=1))
    first, second = mbox(io.BytesIO(box), LIMITS)
    assert (first.id, second.id) == ("1@example.org", "2@example.org")
    assert "From here it looks hot." in first.blocks[-1][1]
    assert "When is it cold?" not in document_of(second, "b.mbox").text
    with pytest.raises(BadFileError, match="is no mailbox"):
        list(mbox(io.BytesIO(one), LIMITS))


def saved(made: object) -> io.BytesIO:
    file = io.BytesIO()
    made.save(file)  # type: ignore[attr-defined]
    file.seek(0)
    return file


def test_rows_of_sheets_that_are_shown() -> None:
    book = openpyxl.Workbook()
    book.active.title = "Kilns"
    for row in (["Kilns in use"], ["Name", "Place", "Degrees"], ["Vesta", "yard", 900.0]):
        book.active.append(row)
    book.create_sheet("Old").append(["a", "b"])
    book["Old"].sheet_state = "hidden"
    [draft] = xlsx(saved(book), LIMITS)
    assert (draft.id, draft.title) == ("Kilns:3", "Vesta")
    assert draft.blocks == [(0, "Place: yard; Degrees: 900")]
    assert draft.metadata == {
        "Place": "yard",
        "Degrees": 900,
        "sheet": "Kilns",
        "caption": "Kilns in use",
    }
    assert "left out: Old, hidden" in draft.note


def test_each_slide_is_a_passage_with_its_notes() -> None:
    deck = pptx.Presentation()
    for title in ("Firing", "Costs"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"About {title}."
        slide.notes_slide.notes_text_frame.text = f"Say more of {title}."
    [draft] = slides(saved(deck), LIMITS)
    passages = list(chunk_passage(document_of(draft, "d.pptx"), 200))
    assert [passage.title for passage in passages] == ["Firing", "Firing > Costs"]
    assert passages[1].text == "About Costs.\n\nNotes: Say more of Costs."


@pytest.mark.parametrize("suffix", [".xlsx", ".pptx", ".docx"])
def test_archives_that_are_none_or_too_large(suffix: str, tmp_path: Path) -> None:
    for content, reason in ((b"PK no", "is not a"), (b"", "is not a"), (None, "unpacks to")):
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


@pytest.mark.parametrize("suffix", sorted({*READERS} - {".csv", ".md", ".rst", ".html", ".htm"}))
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
    with pytest.raises(BadFileError, match="is not UTF-8: byte 3"):
        decoded(b"caf\xe9")
    assert decoded(b"caf\xe9", "latin-1") == ("café", "")
    lines = '{"a": 1}\n{"a": "é"}'.encode("utf-16").splitlines(keepends=True)
    assert [*utf8_lines(lines)] == [b'{"a": 1}', '{"a": "é"}'.encode()]


def test_every_chunk_of_a_table_begins_with_its_header() -> None:
    rows = [(ROW, f"V-{number} | a valve of the lower hall") for number in range(40)]
    draft = Draft("Valves", [(0, "All of them."), (HEADER, "Code | What"), *rows, (0, "The end.")])
    chunks = [passage.text for passage in chunk_passage(document_of(draft, "v.md"), 60)]
    assert all(
        chunk.startswith("Code | What\n") or "All of them." in chunk for chunk in chunks[:-1]
    )
    lines = [line for chunk in chunks for line in chunk.splitlines() if line.startswith("V-")]
    assert lines == [text for _, text in rows]
