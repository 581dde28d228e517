"""Words as numbers, and sentences as rows of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backends.words
from backends.numerics import ragged
from backends.words import END, SentenceWords, Words, starts_like_a_name, tokenise

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


@given(texts, texts, st.data())
def test_joined_is_as_if_read_in_that_order(
    old: list[str], new: list[str], data: st.DataObject
) -> None:
    words = Words()
    before, after = SentenceWords.of(old, words), SentenceWords.of(new, words)
    both = [*old, *new]
    places = st.lists(st.integers(0, len(both) - 1), max_size=9) if both else st.just([])
    source = data.draw(places)
    joined = before.joined(after, np.array(source, np.int64))
    straight = SentenceWords.of([both[place] for place in source], words)
    assert joined.packed.tolist() == straight.packed.tolist()
    assert joined.lengths.tolist() == straight.lengths.tolist()


def test_numbers_stay() -> None:
    words = Words()
    assert [words.number(word) for word in ("a", "b", "a", "A")] == [0, 1, 0, 2]
    assert (words.find("b"), words.find("c"), len(words)) == (1, -1, 3)


def test_case_does_not_count_in_sentences() -> None:
    found = SentenceWords.of(["STRASSE straße"], Words())
    assert (found.packed >> 1).tolist() == [0, 0, -1]


def test_too_many_unused_words_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends.words, "_SPARE", 1)
    words = Words()
    SentenceWords.of(["a b c"], words)
    assert SentenceWords.of(["a b c"], words).are_worn(words) is False
    assert SentenceWords.of(["a"], words).are_worn(words) is False
    assert SentenceWords.of([], words).are_worn(words)
    words.number("d")
    assert SentenceWords.of(["a"], words).are_worn(words)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_ragged_names_the_elements_of_lists(lengths: list[int], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))
    ends = np.cumsum(lengths).tolist()
    expected = [place for row in order for place in range(ends[row] - lengths[row], ends[row])]
    found = ragged(np.array(lengths, np.int32), np.array(order, np.int64))
    assert found.tolist() == expected
