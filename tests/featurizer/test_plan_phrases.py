import pytest

from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.plan_phrases import ParsedSentence, descriptions, flattened
from wye.featurizer.types import Syntax


def sentence(questions: SyntaxParser, text: str) -> ParsedSentence:
    (syntax,) = questions.parse([text])
    return ParsedSentence(syntax.tokens, syntax.trees[0])


def texts(questions: SyntaxParser, text: str) -> list[str]:
    found = sentence(questions, text)
    spans = [(p.start, p.end) for p in descriptions(found)]
    return [
        text[found.tokens[start].span[0] : found.tokens[end - 1].span[1]] for start, end in spans
    ]


def test_nodes_lie_over_the_tokens(chain: Syntax) -> None:
    (tree,) = chain.trees
    nodes = flattened(tree)
    assert [node.label for node in nodes] == [n.label for n in tree.nodes() if not n.is_leaf]
    assert (nodes[0].start, nodes[0].end) == (0, len(chain.tokens))
    for node in nodes:
        assert [child.end for child in node.children[:-1]] == [
            child.start for child in node.children[1:]
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
        "When was the novel written by Harper Lee?",
        "Who is known as the founder of Harbour Press?",
        "Who played the mother of Luke in Star Wars?",
        "What is the name of the river in Paris?",
        "When was the University of Lisbon founded?",
    ],
)
def test_what_is_asked_or_said_or_named_is_no_step(questions: SyntaxParser, text: str) -> None:
    assert texts(questions, text) == []
