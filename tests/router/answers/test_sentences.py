from hypothesis import given
from hypothesis import strategies as st

from wye.backends.documents import split_sentences
from wye.router.answers.sentences import LONGEST, sentences_of

WORD = st.text(st.sampled_from("ab1."), min_size=1, max_size=8)


def test_a_sentence_of_usual_length_stays_whole() -> None:
    text = f"It is a bridge. {'Boats are popular there, and ' * 60}so on. It was rebuilt in 2004."
    assert sentences_of(text) == split_sentences(text)


def test_a_blank_line_ends_a_sentence() -> None:
    text = "The Kestrel\n\nThe Kestrel is a beam\nengine. It runs."
    assert sentences_of(text) == ["The Kestrel", "The Kestrel is a beam\nengine.", "It runs."]


@given(
    st.lists(WORD, max_size=5),
    st.sampled_from([1, 700, 3_000]),
    st.sampled_from([" ", "", "\n", ". "]),
)
def test_a_long_one_is_cut_between_words_if_it_has_any(
    words: list[str], times: int, blank: str
) -> None:
    text = blank.join(words * times)
    found, end = sentences_of(text), 0
    assert all(0 < len(one) <= LONGEST for one in found)
    for one in found:
        start = text.index(one, end)
        assert not text[end:start].strip()
        end = start + len(one)
    assert not text[end:].strip()
    if blank.isspace():
        assert [word for one in found for word in one.split()] == text.split()
