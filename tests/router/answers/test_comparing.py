import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.answers.comparing import compare
from router.answers.expected import expected

PASSAGES = [
    ("Signs (1990 film)", "Signs is a 1990 American film directed by Ann Lee."),
    ("Heat", "Heat is a 1985 Italian film directed by Bob Ray. It won in 1986."),
    ("Ann Lee", "Ann Lee (5 May 1930 – 7 June 2001) was an American director."),  # noqa: RUF001
    ("Bob Ray", "Bob Ray (born 6 May 1930) is a director from Italy. He died in 1999."),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which film came out first, Signs or Heat?", "Heat"),
        ("Which film was released more recently, Heat or Signs (1990 Film)?", "Signs (1990 Film)"),
        ("Which film has the director who is older, Signs or Heat?", "Signs"),
        ("Which film has the director who was born later, Signs or Heat?", "Heat"),
        ("Who died first, Ann Lee or Bob Ray?", "Bob Ray"),
        ("Who was born first out of Bob Ray and Ann Lee?", "Ann Lee"),
        ("Do Ann Lee and Bob Ray have the same nationality?", "no"),
        ("Are Ann Lee and Signs both from the same country?", "yes"),
    ],
)
def test_two_are_compared_by_what_is_told_of_both(question: str, answer: str) -> None:
    found = compare(question, expected(question), PASSAGES)
    assert found is not None
    assert found.answer == answer
    for fact in found.facts:
        assert fact.sentence in PASSAGES[fact.passage][1]


@pytest.mark.parametrize(
    "question",
    [
        "Which film is better, Signs or Heat?",
        "Which film came out first, Signs or Smoke?",
        "Which film has the director who died first, Signs or Smoke?",
        "Are Signs and Heat both comedies?",
        "Who directed Signs?",
    ],
)
def test_what_is_not_known_is_not_answered(question: str) -> None:
    assert compare(question, expected(question), PASSAGES) is None


def test_dates_that_were_run_together() -> None:
    passages = [("Ann", "Ann (17 September 19005 May 1985) sang."), ("Bob", "Bob (1950) sang.")]
    question = "Who is younger, Ann or Bob?"
    found = compare(question, expected(question), passages)
    assert found is not None
    assert [fact.value for fact in found.facts] == [(1900, 9, 17), (1950, 0, 0)]


@given(
    st.text(alphabet="AB or and,?(19)-", max_size=40),
    st.lists(st.tuples(st.text(alphabet="AB ()", max_size=6), st.text(max_size=40)), max_size=4),
)
def test_any_text_is_compared_or_not(question: str, passages: list[tuple[str, str]]) -> None:
    compare(question, expected(question), passages)
