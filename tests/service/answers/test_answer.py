"""Which passages the parts of an answer name."""

from hypothesis import given
from hypothesis import strategies as st

from wye.service.answers.generate import GeneratedAnswer, unnumbered

MARKED = st.lists(
    st.sampled_from(["A b.", " ", "[1]", "[2]", "[9]", "[0]", "[1, 2]", "[1,9]", "["])
)


def parts(text: str, shown: int = 2) -> list[tuple[str, list[int]]]:
    segments = GeneratedAnswer(pieces=[text], citable=shown).segments
    return [(each.text, each.passages) for each in segments]


def test_a_part_ends_with_the_numbers_of_its_passages() -> None:
    assert parts("It flows [1][2]. So it does [2, 1] today.") == [
        ("It flows ", [1, 2]),
        (". So it does ", [2, 1]),
        (" today.", []),
    ]
    assert parts("") == []


def test_a_number_that_is_no_passages_is_text() -> None:
    assert parts("See [3], [0], [1,3] and [2].") == [("See [3], [0], [1,3] and ", [2]), (".", [])]


@given(MARKED)
def test_parts_and_numbers_make_the_text_again(pieces: list[str]) -> None:
    text = "".join(pieces)
    again = "".join(t + "".join(f"[{n}]" for n in numbers) for t, numbers in parts(text))
    assert again == text.replace("[1, 2]", "[1][2]")


@given(st.text() | MARKED.map("".join))
def test_a_sources_own_brackets_are_never_a_number(text: str) -> None:
    assert all(not numbers for _, numbers in parts(unnumbered(text), 999))
    assert unnumbered(text).replace(" ", "") == text.replace(" ", "")
