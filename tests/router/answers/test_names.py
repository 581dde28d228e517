from hypothesis import given
from hypothesis import strategies as st

from wye.router.answers.names import names_in


def test_names() -> None:
    text = "The poet J. R. R. Tolkien met Ludwig van Beethoven, Earl of Oxford in Rome."
    assert names_in(text) == ["J. R. R. Tolkien", "Ludwig van Beethoven", "Earl of Oxford", "Rome"]


def test_a_pair_is_also_each_of_it() -> None:
    assert names_in("By Ann Lee and Bob Ray.") == ["Ann Lee and Bob Ray", "Ann Lee", "Bob Ray"]


def test_dates_are_no_names_and_end_them() -> None:
    assert names_in("In May 1900 Rome 5 June 1910 Milan had trams.") == ["Rome", "Milan"]


@given(st.text(max_size=200))
def test_names_stand_in_the_text(text: str) -> None:
    assert all(name and name in text for name in names_in(text))
