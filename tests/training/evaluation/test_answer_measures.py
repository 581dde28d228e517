from hypothesis import given
from hypothesis import strategies as st

from training.evaluation.answer_measures import contained, exact_match, normalised, token_f1


def test_squad_compares_words() -> None:
    assert normalised("The  Old Bridge, of a town.") == ["old", "bridge", "of", "town"]
    assert exact_match("the Old Bridge!", ["bridge", "Old bridge"]) == 1
    assert exact_match("Old Bridges", ["Old bridge"]) == 0
    assert token_f1("Mostar Bridge", ["the Old Bridge"]) == 0.5
    assert token_f1("Mostar", ["Mostar, Bosnia", "Mostar"]) == 1
    assert token_f1("", ["Mostar"]) == 0
    assert token_f1("the", ["a"]) == 1  # nothing is left of either
    assert token_f1("Mostar", []) == 0


def test_an_answer_that_stands_in_a_text() -> None:
    assert contained("It was built in 1566, by Hayruddin.", ["hayruddin"]) == 1
    assert contained("In Uruguay.", ["Ur"]) == 0


@given(st.text(), st.lists(st.text(), max_size=3))
def test_f1_is_a_share_and_no_less_than_exact_match(answer: str, right: list[str]) -> None:
    assert exact_match(answer, right) <= token_f1(answer, right) <= 1
    assert token_f1(answer, [*right, answer]) == 1
