"""PDF, DOCX and CSV files: what is text, and what is refused rather than stored cut off."""

import io
import re
import zipfile
from collections.abc import Callable

import docx as word
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.ingest.files import make_word
from wye.backends.readers.drafts import BadFileError, Draft, Limits, scalar
from wye.backends.readers.office import csv, docx

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


def rows(text: str | bytes) -> list[Draft]:
    return list(csv(io.BytesIO(text.encode() if isinstance(text, str) else text), LIMITS))


def test_headings_and_cells_of_a_word_file() -> None:
    whole = word.Document()
    whole.add_heading("The Memo", 0)
    whole.add_paragraph("Before.")
    whole.add_heading("Part", 1)
    table = whole.add_table(3, 3)
    table.cell(0, 0).merge(table.cell(1, 0)).text = "down"
    table.cell(2, 0).merge(table.cell(2, 2)).text = "across"
    table.cell(0, 2).text = "c"
    kept = io.BytesIO()
    whole.save(kept)
    [found] = docx(kept, LIMITS)
    assert found.title == "The Memo"
    assert found.blocks == [
        (0, "Before."),
        (2, "Part"),
        (0, "down | c"),
        (0, "down"),
        (0, "across"),
    ]


@pytest.mark.parametrize("columns", [b"2000000000", b"-7"])
def test_a_cell_that_spans_no_end_of_columns_is_one_cell(columns: bytes) -> None:
    def wide(part: bytes) -> bytes:
        return part.replace(b"<w:tcPr>", b'<w:tcPr><w:gridSpan w:val="' + columns + b'"/>')

    [found] = docx(rewritten(make_word(["x"], ["a", "b"]), wide), LIMITS)
    assert found.blocks == [(0, "x"), (0, "a | b")]


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
    assert (one.id, one.title, one.blocks, one.line) == ("1", "One", [(0, "Hello, text")], 2)
    assert one.metadata == {"year": 1999, "zip": "01234", "ok": True}
    assert (two.title, two.metadata) == ("", {"zip": "9", "ok": False})
    [longest] = rows("who;said\nAnna;A longer text; \n".replace("; \n", "\n"))
    assert (longest.blocks, longest.metadata) == ([(0, "A longer text")], {"who": "Anna"})
    assert [found.error for found in rows("text,a\nx,1,2\n,1\ny\n")] == [
        "has 3 fields, but the header has 2",
        "text is empty",
        "",
    ]


@pytest.mark.parametrize(
    ("header", "title", "note"),
    [
        ("Title,name,text", "a", ""),
        ("heading,Name,text", "bb", 'text from "text", title from "Name"'),
        ("price,heading,about", "bb", 'text from "about", title from "heading"'),
        ("price,sku,name", "", 'text from "name", no title'),
        ("price,sku,title", "long", 'text from "title", title from "title"'),
        (
            "price,sku,about",
            "",
            'text from "about", no title; of price, sku, about none is called title or name or '
            "heading",
        ),
    ],
)
def test_a_name_is_a_title_and_columns_of_other_names_are_told_once(
    header: str, title: str, note: str
) -> None:
    first, second = rows(f"{header}\na,bb,long\na,bb,long\n")
    assert (first.title, first.blocks, first.note) == (title, [(0, "long")], note)
    assert (second.title, second.note) == (title, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no header"),
        ("a,a\n1,2\n", "has no header"),
        ("a,\n1,2\n", "has no header"),
        ("id,text\n1," + "x" * 10_001, "field larger"),
        (b"text\ncaf\xe9", "is not UTF-8: byte 8"),
    ],
    ids=["nothing", "twice", "nameless", "long", "latin"],
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
        found = rows("".join(parts))
    except BadFileError as error:
        assert str(error).strip()  # noqa: PT017 - either is right
        return
    assert all(bool(one.error) != bool(one.blocks) for one in found)


def test_a_quote_that_is_never_closed_is_refused_not_read_to_the_end() -> None:
    with pytest.raises(BadFileError, match="a quote after line 2 is never closed"):
        rows('id,text\n0,fine\n1,"a, quoted\n2,b\n')
    assert [found.id for found in rows('id,text\n1,"two\nlines"\n2,last')] == ["1", "2"]
