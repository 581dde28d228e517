"""Names in running text, beside a loop that tries every name at every place."""
# ruff: noqa: RUF001 - quotes as people write them

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wye.backends.trigraph.names
from wye.backends.arrays import SentenceWords, Words
from wye.backends.text import entity_key, starts_like_a_name, tokenise
from wye.backends.trigraph.names import MAX_WORDS, Link, NameTrie
from wye.backends.types import Int32

Vocabulary = list[tuple[str, int]]


def find_all(
    names: Vocabulary, texts: Sequence[str], *, names_first: bool = False
) -> tuple[Int32, Int32]:
    """Sentences and entities; words are numbered as they come in, from texts or from names."""
    words = Words()
    trie = NameTrie.of(names, words) if names_first else None
    sentences = SentenceWords.of(texts, words)
    return (trie or NameTrie.of(names, words)).find_all(sentences)


@pytest.mark.parametrize(
    "name",
    ["U.S.", "İzmir", "Straße", "Zoe\u0301", "“Fat Tony” Salerno", "O’Neil", "St. Gallen", "AT&T"],
)
def test_a_name_is_found_as_it_was_written_and_in_capitals(name: str) -> None:
    trie = NameTrie.of([(entity_key(name), 7)])
    for text in (f"We saw {name} there", f"WE SAW {name.upper()} THERE", f"{name}’s and more"):
        assert [link.entity for link in trie.find(tokenise(text))] == [7]


def slow_find(
    names: Sequence[tuple[str, int]], tokens: Sequence[str], starts: Sequence[bool]
) -> list[Link]:
    """From left to right, at each place the longest name that stands there."""
    known: dict[tuple[str, ...], int] = {}
    for name, entity in names:
        words = tuple(word.casefold() for word in tokenise(name))
        if 0 < len(words) <= MAX_WORDS:
            known.setdefault(words, entity)
    folded = [token.casefold() for token in tokens]
    links, place = [], 0
    while place < len(tokens):
        for length in range(len(tokens) - place, 0, -1):
            words = tuple(folded[place : place + length])
            if starts[place] and words in known:
                links.append(Link(known[words], place, length))
                place += length
                break
        else:
            place += 1
    return links


words = st.sampled_from(["a", "b", "c", "A", "B", "'s", ".", "1"])
phrases = st.lists(words, min_size=0, max_size=MAX_WORDS + 2).map(" ".join)
vocabularies = st.lists(phrases, max_size=12).map(
    lambda names: [(name, number) for number, name in enumerate(names)]
)


@settings(max_examples=300)
@given(names=vocabularies, text=st.lists(words, max_size=25))
def test_the_leftmost_longest_names_are_found(names: Vocabulary, text: list[str]) -> None:
    assert NameTrie.of(names).find(text) == slow_find(names, text, [True] * len(text))


@settings(max_examples=300)
@given(
    names=vocabularies,
    texts=st.lists(phrases | st.just("é Ça") | st.just(""), max_size=8),
    block=st.sampled_from([1, 7, 2_000]),
    names_first=st.booleans(),
)
def test_many_texts_at_once_equal_one_after_the_other(
    names: Vocabulary, texts: list[str], block: int, *, names_first: bool
) -> None:
    expected = []
    for number, text in enumerate(texts):
        tokens = tokenise(text)
        starts = [starts_like_a_name(token) for token in tokens]
        expected += [(number, link.entity) for link in slow_find(names, tokens, starts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.backends.trigraph.names, "_BLOCK", block)
        owner, entity = find_all(names, texts, names_first=names_first)
    assert list(zip(owner.tolist(), entity.tolist(), strict=True)) == expected
    assert owner.dtype == entity.dtype == np.int32


@pytest.mark.parametrize(
    ("names", "text", "links"),
    [
        (
            [("lake", 0), ("lake constance", 1), ("constance bay", 2), ("bay", 3)],
            "At Lake Constance Bay, a lake",
            [Link(1, 1, 2), Link(3, 3, 1), Link(0, 6, 1)],
        ),
        # A shorter name is taken where the longer one breaks off.
        (
            [("king", 0), ("king of the north sea", 1)],
            "King of the North King",
            [Link(0, 0, 1), Link(0, 4, 1)],
        ),
        # Of two names with the same words the first counts.
        ([("rio .", 5), ("rio.", 6)], "Rio.", [Link(5, 0, 2)]),
    ],
)
def test_by_hand(names: Vocabulary, text: str, links: list[Link]) -> None:
    assert NameTrie.of(names).find(tokenise(text)) == links


def test_in_running_text_a_name_begins_with_a_capital_and_ends_with_its_text() -> None:
    names = [("new york", 0), ("york", 1)]
    texts = ["New York", "in New", "York", "New", "", "York New", "a york"]
    owner, entity = find_all(names, texts)
    assert (owner.tolist(), entity.tolist()) == ([0, 2, 5], [0, 1, 1])


def test_names_of_too_many_words_or_none_are_left_out() -> None:
    longest = " ".join(f"w{n}" for n in range(MAX_WORDS))
    trie = NameTrie.of([(longest, 0), (f"x {longest}", 1), ("", 2), ("  ", 3)])
    assert trie.find(longest.split()) == [Link(0, 0, MAX_WORDS)]
    assert trie.find(["x", *longest.split()]) == [Link(0, 1, MAX_WORDS)]
