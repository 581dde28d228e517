"""What returned passages say of a question."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wye.router.passage_evidence import (
    PASSAGE_MEANINGS,
    PASSAGE_NAMES,
    WITHOUT,
    Returned,
    passage_columns,
    passage_coverage,
)
from wye.router.query_performance import CHEAP_SIGNALS

TEXT = st.text(max_size=60)
PASSAGES = st.lists(st.tuples(TEXT, TEXT), max_size=8)


def test_names_are_capitals_and_titles_that_the_question_says() -> None:
    asked = Returned(
        "Where was the director of Old Bridge born, Ivo Peri\u0107 or anna?",
        [
            ("Old Bridge (film)", "Directed by Ivo Peri\u0107."),
            ("Anna", "A name."),
            ("The", "An article."),
        ],
    )
    found = {one.mention: one for one in passage_coverage(asked).names}
    assert {*found} == {"Old Bridge", "Ivo Peri\u0107", "anna"}
    assert (found["Old Bridge"].titles, found["Old Bridge"].texts) == (0b1, 0b1)
    assert (found["Ivo Peri\u0107"].titles, found["Ivo Peri\u0107"].texts) == (0, 0b1)
    assert (found["anna"].titles, found["anna"].degree) == (0b10, 1)


def test_words_weigh_the_same_and_stand_where_they_stand() -> None:
    asked = Returned("Which rivers flow?", [("River", "It flows."), ("", "A river.")])
    words = {one.term: one for one in passage_coverage(asked).words}
    assert {word: (one.weight, one.titles, one.texts) for word, one in words.items()} == {
        "river": (1.0, 0b1, 0b11),
        "flow": (1.0, 0, 0b1),
    }


def test_columns_are_told_by_name_and_are_none_of_an_index() -> None:
    assert {*PASSAGE_MEANINGS} == {*PASSAGE_NAMES}
    assert {*PASSAGE_NAMES}.isdisjoint(CHEAP_SIGNALS)
    assert len(PASSAGE_NAMES) + len(WITHOUT) == len(CHEAP_SIGNALS)


@given(TEXT, PASSAGES)
def test_columns_are_finite_whatever_is_returned(
    question: str, passages: list[tuple[str, str]]
) -> None:
    asked = Returned(question, passages)
    found = passage_columns([asked])
    assert found.shape == (1, len(PASSAGE_NAMES))
    assert np.isfinite(found).all()
    assert (found == passage_columns([asked, Returned("b", []), asked])[2]).all()


@given(PASSAGES, PASSAGES)
def test_passages_after_the_fifth_say_nothing(
    passages: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    first = (passages + [("", "")] * 5)[:5]
    one, other = (Returned("Which Bridge?", [*first, *rest]) for rest in (more, []))
    assert (passage_columns([one]) == passage_columns([other])).all()
