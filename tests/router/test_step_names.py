import pytest

from wye.router.step_names import fits, is_date, is_quantity, plain_words


@pytest.mark.parametrize(
    "name", ["May 1865", "1990s", "the 12th century", "Sunday", "early 2001", "three years"]
)
def test_dates(name: str) -> None:
    assert is_date(name)
    assert [fits(name, wanted) for wanted in ("date", "person", "place", "free")] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("name", ["less than seven metres", "42 km", "two", "about 1,200"])
def test_quantities(name: str) -> None:
    assert is_quantity(name)
    assert not fits(name, "work")
    assert fits(name, "number")


@pytest.mark.parametrize(
    "name", ["Alpha 7", "Euro 2008", "May", "Jean Sibelius", "1984 Summer Olympics", "", "東京"]
)
def test_names_with_numbers_are_names(name: str) -> None:
    assert not is_date(name)
    assert not is_quantity(name)
    assert fits(name, "work")
    assert not fits(name, "date")


def test_articles_and_marks_tell_no_names_apart() -> None:
    assert plain_words("The Café's") == plain_words("café") == "café"
    assert plain_words("the") == ""
