import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.answers.comparing import Moment, _life, _moment, compare
from router.answers.expected import expected
from tests.counting import calls

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


@pytest.mark.parametrize(
    "question",
    [
        "Which is older, the Iron Bridge or the Old Mill?",
        "Which is older, Iron Bridge or Old Mill?",
    ],
)
def test_things_are_as_old_as_their_date_and_an_article_is_no_part_of_their_names(
    question: str,
) -> None:
    passages = [
        ("The Iron Bridge", "The Iron Bridge was put up in 1779."),
        ("Old Mill", "The Old Mill opened in 1883."),
    ]
    found = compare(question, expected(question), passages)
    assert found is not None
    assert found.answer.removeprefix("the ") == "Iron Bridge"


def test_dates_that_were_run_together() -> None:
    passages = [("Ann", "Ann (17 September 19005 May 1985) sang."), ("Bob", "Bob (1950) sang.")]
    question = "Who is younger, Ann or Bob?"
    found = compare(question, expected(question), passages)
    assert found is not None
    assert [fact.value for fact in found.facts] == [(1900, 9, 17), (1950, 0, 0)]


@given(
    st.text(alphabet="ABİ or and,?(19)-", max_size=40),
    st.lists(st.tuples(st.text(alphabet="ABİ ()", max_size=6), st.text(max_size=40)), max_size=4),
)
def test_any_text_is_compared_or_not(question: str, passages: list[tuple[str, str]]) -> None:
    compare(question, expected(question), passages)


@pytest.mark.parametrize("question", ["Ankara or İstanbul", "İstanbul or Ankara"])
def test_a_name_whose_lower_case_is_longer(question: str) -> None:
    passages = [
        ("Ankara", "Ankara was founded in 1200."),
        ("İstanbul", "İstanbul dates from 1100."),
    ]
    question = f"Which was founded earlier, {question}?"
    found = compare(question, expected(question), passages)
    assert found is not None
    assert found.answer == "İstanbul"


def slow_life(sentence: str, told: str) -> Moment | None:
    """`_life` by patterns that try every way in which they could match."""
    brackets = re.search(r"\(([^()]*\d{3}[^()]*)\)", sentence)
    dash = r"\s*[–—-]\s*|(?<=\d{4})(?=[A-Z\d])"  # noqa: RUF001
    year = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|[3-9]\d{2}(?!\d))")
    parts = re.split(dash, brackets[1]) if brackets else []
    if parts and told == "born" and (moment := _moment(parts[0], year.search(parts[0]))):
        return moment
    if len(parts) > 1 and told == "died" and (years := [*year.finditer(parts[-1])]):
        return _moment(parts[-1], years[-1])
    cue = "born" if told == "born" else "(?:died|death)"
    found = re.search(rf"\b{cue}\b[^.;)]*?(?<!\d)(1\d{{3}}|20\d{{2}})", sentence, re.IGNORECASE)
    return (int(found[1]), 0, 0) if found else None


PIECES = st.sampled_from([*"() -\u2013.;A1", "5 May ", "1900", "2001", "born", "died"])


@given(st.lists(PIECES, max_size=20).map("".join), st.sampled_from(["born", "died"]))
def test_lives_are_those_of_a_slow_search(sentence: str, told: str) -> None:
    assert _life(sentence, told) == slow_life(sentence, told)


@pytest.mark.parametrize(
    "text", ["(" + "1" * 20_000, "born " * 8_000, "died " * 8_000, " " * 20_000]
)
def test_no_text_is_read_over_and_over(text: str) -> None:
    text = f"({text}1900 1)" if text.isspace() else text
    before = perf_counter()
    for told in ("born", "died"):
        _life(text, told)
    assert perf_counter() - before < 1  # it takes milliseconds


def test_a_question_with_a_thousand_ors_is_split_at_a_few() -> None:
    question = f"Which is first, {'a or ' * 1_000}b?"
    passages = [("a", "a is of 1900."), ("b", "b is of 1901.")]
    asked = expected(question)
    assert calls(lambda: compare(question, asked, passages)) < 5_000
