"""Strings in little memory, vocabularies, and sentences of word numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wye.backends.arrays
from wye.backends.arrays import END, SentenceWords, Strings, Words, ascending, find_all
from wye.backends.text import starts_like_a_name, tokenise

texts = st.lists(st.text("aAbB É'.1", max_size=12), max_size=6)


@given(texts)
def test_each_word_is_its_number_with_a_mark_for_a_name(sentences: list[str]) -> None:
    words = Words()
    found = SentenceWords.of(sentences, words)
    expected: list[int] = []
    for sentence in sentences:
        for token in tokenise(sentence):
            expected.append(2 * words.find(token.casefold()) + starts_like_a_name(token))
        expected.append(END)
    assert found.packed.tolist() == expected
    assert found.lengths.tolist() == [len(tokenise(sentence)) + 1 for sentence in sentences]
    assert found.packed.dtype == found.lengths.dtype == np.int32


@given(st.lists(st.text(), unique=True), st.text())
def test_strings_with_an_order_find_what_a_list_does(texts: list[str], other: str) -> None:
    strings = Strings(texts).ordered()
    position_of = {text: position for position, text in enumerate(texts)}
    for text in [*texts, other, "\ud800"]:
        assert strings.find(text) == position_of.get(text, -1)


def test_words_on_stored_ones_and_on_others_have_the_next_numbers() -> None:
    texts = ["b", "a", "ß"]
    stored = Words(Strings(texts).ordered())
    further = Words(stored)
    assert [stored.find(text) for text in [*texts, "c"]] == [0, 1, 2, -1]
    assert [*stored.strings] == texts
    assert (stored.number("a"), stored.number("c"), further.number("d")) == (1, 3, 3)
    assert (stored.find("d"), further.find("c"), further.number("c")) == (-1, -1, 4)
    assert (len(stored), [*stored], [*stored.strings]) == (4, [*texts, "c"], [*texts, "c"])
    assert (len(further), [*further]) == (5, [*texts, "d", "c"])


short_texts = st.lists(st.text(max_size=3))


@given(short_texts, short_texts, st.sampled_from([0, 2**31]))
def test_strings_are_looked_up_and_sorted(some: list[str], more: list[str], short: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.backends.arrays, "_SHORT", short)
        known = ascending(Strings(some), Strings(more))
        assert [*known] == sorted({*some, *more} - {""})
        assert find_all(Strings(more), known).tolist() == [known.find(text) for text in more]
    mask = np.arange(len(some)) % 2 == 0
    assert [*Strings(some).where(mask)] == some[::2]
