import math

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from wye.training.markdown import (
    by_measure,
    escape,
    gain,
    gain_spread,
    percent,
    share,
    spread,
    table,
)
from wye.training.measures import Interval


def test_numbers_are_short_and_what_is_surely_different_has_a_star() -> None:
    shares = [share(value) for value in (0.8874, 1.0, 0.0, -0.25, math.nan)]
    assert shares == [".887", "1.00", ".000", "-.250", "-"]
    assert spread(Interval(0.5, 0.25, 1.0)) == ".500 [.250 1.00]"
    assert gain(Interval(0.5, 0.25, 1.0)) == "+.500*"
    assert gain(Interval(-0.5, -1.0, 0.0)) == "-.500"
    assert gain_spread(Interval(-0.5, -1.25, -0.25)) == "-.500 [-1.250 -.250]*"
    assert (percent(0.375), percent(math.nan)) == ("38 %", "-")


def test_a_table_escapes_words_and_no_numbers() -> None:
    assert table(("name", "what", "n"), [("a|b", "<i>", "1 [0 2]*")], words=2) == (
        "| name | what | n |\n| --- | --- | ---: |\n| a\\|b | \\<i\\> | 1 [0 2]* |"
    )


def test_measures_are_columns_and_wide_tables_are_split() -> None:
    cells = {"auto": {name: Interval(0.5, 0.5, 0.5) for name in "xyz"}}
    one, other = by_measure("system", cells, gain, width=2).split("\n\n")
    assert one.startswith("| system | x | y |\n")
    assert other == "| system | z |\n| --- | ---: |\n| auto | +.500* |"


@given(st.text(max_size=40))
def test_any_text_is_itself_in_a_heading_and_in_a_cell(text: str) -> None:
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for source in (f"## {escape(text)}", table(("x",), [(text,)])):
        tokens = [one for one in parser.parse(source) if one.type == "inline"]
        children = (tokens[-1].children or []) if len(tokens) > (source[0] == "|") else []
        assert {one.type for one in children} <= {"text", "text_special"}
        assert " ".join("".join(one.content for one in children).split()) == shown


def test_a_name_of_a_feature_stays_readable() -> None:
    assert escape("entity_reach_max") == "entity_reach_max"
    assert escape("_private_") == r"\_private\_"
