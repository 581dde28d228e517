"""Noun phrases in their normal form, from tokens tagged by hand and from the pipeline."""

import pytest
import spacy
from spacy.tokens import Doc

from featurizer.spacy_parser import MAX_WORDS, SpacyParser, noun_phrase_key

VOCABULARY = spacy.blank("en").vocab
Word = tuple[str, str, str, str]  # text, part of speech, tag, lemma
THE = ("The", "DET", "DT", "the")
OLD = ("old", "ADJ", "JJ", "old")
STONE = ("Stone", "NOUN", "NN", "stone")
BRIDGES = ("Bridges", "NOUN", "NNS", "bridge")
ANNA = ("Anna", "PROPN", "NNP", "Anna")
OWN = ("'s", "PART", "POS", "'s")
HER = ("her", "PRON", "PRP$", "her")
SHE = ("She", "PRON", "PRP", "she")
COMMA = (",", "PUNCT", ",", ",")
GAP = ("\n", "SPACE", "_SP", "\n")


def key(*words: Word) -> str:
    """Of these words as one noun chunk whose last word is its head."""
    texts, pos, tags, lemmas = ([word[i] for word in words] for i in range(4))
    head = len(words) - 1
    doc = Doc(
        VOCABULARY,
        words=texts,
        pos=pos,
        tags=tags,
        lemmas=lemmas,
        heads=[head] * len(words),
        deps=["dep"] * head + ["ROOT"],
    )
    return noun_phrase_key(doc[:])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([BRIDGES], "bridge"),
        ([THE, OLD, BRIDGES], "old bridge"),
        ([THE, STONE, BRIDGES], "stone bridge"),
        # Only the head is lemmatised.
        ([BRIDGES, STONE], "bridges stone"),
        ([ANNA, OWN, OLD, BRIDGES], "anna old bridge"),
        ([HER, OLD, BRIDGES], "old bridge"),
        ([OLD, COMMA, STONE, GAP, BRIDGES], "old stone bridge"),
        ([ANNA], "anna"),
        ([SHE], ""),
        ([THE], ""),
        ([COMMA], ""),
    ],
)
def test_determiners_pronouns_and_signs_are_dropped_and_the_head_is_lemmatised(
    words: list[Word], expected: str
) -> None:
    assert key(*words) == expected


def test_at_most_so_many_words_are_kept() -> None:
    assert key(THE, *[OLD] * (MAX_WORDS - 1), BRIDGES) == "old " * (MAX_WORDS - 1) + "bridge"
    assert key(THE, *[OLD] * MAX_WORDS, BRIDGES) == ""


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("The stone bridges cross a wide river.", ["stone bridge", "wide river"]),
        ("A wide river is crossed by stone bridges.", ["wide river", "stone bridge"]),
        ("She gave it to them.", []),
        ("", []),
    ],
)
def test_the_same_phrase_has_the_same_key_wherever_it_stands(
    parser: SpacyParser, text: str, keys: list[str]
) -> None:
    (parse,) = parser.parse([text])
    assert [phrase.key for phrase in parse.phrases] == keys
