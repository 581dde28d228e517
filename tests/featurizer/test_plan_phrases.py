from itertools import combinations

import pytest

from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.plan import dependency_nodes
from wye.featurizer.plan_phrases import (
    APPOSED,
    EMPTY,
    PREPOSITIONS,
    TYPES,
    ParsedSentence,
    descriptions,
    type_of_noun,
)


def sentence(questions: SyntaxParser, text: str) -> ParsedSentence:
    (syntax,) = questions.parse([text])
    return ParsedSentence(syntax.tokens, dependency_nodes(syntax.tokens, 0))


def texts(questions: SyntaxParser, text: str) -> list[str]:
    found = sentence(questions, text)
    spans = [(p.start, p.end) for p in descriptions(found)]
    return [
        text[found.tokens[start].span[0] : found.tokens[end - 1].span[1]] for start, end in spans
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Who wrote The Silent Orchard?", "The Silent Orchard"),
        ('Who sang "I Was Born to Run" first?', '" I Was Born to Run "'),
        ("Where is the director of film Seven (1984 Film) from?", "Seven ( 1984 Film )"),
        ("Who is the wife of the French president?", ""),
        ("who is the director of inception", "inception"),
    ],
)
def test_names_are_found(questions: SyntaxParser, text: str, named: str) -> None:
    found = sentence(questions, text)
    pairs = zip(found.tokens, found.named, strict=True)
    assert " ".join([token.text for token, is_named in pairs if is_named]) == named


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (
            "When did the state where Mount Rainier is located become part of the country?",
            "the state where Mount Rainier is located",
        ),
        ("Who governs the country Tuva Berge is from?", "the country Tuva Berge is from"),
        ("Which country Tuva Berge's father is from?", "Tuva Berge's father"),
        ("What country was the author of Emma a citizen of?", "the author of Emma"),
        ("When was the novel written by Harper Lee published?", "the novel written by Harper Lee"),
    ],
)
def test_phrases_end_before_the_rest_of_the_question(
    questions: SyntaxParser, text: str, phrase: str
) -> None:
    assert texts(questions, text) == [phrase]


@pytest.mark.parametrize(
    "text",
    [
        "Who is known as the founder of Harbour Press?",
        "Who played the mother of Luke in Star Wars?",
        "What is the name of the river in Paris?",
        "When was the University of Lisbon founded?",
    ],
)
def test_what_is_asked_or_said_or_named_is_no_step(questions: SyntaxParser, text: str) -> None:
    assert texts(questions, text) == []


def test_a_noun_has_one_type() -> None:
    assert [one & other for one, other in combinations(TYPES.values(), 2) if one & other] == []
    assert type_of_noun("composer") == "person"
    assert type_of_noun("birthplace") == "place"
    assert type_of_noun("lantern") == "free"
    assert set(PREPOSITIONS) < set(TYPES)


def test_nouns_that_give_a_name_have_a_type_or_are_no_description_anyway() -> None:
    assert not APPOSED & EMPTY
