import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.strings import SentenceWords, Strings, Words
from wye.backends.trigraph.graph_sources import NameStarts, Spellings

WORDS = st.sampled_from(["Ada", "ada", "Lake", "lake", "Como", "of"])
TEXTS = st.lists(st.lists(WORDS, max_size=6), max_size=8)


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=3))
def test_sentences_with_a_name_are_those_that_have_its_words_side_by_side(
    texts: list[list[str]], name: list[str]
) -> None:
    words = Words()
    sentences = SentenceWords.of(map(" ".join, texts), words)
    known = len(words)
    codes = tuple(words.number(word.casefold()) for word in name)
    expected = [
        row
        for row, text in enumerate(texts)
        for start in range(len(text))
        if text[start][0].isupper()
        and [word.casefold() for word in text[start : start + len(name)]]
        == [word.casefold() for word in name]
    ]
    starts = NameStarts.of(sentences, known)
    assert starts.sentences_with(sentences, codes).tolist() == expected


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=9))
def test_names_are_found_by_their_key(keys: list[str]) -> None:
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int32)
    nothing = np.zeros(len(keys), np.int32)
    spellings = Spellings(Strings(keys), nothing, nothing, order)
    for key in ["a", "b", "c", "d"]:
        assert spellings.of(key) == [n for n, own in enumerate(keys) if own == key]
