import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.answers.expected import expected


@pytest.mark.parametrize(
    ("question", "form", "type_", "noun"),
    [
        ("Who designed Stari Most?", "open", "person", ""),
        ("when was the bridge built", "open", "date", ""),
        ("Where does the Neretva rise?", "open", "place", ""),
        ("What is the place of birth of the architect?", "open", "place", "place"),
        ("In what city was Hayruddin born?", "open", "place", "city"),
        ("What is Ivo Andrić's occupation?", "open", "free", "occupation"),
        ("how many arches does it have", "open", "number", "arches"),
        ("How is it built?", "open", "free", ""),
        ("Which film came out first, Signs or Heat?", "choice", "work", "film"),
        ("Are both rivers in the same country?", "yes-no", "free", ""),
        ("Stari Most", "open", "free", ""),
        ("", "open", "free", ""),
    ],
)
def test_what_is_asked_for(question: str, form: str, type_: str, noun: str) -> None:
    asked = expected(question)
    assert (asked.form, asked.type, asked.noun) == (form, type_, noun)


def test_a_question_about_what_is_asked_for_has_two_hops() -> None:
    assert expected("Where was the director of Signs born?").hops == 2
    assert expected("Who is the paternal grandfather of Ann?").hops == 2
    assert expected("Who directed Signs?").hops == 1


def test_births_and_deaths() -> None:
    asked = expected("When did she die?")
    assert (asked.born, asked.died) == (False, True)
    assert "died" in asked.cues


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    assert expected(text) == expected(text)
