"""What returned passages say of a question."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.router.errors import ModelFileError, QuestionError
from wye.router.evidence import CHEAP_SIGNALS
from wye.router.passages import (
    INDEX_SIGNALS,
    PASSAGE_COLUMNS,
    PASSAGE_MEANINGS,
    ReturnedPassages,
    decide_by_passages,
    load_passage_router,
    passage_columns,
    passage_coverage,
)
from wye.router.settings import MODELS, PASSAGE_ROUTER
from wye.router.types import Route

TEXT = st.text(max_size=60)
PASSAGES = st.lists(st.tuples(TEXT, TEXT), max_size=8)


def test_names_are_capitals_and_titles_that_the_question_says() -> None:
    asked = ReturnedPassages(
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
    asked = ReturnedPassages("Which rivers flow?", [("River", "It flows."), ("", "A river.")])
    words = {one.term: one for one in passage_coverage(asked).words}
    assert {word: (one.weight, one.titles, one.texts) for word, one in words.items()} == {
        "river": (1.0, 0b1, 0b11),
        "flow": (1.0, 0, 0b1),
    }


def test_columns_are_told_by_name_and_are_none_of_an_index() -> None:
    assert {*PASSAGE_MEANINGS} == {*PASSAGE_COLUMNS}
    assert {*PASSAGE_COLUMNS}.isdisjoint(CHEAP_SIGNALS)
    assert len(PASSAGE_COLUMNS) + len(INDEX_SIGNALS) == len(CHEAP_SIGNALS)


@given(TEXT, PASSAGES)
def test_columns_are_finite_whatever_is_returned(
    question: str, passages: list[tuple[str, str]]
) -> None:
    asked = ReturnedPassages(question, passages)
    found = passage_columns([asked])
    assert found.shape == (1, len(PASSAGE_COLUMNS))
    assert np.isfinite(found).all()
    assert (found == passage_columns([asked, ReturnedPassages("b", []), asked])[2]).all()


@given(PASSAGES, PASSAGES)
def test_passages_after_the_fifth_say_nothing(
    passages: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    first = (passages + [("", "")] * 5)[:5]
    one, other = (ReturnedPassages("Which Bridge?", [*first, *rest]) for rest in (more, []))
    assert (passage_columns([one]) == passage_columns([other])).all()


ASKED = ReturnedPassages(
    "Who directed the film Old Bridge?", [("Old Bridge", "A film directed by Ivo."), ("Ivo", "He.")]
)
NESTED = ReturnedPassages(
    "Where was the director of the film Old Bridge born?", [("Mostar", "A town."), ("Ivo", "He.")]
)


def test_what_was_found_scores_lower_than_what_was_not() -> None:
    model = load_passage_router(MODELS / PASSAGE_ROUTER)
    found, missing = (decide_by_passages(model, one, explain=True) for one in (ASKED, NESTED))
    assert found.score is not None
    assert missing.score is not None
    assert found.score < missing.score
    assert missing.route == Route.FUSION
    assert not missing.planned
    assert sum(part.logit for part in found.contributions) == pytest.approx(found.logit)
    assert "speak" in found.summary
    assert decide_by_passages(model, ASKED, point="fast").score == found.score
    with pytest.raises(QuestionError):
        decide_by_passages(model, ASKED, point="slow")


def test_a_router_of_an_index_is_refused() -> None:
    with pytest.raises(ModelFileError, match="feature schema"):
        load_passage_router(MODELS / "router-en/v1")
