"""Notations: one key for each way to write a thing, against `re` over the whole text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wye.backends.lexical import question_notations
from wye.backends.notations import (
    WITHIN,
    codes_in,
    days_within,
    grouped_numbers,
    notations,
    notations_of,
    phrase_at,
)

PIECES = (
    "5 March march 2040 , - . / : 05 12 31 pm a.m. 0 125 000 1.25 million k € $ mm % E-9 QX77 Öl",
    "März 5. Dez loadTideTable st th of Sept. Jan. 14:30 may the x 's _ 2040-03-05 05.03.2040 JUNE",
)
PIECES_AND_SPACES = ["\n", "\u00a0", *" ".join(PIECES).split()]


def slow_notations(text: str) -> list[str]:
    """Every form tried at every character, and every piece split."""
    keys = [key for piece in text.split() for key in notations_of(piece)]
    start, found = 0, []
    while start < len(text):
        phrase = phrase_at(text, start)
        found += [phrase] if phrase and phrase.keys else []
        start = phrase.end if phrase else start + 1
    keys += [key for phrase in found for key in phrase.keys]
    keys += [f"{WITHIN}{key}" for key in days_within(text, found)]
    return [*dict.fromkeys([*keys, *(k for n in grouped_numbers(text, found) for k in n.keys)])]


@st.composite
def texts(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.sampled_from(PIECES_AND_SPACES), max_size=12))
    return "".join(piece + draw(st.sampled_from(["", " ", " "])) for piece in pieces)


@given(texts() | st.text())
@settings(max_examples=1000)
def test_they_are_those_that_a_search_at_every_character_finds(text: str) -> None:
    assert notations(text) == slow_notations(text)
    assert all(notations(text))


@pytest.mark.parametrize(
    "forms",
    [
        ("7 August 2034", "August 7, 2034", "7th of August 2034", "2034-08-07", "07.08.2034"),
        ("7 Aug 2034", "7/8/2034", "8/7/2034", "2034/08/07", "7.8.34", "7-Aug-2034"),
        ("31 August 2034", "thirty-first of August 2034", "Thirty-first August, 2034"),
        ("August 2034", "Aug. 2034", "7 August 2034", "2034-08-07"),
        ("7. Oktober 2034", "7. Okt. 2034", "7 October 2034", "Dienstag, 7. OKTOBER 2034"),
        ("7. April 2034", "7 April 2034"),
        ("7 August", "August 7th", "2034-08-07", "on 07.08.2034"),
        ("15:45", "3.45 pm", "3:45 PM", "3:45 p.m."),
        ("9 pm", "21:00", "9pm"),
        ("84,500", "84 500", "84'500", "84.5 thousand"),
        ("3.2 million", "3,200,000"),
        ("40 kg", "40kg", "40 kilograms"),
        ("6 %", "6%", "6 percent", "6 per cent"),
        ("Lübeck", "Kübel Lübeck", "LÜBECK"),
        ("+31 (0)20 6655-4430", "020 66554430", "020/6655 44 30", "(020) 665-54430"),
        ("+31 20 66554430", "tel:0031206655-4430", "+312066554430."),
        ("+31 6 1234 5678", "0612345678", "06-1234 5678"),
        ("+1 (212) 555-0144", "+12125550144"),
        ("NL02 ABNA 0123 4567 89", "NL02ABNA0123456789"),
    ],
)
def test_ways_to_write_one_thing_share_a_key(forms: tuple[str, ...]) -> None:
    shared = set.intersection(*(set(notations(form)) for form in forms))
    assert shared, [notations(form) for form in forms]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        *[("Valve GHX-3391 leaks.", {"ghx3391"}), ("GHX3391", {"ghx", "3391"})],
        *[("loadTideTable()", {"load", "tide", "table"}), ("TideLedger", {"tide", "ledger"})],
        *[("load_tide_table", {"loadtidetable"}), ("heron.flush_on", {"heronflushon"})],
        *[("the check-in", {"checkin"}), ("K-LMN", {"klmn"}), ("10.1.2.3", {"10.1.2.3"})],
        ("Bjørnøya", {"bjoernoeya"}),
        ("7 August 2034", {"2034-08", "--08", "--08-07", "2034-08-07"}),
        *[("2034-08; gas: 7", {"2034-08", "--08"}), ("0 million", set())],
        # Ordinary words, names, years and counts.
        ("McGregor saw 300 YouTube films of the 1990s, in 1984-85, for the 20th time.", set()),
        *[("He was born in the U.S. in 1951.", set()), ("Do not march; you may go.", set())],
        ("0 1 2 3 4 5 6 7 8 9; 0.5 0.75 0.25 0.125", set()),
    ],
)
def test_codes_have_a_joined_form_and_parts_and_plain_words_none(text: str, keys: set[str]) -> None:
    assert set(notations(text)) == keys


@pytest.mark.parametrize(
    ("question", "codes"),
    [
        *[("What does GHX-3391 do, and ghx-3392?", ["GHX-3391", "ghx-3392"]), ("3391", ["3391"])],
        *[("Where does bus 417 stop?", ["417"]), ("Who ordered part 1790?", ["1790"])],
        ("What calls loadTideTable or heron.flush_on?", ["loadTideTable", "heron.flush_on"]),
        *[("Where is K-LMN?", ["K-LMN"]), ("What broke on 7 August 2034?", ["7 August 2034"])],
        *[("What broke on 7 August?", ["7 August"]), ("2034-08-07 12:01:14 gate closed", [])],
        ("Who won in 1984, with 300 votes, in August 2034?", []),
        ("Which 3,300 boats cost 84,500 euros, or 1.2 million?", ["84,500 euros", "1.2 million"]),
        ("Is a 7-day check-in at 15:45 with 20 kg ordinary?", []),
        ("WHO WROTE A WELL-KNOWN POEM?", []),
        ("Who has 020 66554430, and +31 (0)20 6655-4431?", ["020 66554430", "+31 (0)20 6655-4431"]),
        ("Whose is NL02 ABNA 0123 4567 89?", ["NL02 ABNA 0123 4567 89"]),
        ("WHERE IS GK42 USED THIS TIME?", ["GK42"]),
        ("What fell between 2019 2020 and 2021?", []),
    ],
)
def test_codes_of_questions_are_no_years_counts_or_words(question: str, codes: list[str]) -> None:
    assert sorted(code.text for code in codes_in(question)) == sorted(codes)


def test_a_setting_named_by_its_path_is_found_in_the_file_that_nests_it() -> None:
    (code,) = codes_in("What is heron.flush_after_ms set to?")
    assert set(code.keys) & {*notations("heron:\n  flush_after_ms: 15")} == {"flushafterms"}


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("What broke in August?", ["--08"]),
        ("Who was away last may or during April?", ["--05", "--04"]),
        ("What broke in August 2034?", ["2034-08"]),
        ("What broke on 7 August?", ["--08-07", "~--08-07"]),
        ("May I march in?", []),
    ],
)
def test_a_month_alone_counts_where_no_day_or_year_is_named(question: str, keys: list[str]) -> None:
    assert question_notations(question) == keys


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("2034-08-07\nweek: 32; to: 2034-08-09; tar: Odd", ["2034-08-08", "--08-08"]),
        ("From: 07.08.2034; Until: 09.08.2034", ["2034-08-08", "--08-08"]),
        ("7 August 2034 \u2013 9 August 2034", ["2034-08-08"]),
        ("closed from 7 August 2034 to August 9, 2034", ["2034-08-08"]),
        ("2034-08-07; to: 2034-09-08", []),
        ("2034-08-09; to: 2034-08-07", []),
        ("opened: 2034-08-07; seen: 2034-08-09", []),
        ("Until 2034-08-07. On 2034-08-09 it is closed.", []),
        ("31 April 2034 to 2 May 2034", []),
    ],
)
def test_a_period_stands_for_its_days(text: str, inner: list[str]) -> None:
    marked = {key for key in notations(text) if key.startswith(WITHIN)}
    assert {f"{WITHIN}{key}" for key in inner} <= marked
    assert bool(inner) == bool(marked)
    assert bool(inner) == (not marked.isdisjoint(question_notations("Who tars on 8 August 2034?")))
