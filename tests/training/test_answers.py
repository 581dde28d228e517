import pytest

from training.judge import contains_any, words


@pytest.mark.parametrize(
    ("text", "answers", "holds"),
    [
        ("He was born in Ur.", ["UR"], True),
        ("He was born in Uruguay.", ["Ur"], False),
        ("the 1st of May, 1901", ["May 1901"], True),
        ("May and 1901", ["May 1901"], False),
        ("anything", [""], False),
        ("anything", ["?!"], False),
        ("anything", [], False),
        ("A\N{NO-BREAK SPACE}B", ["a b"], True),
        ("Straße", ["STRASSE"], True),
    ],
)
def test_word_for_word(text: str, answers: list[str], holds: bool) -> None:
    assert contains_any(words(text), [words(answer) for answer in answers]) is holds
