import re

from hypothesis import given
from hypothesis import strategies as st

from router.answers.titles import head, plain


def test_a_title_is_compared_without_its_section_and_brackets() -> None:
    assert head("Signs (1990 film) - Plot") == "signs"
    assert plain("Signs (1990 film) - Plot") == "signs 1990 film plot"


@given(st.text(st.sampled_from("aIİßΣς1_ .-'\u0307(é")) | st.text())
def test_words_are_those_of_the_text(text: str) -> None:
    words = re.findall(r"\w+", text)
    assert plain(text).split(" ") == [word.lower() for word in words] or not words
    assert plain(" ".join(words)) == plain(text)
