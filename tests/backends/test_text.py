# ruff: noqa: RUF001 - quotes and letters as people write them

import random
import re
import time
import unicodedata
from itertools import combinations
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wye.backends.lexical
import wye.backends.text
from wye.backends.lexical import searched_text
from wye.backends.text import (
    are_copies,
    entity_key,
    german_words,
    is_blank,
    is_informative,
    mention_key,
    normalised,
    starts_like_a_name,
    stretch,
    terms,
    title_keys,
    title_names,
    tokenise,
    without_request,
    words_as_written,
)


@given(st.text("aAbBé1_'. ", max_size=12))
def test_names_of_letters_alone_have_the_tokens_that_others_have(name: str) -> None:
    assert tokenise(name) == wye.backends.text._TOKEN.findall(wye.backends.text._plain(name))


@pytest.mark.parametrize(
    ("surface", "key"),
    [
        *[("Anna Lind", "anna lind"), ("  Anna \t\n Lind ", "anna lind")],
        *[("ANNA LIND", "anna lind"), ("«Anna Lind»", "anna lind"), ("'Anna Lind',", "anna lind")],
        *[("Anna Lind's", "anna lind"), ("‘Anna Lind’s’", "anna lind")],
        *[("ANNA LIND'S", "anna lind"), ("Karl Ii's", "karl ii"), ("James'", "james")],
        ("Children's Hospital", "children's hospital"),
        *[("“Fat Tony” Salerno", 'fat tony" salerno'), ('"Fat Tony" Salerno', 'fat tony" salerno')],
        *[("O‘Neil", "o'neil"), ("U.S.", "u.s"), ("St. Gallen", "st. gallen")],
        *[("Straße", "strasse"), ("Zoe\u0301", "zo\u00e9"), ("İzmir", "i\u0307zmir")],
        *[("ΟΔΟΣ", "οδοσ"), ("The Danube", "danube"), ("the  “Danube”", "danube")],
        *[("The Who", "the who"), ("The", "the"), ("Theodora", "theodora"), ("The A", "the a")],
        *[("📚 Club", "📚 club"), ("שלום עולם", "שלום עולם"), ("نهر النيل.", "نهر النيل")],
        *[("北京", "北京"), ("", ""), (" \n\u3000", ""), ("“...”", ""), ("()", "")],
    ],
)
def test_keys_ignore_how_a_name_is_written(surface: str, key: str) -> None:
    assert entity_key(surface) == key


@pytest.mark.parametrize(
    ("surface", "is_name"),
    [
        *[
            (text, False)
            for text in ("less than seven metres", "a week", "two hours later", "97 km")
        ],
        *[(text, False) for text in ("Half a century", "The next morning", "1,000", "One", "30%")],
        *[(text, True) for text in ("Seven Samurai", "1566", "29 May 1953", "Hundred Years' War")],
        *[(text, True) for text in ("Week End AG", "E-9140", "the Mile End Road", "Second Avenue")],
    ],
)
def test_a_quantity_or_a_time_is_no_name(surface: str, is_name: bool) -> None:
    assert mention_key(surface) == (entity_key(surface) if is_name else "")


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
        *[("Karl Ii's son", ["Karl", "Ii", "'s", "son"]), ("Karl’s son", ["Karl", "'s", "son"])],
        *[("KARL'S SON", ["KARL", "'S", "SON"]), ("O'Neil's hat", ["O'Neil", "'s", "hat"])],
        ("the boys' hats", ["the", "boys", "'", "hats"]),
        ("U.S. and u.s. law", ["U.S", ".", "and", "u.s", ".", "law"]),
        ("co-op St. Gallen", ["co-op", "St", ".", "Gallen"]),
        *[("A&B C/D", ["A", "&", "B", "C", "/", "D"]), ("“Hi”", ['"', "Hi", '"'])],
        ("Zoe\u0301 İzmir i\u0307zmir", ["Zo\u00e9", "İzmir", "i\u0307zmir"]),
        *[("q\u0301-x", ["q\u0301-x"]), ("📚🚀 ok", ["📚", "🚀", "ok"])],
        *[("שלום, עולם", ["שלום", ",", "עולם"]), ("snake_case 3.14", ["snake_case", "3.14"])],
        *[("a\x00b", ["a", "\x00", "b"]), (" \n\t", []), ("", [])],
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
        *[("lisbon", True), ("the reef", True), ("it", False), ("to be", False), ("it's", False)],
        *[("x", False), ("", False), ("42", True)],
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


normal_forms = st.sampled_from(["NFC", "NFKD"])
rows = st.tuples(
    st.text(max_size=3), st.sampled_from("\u0301\u0323\U0001e944ab"), st.integers(0, 70)
)


@given(st.lists(rows, max_size=4), normal_forms)
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


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", []),
        ("The Queen's ships, and Elgar\u2019s", ["the", "queen", "ship", "and", "elgar"]),
        ("Søby ŁEBA Æsop œuvre", ["soby", "leba", "aesop", "oeuvre"]),
        ("Cafe\u0301 CAFÉ ﬁne Straße", ["cafe", "cafe", "fine", "strasse"]),
        ("snake_case utf-8 3.14", ["snake", "case", "utf", "8", "3", "14"]),
        ("東京タワー 2", ["東", "京", "タ", "ワ", "ー", "2"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("\N{RAINBOW}\u200d\x00 \ud800", []),
        (
            "cities horses dishes glass bus gas ladies",
            ["city", "horse", "dishe", "glass", "bus", "gas", "lady"],
        ),
    ],
)
def test_terms(written: str, expected: list[str]) -> None:
    assert terms(written) == expected


STROKES = {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "ð": "d", "ŋ": "n"} | {
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
}
FOLDED = "øŁÆaEsSxZ09 '\u2019-_.ßſİıΣσςéÉ\u0301\u0327\u0345ﬁ北かカﾞ\uac00\u212bᏸꭰǅ½"


@given(st.text(st.sampled_from(FOLDED), max_size=30) | st.text(max_size=30))
def test_words_are_those_of_the_whole_text_folded_at_once(text: str) -> None:
    folded = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(one for one in folded if not unicodedata.combining(one))
    for letter, spelt in STROKES.items():
        plain = plain.replace(letter, spelt)
    plain = re.sub(r"(?<=\w)['\u2019]s\b", "", plain)
    unspaced = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    assert terms(text, "none") == re.findall(rf"[{unspaced}]|[^\W_{unspaced}]+", plain)


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Tell me about moorings.", " moorings."),
        ("Could you explain the winter fares?", " the winter fares?"),
        ("Can I bring a dog?", " I bring a dog?"),
        ("Should ropes be dried?", " ropes be dried?"),
        ("Please list all stages.", " all stages."),
        ("Name the harbour master.", " the harbour master."),
        ("List of harbours", "List of harbours"),
        ("May Whitby won.", "May Whitby won."),
        ("Explain!", "Explain!"),
        ("Who can explain it?", "Who can explain it?"),
    ],
)
def test_a_request_that_starts_a_question_is_none_of_its_words(question: str, rest: str) -> None:
    assert without_request(question) == rest


@pytest.mark.parametrize(
    ("question", "is_german"),
    [
        *[("Wer hat den Schlüssel?", True), ("Was kostet die Fähre nach Föhr im Winter?", True)],
        ("schluessel fuer das lager, wo", True),
        *[("Who was der Alte, and what is die Wende?", False), ("Das Boot", False)],
        *[("was the ferry late in March", False), ("WEM 2031", False), ("?", False)],
    ],
)
def test_a_german_question_is_told_by_its_small_words(question: str, is_german: bool) -> None:
    assert ("der" in german_words(question)) == is_german


@pytest.mark.parametrize(
    ("id_", "text", "kind"),
    [
        ("bank/paid_loans.csv:2", "amount: 400; due: May", "\nloans"),
        ("loans.csv:2", "amount: 400", "\nloans"),
        ("loans-2031.csv:2", "amount: 400; due: May", ""),
        ("loans.md", "amount: 400; due: May", ""),
        ("old/mails.mbox:3", "From: Ada\nTo: Bo\n\nHello", ""),
        ("W:12", "A plain text.", ""),
    ],
)
def test_a_row_is_searched_for_by_what_its_file_is_called(id_: str, text: str, kind: str) -> None:
    assert searched_text(id_, "K-12", text) == f"K-12\n{text}{kind}"


def test_stopwords_are_compared_before_stemming() -> None:
    assert terms("this does it", "s", frozenset(["does"])) == ["thi", "it"]
    assert terms("this does it", "none", frozenset(["does"])) == ["this", "it"]


@given(st.text(st.characters(categories=["Cc", "Cf", "M", "Z"]), max_size=20), st.text(max_size=1))
def test_a_text_is_blank_if_each_of_its_characters_is(unseen: str, last: str) -> None:
    text = unseen + last
    kinds = [unicodedata.category(one) for one in text]
    assert is_blank(text) == all(kind in ("Cc", "Cf") or kind[0] in "MZ" for kind in kinds)


def test_copies_are_told_as_by_every_way_to_leave_words_out() -> None:
    draw, text = random.Random(3), "Open from 9 to 5 at Velm if it is dry. "
    for _ in range(300):
        one = draw.choices("ab", k=draw.randint(0, 12))
        other = draw.choices("ab", k=max(len(one) - draw.randint(0, 2), 0))
        right = len(other) >= 0.9 * len(one) and tuple(other) in combinations(one, len(other))
        assert are_copies(one, other) is are_copies(other, one) is right
    assert are_copies(words := words_as_written(text), words_as_written(f"{text}Exported: 2 May"))
    changes = ("9 8", "Velm Tain", "Velm Velm%", "it it-2", "if unless", "is isn't", "is not")
    for old, new in map(str.split, changes):
        assert not are_copies(words, words_as_written(text.replace(old, new))), new
