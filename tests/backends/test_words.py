"""When two names are the same, words as numbers, and sentences as rows of them."""
# ruff: noqa: RUF001 - quotes and letters as people write them

import time
import unicodedata
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wye.backends.words
from wye.backends.words import (
    END,
    SentenceWords,
    Strings,
    StringTable,
    Words,
    ascending,
    entity_key,
    is_informative,
    joined,
    normalised,
    places,
    starts_like_a_name,
    stretch,
    title_keys,
    title_names,
    tokenise,
)


@given(st.text("aAbBé1_'. ", max_size=12))
def test_names_of_letters_alone_have_the_tokens_that_others_have(name: str) -> None:
    assert tokenise(name) == wye.backends.words._TOKEN.findall(wye.backends.words._plain(name))


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


def test_numbers_stay_and_case_does_not_count_in_sentences() -> None:
    words = Words()
    assert [words.number(word) for word in ("a", "b", "a", "A")] == [0, 1, 0, 2]
    assert (words.find("b"), words.find("c"), len(words)) == (1, -1, 3)
    found = SentenceWords.of(["STRASSE straße"], words)
    assert (found.packed >> 1).tolist() == [3, 3, -1]


@pytest.mark.parametrize(
    ("surface", "key"),
    [
        ("Anna Lind", "anna lind"),
        ("  Anna \t\n Lind ", "anna lind"),
        ("ANNA LIND", "anna lind"),
        ("«Anna Lind»", "anna lind"),
        ("'Anna Lind',", "anna lind"),
        ("Anna Lind's", "anna lind"),
        ("‘Anna Lind’s’", "anna lind"),
        ("ANNA LIND'S", "anna lind"),
        ("Karl Ii's", "karl ii"),
        ("James'", "james"),
        ("Children's Hospital", "children's hospital"),
        ("“Fat Tony” Salerno", 'fat tony" salerno'),
        ('"Fat Tony" Salerno', 'fat tony" salerno'),
        ("O‘Neil", "o'neil"),
        ("U.S.", "u.s"),
        ("St. Gallen", "st. gallen"),
        ("Straße", "strasse"),
        ("Zoe\u0301", "zo\u00e9"),
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
    ("title", "names", "keys"),
    [
        ("  Lisbon ", ["Lisbon"], ["lisbon"]),
        ("The Reef (film) ", ["The Reef (film)", "The Reef"], ["reef (film", "reef"]),
        ("Reef (b) (1990)", ["Reef (b) (1990)", "Reef (b)"], ["reef (b) (1990", "reef (b"]),
        ("(Untitled)", ["(Untitled)"], ["untitled"]),
        ("f(x) plots", ["f(x) plots"], ["f(x) plots"]),
        ("A (b (c))", ["A (b (c))"], ["a (b (c"]),
        ("A (b", ["A (b"], ["a (b"]),
        ("b)", ["b)"], ["b"]),
        ("", [], []),
        ("?!", ["?!"], []),
    ],
)
def test_a_title_names_its_passage_with_and_without_what_tells_it_apart(
    title: str, names: list[str], keys: list[str]
) -> None:
    assert [*title_names(title)] == names
    assert [*title_keys(title)] == keys


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
    ("key", "informative"),
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
def test_function_words_and_single_signs_tell_nothing(key: str, informative: bool) -> None:
    assert is_informative(key) is informative


@pytest.mark.parametrize(
    ("token", "answer"),
    [("Anna", True), ("Éa", True), ("1917", True), ("x1", False), ("'", False), ("שם", False)],
)
def test_names_start_with_a_capital_or_a_digit(token: str, answer: bool) -> None:
    assert starts_like_a_name(token) is answer


forms = st.sampled_from(["NFC", "NFKD"])
rows = st.tuples(
    st.text(max_size=3), st.sampled_from("\u0301\u0323\U0001e944ab"), st.integers(0, 70)
)


@given(st.lists(rows, max_size=4), forms)
def test_more_marks_in_a_row_than_a_language_has_are_left_out(
    rows: list[tuple[str, str, int]], form: Literal["NFC", "NFKD"]
) -> None:
    text, kept, marks = "".join(first + one * times for first, one, times in rows), "", 0
    for one in text:
        marks = marks + 1 if unicodedata.combining(one) else 0
        kept += one if marks <= 30 else ""
    assert normalised(text, form) == unicodedata.normalize(form, kept)


def test_a_text_of_marks_takes_a_moment() -> None:
    text = "a" + "\u0301\u0323" * 32_000  # 20 seconds in one call of Python's own function
    start = time.process_time()
    assert len(tokenise(text)) == 1
    assert time.process_time() - start < 2


def test_a_stretch_is_written_as_the_text_has_it() -> None:
    assert stretch("Is St. Olav's town far (away)?", 1, 4) == "St. Olav's"
    assert stretch("Is St. Olav's town far (away)?", 6, 3) == "far (away"


@given(st.lists(st.text(), unique=True), st.text(), st.integers(0, 1))
def test_a_table_finds_what_a_list_does(texts: list[str], other: str, hashed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not hashed:  # all fall into one place
            patch.setattr(wye.backends.words, "_hash", lambda _: 7)
        table = StringTable.of(Strings(texts))
        places = {text: place for place, text in enumerate(texts)}
        for text in [*texts, other, "\ud800"]:
            assert table.find(text) == places.get(text, -1)
    assert [*table] == texts
    assert len(table) == len(texts)


def test_words_of_a_table_are_those_of_a_list_and_take_new_ones() -> None:
    texts = ["b", "a", "ß"]
    words, others = Words(StringTable.of(Strings(texts))), Words(texts)
    assert [words.find(text) for text in [*texts, "c"]] == [0, 1, 2, -1]
    assert (len(words), [*words]) == (len(others), [*others])
    assert words.number("a") == 1
    assert words.number("c") == 3
    assert [*words.table] == [*words] == ["b", "a", "ß", "c"]
    assert [*others.table] == texts


short_texts = st.lists(st.text(max_size=3))


@given(short_texts, short_texts, st.sampled_from([0, 2**31]))
def test_lists_of_strings_are_looked_up_joined_and_put_in_order(
    some: list[str], more: list[str], short: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.backends.words, "_SHORT", short)
        known = ascending(Strings(some), Strings(more))
        assert [*known] == sorted({*some, *more} - {""})
        assert places(Strings(more), known).tolist() == [known.find(text) for text in more]
        back = np.arange(len(some) + len(more))[::-1].copy()
        assert [*joined(Strings(some), Strings(more), back)] == [*some, *more][::-1]
    mask = np.arange(len(some)) % 2 == 0
    assert [*Strings(some).where(mask)] == some[::2]
