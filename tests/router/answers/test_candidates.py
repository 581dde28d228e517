from hypothesis import given
from hypothesis import strategies as st

from router.answers.candidates import candidates, tokens_of


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
