"""Pointers, beside the examples of their standard; and templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.service.arms.kinds import MISSING, at, check_pointer, fill, names_in

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/m~0n", 8),
        ("/ ", 7),
        ("/foo/2", MISSING),
        ("/foo/00", MISSING),
        ("/foo/-", MISSING),
        ("/nope/deeper", MISSING),
    ],
)
def test_it_leads_to_what_the_standard_says(pointer: str, value: object) -> None:
    assert at(DOCUMENT, check_pointer(pointer)) == value


@pytest.mark.parametrize("pointer", ["foo", "/a~2", "/~", "$.foo"])
def test_what_is_none_is_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match="JSON pointer"):
        check_pointer(pointer)


@given(st.text())
def test_a_question_stays_what_it_is(question: str) -> None:
    template = {"q": "{question}", "deep": [{"n": "{k}", "w": "{filter}"}], "mode": "x{k}"}
    values = {"{question}": question, "{k}": 5, "{filter}": MISSING}
    assert fill(template, values) == {"q": question, "deep": [{"n": 5}], "mode": "x{k}"}
    assert names_in(template) == {"{question}", "{k}", "{filter}", "x{k}"}
    assert fill(["{filter}", 3], values) == [3]
