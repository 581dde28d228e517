"""Names in running text, beside a loop that tries every name; names by which passages go."""
# ruff: noqa: RUF001 - quotes as people write them

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wye.backends.trigraph.names
from wye.backends.arrays import SentenceWords, Words
from wye.backends.text import cells_of, entity_key, starts_like_a_name, title_parts, tokenise
from wye.backends.trigraph.names import MAX_WORDS, Link, NameTrie, day_keys, defining_names
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


def test_in_running_text_a_name_begins_with_a_capital_and_ends_with_its_text() -> None:
    names = [("new york", 0), ("york", 1)]
    texts = ["New York", "in New", "York", "New", "", "York New", "a york"]
    owner, entity = find_all(names, texts)
    assert (owner.tolist(), entity.tolist()) == ([0, 2, 5], [0, 1, 1])


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("Runbook: Otter", ["Runbook", "Otter"]),
        ("Hut page: Elk Hut (ELK)", ["ELK", "Hut page", "Elk Hut"]),
        ("DN-04 Heat pumps", ["DN-04 Heat pumps", "DN-04", "Heat pumps"]),
        ("Report RX-21-3", ["Report RX-21-3", "RX-21-3"]),
        ("LH-16-marten", ["LH-16", "marten"]),
        ("spare-parts_list", ["spare parts list"]),
        ("Ada Quist - Early life", []),
        ("The Long Rain (film)", ["The Long Rain"]),
        ("Peut-\u00eatre", ["Peut-\u00eatre"]),
        ("Hut rules > 4. Stoves", ["Hut rules"]),
    ],
)
def test_parts_of_a_title(title: str, parts: list[str]) -> None:
    assert [*title_parts(title)] == parts


def test_a_part_that_is_a_whole_title_or_widely_shared_names_nothing() -> None:
    titles = ["Otter", "Runbook: Otter", *(f"Notice: Day{n}x" for n in range(5))]
    names = defining_names(titles, titles, [""] * len(titles))
    assert names[1] == ("runbook",)
    assert all("notice" not in each for each in names)
    assert names[2] == ("day0x",)


def test_a_person_in_a_table_goes_by_one_name_if_nobody_shares_it() -> None:
    row = "role: Warden; hut: Elk Hut"
    titles = ["Runa Berg", "Odd Lie", "Odd Moen", "Runa Falk Hus"]
    documents = [f"staff.csv:{n}" for n in range(4)]
    assert defining_names(titles, documents, [row] * 4) == [
        ("berg", "r. berg", "berg r"),
        ("lie", "o. lie", "lie o"),
        ("moen", "o. moen", "moen o"),
        ("hus", "r. hus", "hus r"),
    ]
    # However many rows are about her, and however her title is written, she is one person.
    about = ["Runa Berg", "Dr Runa Berg", "Berg, Runa", "Runa Berg"]
    tables = [f"{name}.csv:1" for name in ("staff", "keys", "boats", "courses")]
    assert all("runa" in names for names in defining_names(about, tables, [row] * 4))
    assert defining_names(["Berg, Runa"], ["staff.csv:1"], [row])[0][:2] == ("runa berg", "runa")
    doctor = defining_names(["Dr. Runa Berg"], ["staff.csv:1"], [row])[0]
    assert (doctor[:2], doctor[-1]) == (("runa berg", "runa"), "dr. berg")
    assert defining_names(titles, documents, ["She keeps the hut."] * 4) == [()] * 4


def test_a_row_with_a_period_goes_by_each_of_its_days() -> None:
    rows = ["to: 2034-08-09; tar: Odd Lie", "to: 2034-08-12; tar: Runa Berg"]
    names = defining_names(["2034-08-07", "2034-08-10"], ["a.csv:1", "a.csv:2"], rows)
    assert ("on 2034-08-08" in names[0], "on 08-11" in names[1]) == (True, True)
    assert not {*names[0]} & {*names[1]}
    many = defining_names(["Sail"] * 4, [f"{n}.csv:1" for n in range(4)], [f"since: {rows[0]}"] * 4)
    assert many == [()] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role: Warden; hut: Elk Hut", [("role", "Warden"), ("hut", "Elk Hut")]),
        ("One thing: this; and then all of that happened; and more; and more", []),
        ("Prose without any labels.", []),
    ],
)
def test_rows_are_known_by_their_labels(text: str, expected: list[tuple[str, str]]) -> None:
    assert cells_of(text) == expected


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        *[(["SUP-24", "SUP-25"], ["sup-24", "sup-25"]), (["9130", "9140"], ["9130", "9140"])],
        *[(["07.05.31", "08.05.31"], ["07.05.31", "08.05.31"]), (["SUP-24", "SUP-24"], [])],
        *[(["2030", "2031"], []), (["640", "5040"], []), (["Elk Hut", "Otter Hut"], [])],
    ],
)
def test_the_first_column_that_parts_rows_names_them(column: list[str], keys: list[str]) -> None:
    texts = [f"where: north; no: {key}; other: Z-{n}" for n, key in enumerate(column)]
    names = defining_names(["Ropes", "Sails"], ["a.csv:1", "a.csv:2"], texts)
    assert [each[:1] for each in names] == [(key,) for key in keys or ("z-0", "z-1")]


def test_a_day_names_its_row_in_every_notation() -> None:
    texts = [f"date: {day}.05.31; watch: Lie" for day in ("06", "07")]
    names = defining_names(["Tue", "Wed"], ["rota.csv:1", "rota.csv:2"], texts)
    assert names[1] == ("07.05.31", *day_keys("7 May 2031"))
