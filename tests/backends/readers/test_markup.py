"""Markdown, HTML and reStructuredText: what is text, what is a heading, and what is metadata."""

import io
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wye.backends.readers.drafts import HEADER, ROW, BadFileError, Draft, Limits
from wye.backends.readers.markup import cards, front_matter, html, markdown, subtitles

Reader = Callable[[BinaryIO, Limits], Iterator[Draft]]
LIMITS = Limits(characters=10_000)


def read(reader: Reader, text: str | bytes) -> Draft:
    content = text.encode() if isinstance(text, str) else text
    [draft] = reader(io.BytesIO(content), LIMITS)
    return draft


def test_markdown_without_its_syntax() -> None:
    text = """---
title: The Handbook
year: 2021
for: [shops, docks]
---
Some *text* with [a link](http://a.b), `code` and ![a picture](c.png).

## Install

<p align="center">Some <b>HTML</b></p>

| Distro | Command |
|---|---|
| Debian | `apt` |

1. One
2. Two
   - inner

```sh
pip install x
  indented
```

<!-- a comment -->
"""
    draft = read(markdown, text)
    assert draft.title == "The Handbook"
    assert draft.metadata == {"year": 2021, "for": ["shops", "docks"]}
    assert draft.blocks == [
        *[(0, "Some text with a link, code and a picture."), (2, "Install"), (0, "Some HTML")],
        *[(HEADER, "Distro | Command"), (ROW, "Debian | apt"), (0, "1. One"), (0, "2. Two")],
        *[(0, "- inner"), (0, "pip install x\n  indented"), (0, "year: 2021; for: shops, docks")],
    ]


@pytest.mark.parametrize(
    ("text", "title", "levels"),
    [
        ("# Top\n\nText.\n\n## Part\n\nMore.", "Top", [0, 2, 0]),
        ("Above.\n\n# Top\n\nText.", "Top", [0, 1, 0]),
        ("# One\n\nText.\n\n# Two\n\nMore.", "", [1, 0, 1, 0]),
        ("## Part\n\nText.\n\n# Top", "", [2, 0, 1]),
        ("# Only", "Only", [1]),
        ("Text.", "", [0]),
    ],
    ids=["at the top", "below text", "several", "below a lower one", "alone", "none"],
)
def test_the_only_heading_above_all_is_the_title(text: str, title: str, levels: list[int]) -> None:
    draft = read(markdown, text)
    assert (draft.title, [level for level, _ in draft.blocks]) == (title, levels)


def test_a_paragraph_that_is_a_heading_for_its_looks_is_text() -> None:
    draft = read(markdown, "# " + "word " * 60 + "\n\nText.")
    assert [level for level, _ in draft.blocks] == [0, 0]


@pytest.mark.parametrize(
    ("front", "metadata"),
    [
        ("a: 1\nb: [x, 2, true]\nc: 1.5", {"a": 1, "b": ["x", 2, True], "c": 1.5}),
        ("day: 2024-02-03\nat: 2024-02-03 10:00:00", ("2024-02-03", "2024-02-03T10:00:00")),
        ("menu: {main: {weight: 3}}\nnone: null\nlist: [{a: 1}, b]", {"menu.main.weight": 3}),
    ],
)
def test_front_matter_becomes_values_to_filter_by(front: str, metadata: object) -> None:
    draft, rest = front_matter(f"---\n{front}\n---\nText.")
    if isinstance(metadata, dict):
        assert {**draft, "list": None} == {**metadata, "list": None}
    else:
        assert tuple(draft.values()) == metadata
    assert rest == "Text."


@pytest.mark.parametrize("text", ["---\n\nText.\n\n---\n", "--- x\na: 1\n---\n", "a\n---\nb: 1\n"])
def test_lines_between_paragraphs_are_no_front_matter(text: str) -> None:
    assert front_matter(text) == ({}, text)


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("title: A: b", "line 2: mapping values are not allowed"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: !!python/object/apply:os.system ['id']", "could not determine a constructor"),
        ("a: " + "9" * 5_000, "not YAML: ValueError"),
        ("a: " + "[" * 5_000 + "]" * 5_000, "not YAML: RecursionError"),
        ("a: " + "x" * 20_000, "more than 16,384 characters"),
    ],
    ids=["no YAML", "aliases", "a call", "a long number", "deep", "long"],
)
def test_bad_front_matter_is_refused_with_the_reason(front: str, said: str) -> None:
    with pytest.raises(BadFileError, match=said):
        front_matter(f"---\n{front}\n---\nText.")


PAGE = """<html><head><title>Site - Page</title><script>var x = 1;</script><style>p{}</style></head>
<body><nav>Home</nav><h1>The Page<a class="headerlink" href="#">¶</a></h1>
<p>Hello <b>bold</b> world<!-- no --> and more.<br>Line.</p><h2>Part one</h2>
<ul><li>first</li><li>second</li></ul><p hidden>unseen</p>
<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td><p>2</p></td></tr></table>
<pre>x
  y</pre><aside>beside</aside><footer>foot</footer></body></html>"""


def test_a_page_is_its_main_text() -> None:
    draft = read(html, PAGE)
    assert draft.title == "The Page"
    assert draft.blocks == [
        *[(0, "Hello bold world and more."), (0, "Line."), (2, "Part one"), (0, "- first")],
        *[(0, "- second"), (HEADER, "A | B"), (ROW, "1 | 2"), (0, "x\n  y")],
    ]
    inner = "<body><div>menu</div><main><p>Só isto.</p></main></body>"
    assert read(html, f"<title>T\nT</title>{inner}").blocks == [(0, "Só isto.")]
    assert read(html, f"<title>T\nT</title>{inner}").title == "T T"


def test_a_page_says_its_encoding_where_it_is_not_utf_8() -> None:
    page = '<meta charset="iso-8859-2"><p>Wałęsa</p>'
    assert read(html, page.encode("iso-8859-2")).blocks == [(0, "Wałęsa")]


def test_a_page_that_is_cut_off_by_its_depth_is_refused() -> None:
    assert len(read(html, "<div>x" * 1_000).blocks) == 1_000
    with pytest.raises(BadFileError, match="nested too deeply"):
        read(html, "<div>x" * 3_000)
    with pytest.raises(RecursionError):
        read(markdown, ">" * 5_000 + " x")


@pytest.mark.parametrize("reader", [markdown, html])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_bytes_are_a_fault(reader: Reader, data: st.DataObject) -> None:
    pieces = ["# A\n", "<div>", "</p>", "---\n", "a: b\n", "| a |\n|--|\n", "`x <y>`_", "|s|"]
    pieces += ["\n\n", "   ", "- ", "<table><tr><td>", "&amp", "\x00", "é", "<!--"]
    content = "".join(data.draw(st.lists(st.sampled_from(pieces) | st.text(max_size=4)))).encode(
        "utf-8", "surrogatepass"
    ) + data.draw(st.binary(max_size=8))
    try:
        draft = read(reader, content)
    except BadFileError as error:
        assert str(error).strip()  # noqa: PT017 - either is right
        return
    assert all(text.strip() for _, text in draft.blocks)


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT\n\nNOTE made by a machine\n\n1\n00:01.000 --> 00:04.000 align:start\n"
        "<v Ada Falk>The node costs <i>450 &amp; VAT</i>\na month.</v>\n\n"
        "00:04.000 --> 00:06.000\nThanks.\n\n00:06.000 --> 00:07.000\nThanks.\n",
        "1\r\n00:00:01,000 --> 00:00:04,000\r\nAda Falk: The node costs 450 & VAT a month.\r\n"
        "\r\n2\r\n00:00:04,000 --> 00:00:06,000\r\nThanks.\r\n",
        "WEBVTT\r\r00:01.000 --> 00:04.000\r<v Ada Falk>The node costs 450 & VAT a month.\r\r"
        "00:04.000 --> 00:06.000\rThanks.\r",
    ],
)
def test_subtitles_without_their_times(text: str) -> None:
    draft = read(subtitles, text)
    assert draft.blocks == [(ROW, "Ada Falk: The node costs 450 & VAT a month."), (ROW, "Thanks.")]


def test_a_file_without_a_cue_is_no_subtitles() -> None:
    with pytest.raises(BadFileError, match="has no cue"):
        read(subtitles, "WEBVTT\n\nNOTE nobody spoke")


@pytest.mark.parametrize("tag", ["<", "<v.", "<v a"])
def test_tags_that_never_end_take_no_time(tag: str) -> None:
    before = time.process_time()
    content = f"00:01.000 --> 00:04.000\n{tag * 100_000}".encode()
    [*subtitles(io.BytesIO(content), Limits())]
    assert time.process_time() - before < 2, "or the time grows with the square of their number"


CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
UID:7@example.org
DTSTART;TZID=Europe/Oslo:20310305T140000
DTEND:20310305T160000Z
SUMMARY:Glazing of the big ki
 ln
DESCRIPTION:Bring tea\\, and\\ncups
ATTENDEE;CN=Tam:mailto:tam@example.org
X-COLOR:7
BEGIN:VALARM
TRIGGER:-PT15M
END:VALARM
END:VEVENT
BEGIN:VTODO
DUE;VALUE=DATE:20310401
SUMMARY:Sweep
END:VTODO
BEGIN:VEVENT
SUMMARY:Torn of"""


def test_events_of_a_calendar_are_rows() -> None:
    """Lines are whole again, days are days, and an event without an end is one."""
    glazing, sweep, torn = cards(io.BytesIO(CALENDAR.encode()), LIMITS)
    assert (glazing.title, sweep.title, sweep.line) == ("Glazing of the big kiln", "Sweep", 2)
    assert glazing.blocks[0][1] == (
        "start: 2031-03-05 14:00; end: 2031-03-05 16:00; description: Bring tea, and cups; "
        "attendee: tam@example.org"
    )
    assert (sweep.blocks, torn.blocks) == ([(0, "due: 2031-04-01")], [(0, "Torn of")])


def test_people_of_an_address_book_are_rows() -> None:
    card = "N:Quill;Rosa\nFN:Rosa Quill\nitem1.TEL;TYPE=cell:+31 6 1234 5678\nORG:Kiln Ltd;"
    card = f"BEGIN:VCARD\n{card}\nEND:VCARD\n".replace("\n", "\r\n")
    [draft] = cards(io.BytesIO(card.encode()), LIMITS)
    assert (draft.title, draft.blocks) == (
        "Rosa Quill",
        [(0, "phone: +31 6 1234 5678; org: Kiln Ltd")],
    )
    with pytest.raises(BadFileError, match="has no event and no card"):
        list(cards(io.BytesIO(b"BEGIN:VCALENDAR\nEND:VCALENDAR\n"), LIMITS))


def test_lines_in_quoted_printable_are_decoded_by_the_encoding_that_they_state() -> None:
    """Old telephones write address books so; a line may be broken, and an encoding unknown."""
    lines = (
        "FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:J=FCrgen Str=F6m",
        "ADR;HOME;QUOTED-PRINTABLE;CHARSET=UTF-8:=C3=98ster=\r\ngade 4=0D=0A1264 K=C3=B8benhavn",
        "NOTE;ENCODING=QUOTED-PRINTABLE;CHARSET=no-such:a=3Db",
        "TITLE:1=2",
    )
    card = "\r\n".join(("BEGIN:VCARD", *lines, "END:VCARD"))
    [draft] = cards(io.BytesIO(card.encode()), LIMITS)
    assert draft.title == "Jürgen Ström"
    assert draft.blocks == [
        (0, "adr: Østergade 4 1264 København; note: a=3Db; title: 1=2"),
    ]
