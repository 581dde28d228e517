import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.answers.candidates import (
    _DATE,
    _NUMBER,
    DATE,
    NUMBER,
    AnswerCandidate,
    candidates,
    tokens_of,
)
from tests.counting import calls


def found(sentence: str, kind: str) -> list[str]:
    return [one.text for one in candidates(sentence, tokens_of(sentence)) if one.kind == kind]


def test_dates() -> None:
    text = "Born on 5 May 1900 or May 6, 1901, in the 1990s or the 3rd century BC, he died in 1950."
    assert found(text, "date") == ["5 May 1900", "May 6, 1901", "1990s", "3rd century BC", "1950"]


def test_numbers_are_no_dates() -> None:
    assert found("It has 42 km, twenty-one arches and 1,500.5 m in 1999.", "number") == [
        "42 km",
        "twenty-one",
        "1,500.5 m",
    ]


def test_names() -> None:
    text = "The poet J. R. R. Tolkien met Ludwig van Beethoven, Earl of Oxford in Rome."
    assert found(text, "name") == [
        "J. R. R. Tolkien",
        "Ludwig van Beethoven",
        "Earl of Oxford",
        "Rome",
    ]


def test_a_pair_is_also_each_of_it() -> None:
    assert found("It was written by Ann Lee and Bob Ray.", "name") == [
        "Ann Lee and Bob Ray",
        "Ann Lee",
        "Bob Ray",
    ]


def test_phrases_with_their_last_words() -> None:
    assert found("He was a silent film director.", "phrase") == [
        "silent film director",
        "film director",
        "director",
    ]


@given(st.text(max_size=200))
def test_candidates_are_stretches_of_the_sentence(sentence: str) -> None:
    tokens = tokens_of(sentence)
    for one in candidates(sentence, tokens):
        assert sentence[one.start :].startswith(one.text)
        assert 0 <= one.first < one.last <= len(tokens)


def slow(sentence: str) -> list[AnswerCandidate]:
    """Dates and numbers, each compared with all earlier ones and with all words."""
    tokens = tokens_of(sentence)
    found: list[AnswerCandidate] = []
    for kind, pattern in ((DATE, _DATE), (NUMBER, _NUMBER)):
        for match in pattern.finditer(sentence):
            start, end = match.span()
            if all(end <= one.start or one.start + len(one.text) <= start for one in found):
                first = sum(token.end <= start for token in tokens)
                last = max(first + 1, sum(token.start < end for token in tokens))
                found.append(AnswerCandidate(match[0], kind, start, first, last))
    return found


PIECES = st.sampled_from([*"1 ,.-$%a\n", "2 May", "1900s", "12", "ten", "3rd century BC", "km"])


@given(st.text(max_size=60) | st.lists(PIECES, max_size=40).map("".join))
def test_dates_and_numbers_are_those_of_a_slow_search(sentence: str) -> None:
    found = candidates(sentence, tokens_of(sentence))
    assert [one for one in found if one.kind in (DATE, NUMBER)] == slow(sentence)


@pytest.mark.parametrize("piece", ["1, ", "2 May ", "1-1-", "A ", "a "])
def test_a_row_of_candidates_takes_no_longer_for_each(piece: str) -> None:
    sentence = piece * 2_000
    tokens = tokens_of(sentence)
    assert calls(lambda: candidates(sentence, tokens)) < 20 * len(sentence)
