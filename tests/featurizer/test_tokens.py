from itertools import pairwise

import pytest

from featurizer.spacy_parser import SpacyParser
from featurizer.types import Parse


def parsed(parser: SpacyParser, text: str) -> Parse:
    (parse,) = parser.parse_questions([text], tokens=True)
    return parse


def test_tokens_of_a_question(parser: SpacyParser) -> None:
    parse = parsed(parser, "Who painted the boats in Lisbon?")
    assert [token.text for token in parse.tokens] == [
        *("Who", "painted", "the", "boats", "in", "Lisbon", "?")
    ]
    assert [token.tag for token in parse.tokens] == ["WP", "VBD", "DT", "NNS", "IN", "NNP", "."]
    boats = parse.tokens[3]
    assert (boats.lemma, boats.pos, boats.dep) == ("boat", "NOUN", "dobj")
    assert parse.tokens[boats.head].text == "painted"
    assert parse.tokens[1].head == 1
    assert [t.text for t in parse.tokens if t.entity] == ["Lisbon"]
    assert parse.tokens[5].begins_entity
    assert parse.token_sentences == ((0, 7),)
    for token in parse.tokens:
        assert parse.text[slice(*token.span)] == token.text


@pytest.mark.parametrize(
    "text", ["  Who  came ?\n\nWho\tleft? ", "Who \n came", " a  b  c ", "\u2003x\u2003y"]
)
def test_white_space_is_no_token(parser: SpacyParser, text: str) -> None:
    parse = parsed(parser, text)
    assert "".join(token.text for token in parse.tokens) == "".join(text.split())
    assert all(0 <= token.head < len(parse.tokens) for token in parse.tokens)
    ranges = parse.token_sentences
    assert ranges[0][0] == 0
    assert ranges[-1][1] == len(parse.tokens)
    assert all(one[1] == other[0] for one, other in pairwise(ranges))


def test_every_token_has_one_root_above_it(parser: SpacyParser) -> None:
    for text in ("Who  (the \n mayor) built  it ?", "\n\n what\n is \n\n it"):
        tokens = parsed(parser, text).tokens
        for place in range(len(tokens)):
            way = [place]
            while tokens[way[-1]].head != way[-1]:
                way.append(tokens[way[-1]].head)
                assert len(way) <= len(tokens)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_white_space_alone_has_no_sentence(parser: SpacyParser, text: str) -> None:
    parse = parsed(parser, text)
    assert (parse.tokens, parse.token_sentences) == ((), ())


def test_tokens_are_there_when_asked_for(parser: SpacyParser) -> None:
    assert parser.parse_questions(["Who came?"])[0].tokens == ()
    assert parser.parse(["Who came?"])[0].tokens == ()
