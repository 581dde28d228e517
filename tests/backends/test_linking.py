"""Names: which are the same, and where they stand in a text."""
# ruff: noqa: RUF001 - quotes and letters as people write them

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.linking import (
    MAX_WORDS,
    Link,
    NameTrie,
    entity_key,
    is_telling,
    starts_like_a_name,
    stretch,
    title_keys,
    tokenise,
)


@pytest.mark.parametrize(
    ("surface", "key"),
    [
        ("Anna Lind", "anna lind"),
        ("  Anna \t\n Lind ", "anna lind"),
        ("ANNA LIND", "anna lind"),
        ("“Anna Lind”", "anna lind"),
        ("«Anna Lind»", "anna lind"),
        ("'Anna Lind',", "anna lind"),
        ("Anna Lind's", "anna lind"),
        ("Anna Lind’s", "anna lind"),
        ("‘Anna Lind’s’", "anna lind"),
        ("ANNA LIND'S", "anna lind"),
        ("Karl Ii's", "karl ii"),
        ("James'", "james"),
        ("Children's Hospital", "children's hospital"),
        ("Children’s Hospital", "children's hospital"),
        ("“Fat Tony” Salerno", 'fat tony" salerno'),
        ('"Fat Tony" Salerno', 'fat tony" salerno'),
        ("O‘Neil", "o'neil"),
        ("U.S.", "u.s"),
        ("St. Gallen", "st. gallen"),
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("Zoe\u0301", "zo\u00e9"),
        ("ZO\u00c9", "zo\u00e9"),
        ("İzmir", "i\u0307zmir"),
        ("ΟΔΟΣ", "οδοσ"),
        ("The Danube", "danube"),
        ("the  “Danube”", "danube"),
        ("The Who", "the who"),
        ("The", "the"),
        ("Theodora", "theodora"),
        ("The A", "the a"),
        ("📚 Club", "📚 club"),
        ("שלום עולם", "שלום עולם"),
        ("نهر النيل.", "نهر النيل"),
        ("北京", "北京"),
        ("", ""),
        (" \n\u3000", ""),
        ("“...”", ""),
        ("()", ""),
    ],
)
def test_keys_ignore_how_a_name_is_written(surface: str, key: str) -> None:
    assert entity_key(surface) == key


@given(st.text(max_size=30))
def test_a_key_has_no_case_no_runs_of_spaces_and_none_at_its_ends(surface: str) -> None:
    key = entity_key(surface)
    assert key == key.strip()
    assert entity_key(f"  {surface}\n") == key
    assert entity_key(f"“{surface}”") == key
    assert "  " not in key
    assert entity_key(surface.replace("'", "’")) == key


@pytest.mark.parametrize(
    ("title", "keys"),
    [
        ("Lisbon", ("lisbon",)),
        ("Mercury (planet)", ("mercury (planet", "mercury")),
        ("The Reef (film) ", ("reef (film", "reef")),
        ("Reef (novel) (1990)", ("reef (novel) (1990", "reef (novel")),
        ("(Untitled)", ("untitled",)),
        ("f(x) plots", ("f(x) plots",)),
        ("", ()),
        ("?!", ()),
    ],
)
def test_a_title_names_its_passage_with_and_without_what_tells_it_apart(
    title: str, keys: tuple[str, ...]
) -> None:
    assert title_keys(title) == keys


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Anna met Bo.", ["Anna", "met", "Bo", "."]),
        ("Karl Ii's son", ["Karl", "Ii", "'s", "son"]),
        ("Karl’s son", ["Karl", "'s", "son"]),
        ("KARL'S SON", ["KARL", "'S", "SON"]),
        ("O'Neil's hat", ["O'Neil", "'s", "hat"]),
        ("the boys' hats", ["the", "boys", "'", "hats"]),
        ("U.S. and u.s. law", ["U.S", ".", "and", "u.s", ".", "law"]),
        ("co-op St. Gallen", ["co-op", "St", ".", "Gallen"]),
        ("A&B C/D", ["A", "&", "B", "C", "/", "D"]),
        ("“Hi”", ['"', "Hi", '"']),
        ("Zoe\u0301 İzmir i\u0307zmir", ["Zo\u00e9", "İzmir", "i\u0307zmir"]),
        ("q\u0301-x", ["q\u0301-x"]),
        ("📚🚀 ok", ["📚", "🚀", "ok"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("snake_case 3.14", ["snake_case", "3.14"]),
        ("a\x00b", ["a", "\x00", "b"]),
        (" \n\t", []),
        ("", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


# One accent becomes a letter when case is folded; no name contains it on its own.
any_text = st.text(st.characters(exclude_characters="\u0345", exclude_categories=["Cs"]))
letters = st.text("aAsSzßſİı'’.- \u0301", max_size=12)


@settings(max_examples=300)
@given(any_text | letters)
def test_case_does_not_decide_where_a_token_ends(text: str) -> None:
    # Names are stored with their case folded and found in texts as written.
    def borders(text: str) -> list[str]:
        return [unicodedata.normalize("NFC", token.casefold()) for token in tokenise(text)]

    assert borders(text.casefold()) == borders(text)


@pytest.mark.parametrize(
    "name",
    ["U.S.", "İzmir", "Straße", "Zoe\u0301", "“Fat Tony” Salerno", "O’Neil", "St. Gallen", "AT&T"],
)
def test_a_name_is_found_as_it_was_written_and_in_capitals(name: str) -> None:
    trie = NameTrie([(entity_key(name), 7)])
    for text in (f"We saw {name} there", f"WE SAW {name.upper()} THERE", f"{name}’s and more"):
        assert [link.entity for link in trie.find(tokenise(text))] == [7]


@pytest.mark.parametrize(
    ("key", "telling"),
    [
        ("lisbon", True),
        ("the reef", True),
        ("it", False),
        ("to be", False),
        ("it's", False),
        ("x", False),
        ("", False),
        ("42", True),
    ],
)
def test_function_words_and_single_signs_tell_nothing(key: str, telling: bool) -> None:
    assert is_telling(key) is telling


@pytest.mark.parametrize(
    ("token", "answer"),
    [("Anna", True), ("Éa", True), ("1917", True), ("x1", False), ("'", False), ("שם", False)],
)
def test_names_start_with_a_capital_or_a_digit(token: str, answer: bool) -> None:
    assert starts_like_a_name(token) is answer


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
Vocabulary = list[tuple[str, int]]


@settings(max_examples=300)
@given(names=vocabularies, text=st.lists(words, max_size=25), data=st.data())
def test_the_leftmost_longest_names_are_found(
    names: Vocabulary, text: list[str], data: st.DataObject
) -> None:
    trie = NameTrie(names)
    everywhere = [True] * len(text)
    assert trie.find(text) == slow_find(names, text, everywhere)
    some = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    assert trie.find(text, some) == slow_find(names, text, some)


@settings(max_examples=300)
@given(names=vocabularies, texts=st.lists(phrases | st.just("é Ça") | st.just(""), max_size=8))
def test_many_texts_at_once_equal_one_after_the_other(names: Vocabulary, texts: list[str]) -> None:
    trie = NameTrie(names)
    expected = []
    for number, text in enumerate(texts):
        tokens = tokenise(text)
        starts = [starts_like_a_name(token) for token in tokens]
        expected += [(number, link.entity) for link in slow_find(names, tokens, starts)]
    owner, entity = trie.find_all(texts)
    assert list(zip(owner.tolist(), entity.tolist(), strict=True)) == expected
    assert owner.dtype == entity.dtype == np.int32


def test_no_name_crosses_from_one_text_into_the_next() -> None:
    trie = NameTrie([("new york", 0), ("york", 1)])
    owner, entity = trie.find_all(["New York", "in New", "York", "New", "", "York New"])
    assert owner.tolist() == [0, 2, 5]
    assert entity.tolist() == [0, 1, 1]


def test_a_stretch_is_written_as_the_text_has_it() -> None:
    assert stretch("Is St. Olav's town far (away)?", 1, 4) == "St. Olav's"
    assert stretch("Is St. Olav's town far (away)?", 6, 3) == "far (away"


def test_by_hand() -> None:
    trie = NameTrie([("lake", 0), ("lake constance", 1), ("constance bay", 2), ("bay", 3)])
    assert trie.find(tokenise("At Lake Constance Bay, a lake")) == [
        Link(1, 1, 2),
        Link(3, 3, 1),
        Link(0, 6, 1),
    ]
    # In running text a name begins with a capital letter.
    assert [part.tolist() for part in trie.find_all(["a lake", "Lake constance bay"])] == [[1], [1]]


def test_a_shorter_name_is_taken_where_the_longer_one_breaks_off() -> None:
    trie = NameTrie([("king", 0), ("king of the north sea", 1)])
    assert trie.find(["King", "of", "the", "North", "King"]) == [Link(0, 0, 1), Link(0, 4, 1)]


def test_names_of_too_many_words_or_none_are_left_out() -> None:
    longest = " ".join(f"w{n}" for n in range(MAX_WORDS))
    trie = NameTrie([(longest, 0), (f"x {longest}", 1), ("", 2), ("  ", 3)])
    assert trie.find(longest.split()) == [Link(0, 0, MAX_WORDS)]
    assert trie.find(["x", *longest.split()]) == [Link(0, 1, MAX_WORDS)]


def test_of_two_names_with_the_same_words_the_first_counts() -> None:
    assert NameTrie([("rio .", 5), ("rio.", 6)]).find(["Rio", "."]) == [Link(5, 0, 2)]


def test_a_trie_without_names_finds_nothing() -> None:
    trie = NameTrie([])
    assert trie.find(["Anna"]) == []
    assert trie.find([]) == []
    assert [part.tolist() for part in trie.find_all(["Anna", ""])] == [[], []]
    assert [part.tolist() for part in NameTrie([("anna", 0)]).find_all([])] == [[], []]
