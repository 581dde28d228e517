import pytest

from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.plan_parts import parts
from wye.featurizer.plan_phrases import ParsedSentence


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        (
            "Which film is older, {A Song of the Sea} or {Red Roses, Red Wine}?",
            "comparison",
            "work",
        ),
        ("Which writer is older, {Ada Berge}, {Emily Holm} or {Ida Lund}?", "comparison", "person"),
        ("Are both towns, {Pale Harbour} and {Grey Harbour}, in Ohio?", "comparison", "place"),
        ("Does {Ada Berge} have the same nationality as {Ida Lund}?", "comparison", "person"),
        ("Who was born first out of {Ada Berge} and {Ida Lund}?", "comparison", "person"),
        ("Who {was born in Oslo} and {directed Winter Lantern}?", "intersection", "person"),
        ("Which actor starred in both {Titanic} and {Inception}?", "intersection", "person"),
    ],
)
def test_parts_stand_side_by_side(
    questions: SyntaxParser, text: str, kind: str, wanted: str
) -> None:
    plain = text.replace("{", "").replace("}", "")
    (syntax,) = questions.parse([plain])
    found = parts(ParsedSentence(syntax.tokens, syntax.trees[0]))
    marked = plain
    for part in reversed(found):
        start, end = syntax.tokens[part.start].span[0], syntax.tokens[part.end - 1].span[1]
        marked = f"{marked[:start]}{{{marked[start:end]}}}{marked[end:]}"
    assert marked == text
    assert {part.kind for part in found} == {kind}
    assert {part.wanted for part in found} == {wanted}


@pytest.mark.parametrize(
    "text",
    [
        "Who composed Romeo and Juliet?",
        "Who wrote Pride and Prejudice?",
        "When did Norway and Sweden part?",
        "Norway and Sweden",
    ],
)
def test_what_belongs_together_has_no_parts(questions: SyntaxParser, text: str) -> None:
    (syntax,) = questions.parse([text])
    assert parts(ParsedSentence(syntax.tokens, syntax.trees[0])) == []
