from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.featurizer.conftest import Maker
from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.parser import (
    DEFAULT_MODEL,
    MODEL_FILE,
    MODELS,
    SENTENCE_TOKENS,
    ConstituencySettings,
    SyntaxParser,
    locate,
)
from wye.featurizer.constituency.tree import Tree, flat_tree, parse_brackets
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.parser import QUESTION_CHARACTERS, QUESTION_TOKENS, SpacyParser
from wye.featurizer.types import Syntax


def test_a_model_is_found_by_name_as_folder_and_as_file(make_model: Maker, tmp_path: Path) -> None:
    assert locate(ConstituencySettings()) == MODELS / DEFAULT_MODEL / MODEL_FILE
    model = make_model()
    assert locate(ConstituencySettings(str(model))) == model
    model = model.rename(tmp_path / MODEL_FILE)
    assert locate(ConstituencySettings(str(tmp_path))) == model


@pytest.mark.parametrize("name", ["none", "/none/at/all", "none/model.pt"])
def test_missing_files_are_named_with_a_way_out(name: str) -> None:
    with pytest.raises(ModelError, match=rf"'{name}' has no file .*WYE_ANALYSER__CONSTITUENCY"):
        locate(ConstituencySettings(name))


ODD = {
    "nothing": "",
    "white space": " \n\t ",
    "punctuation": "?!... -- ()",
    "other scripts": "谁建造了灯塔\uff1f Кто построил маяк? من بنى المنارة؟ 등대를 누가 지었나요?",
    "no letters": "12 + 30 = 42? 😀😀",
    "several sentences": "Who built it? When? And is it true that it still stands?",
    "10,000 characters": "Who built the lighthouse at the mouth of the river? " * 193,
    "10,000 characters in one sentence": "Who built the boat " + "and the boat " * 770 + "?",
    "a word of 10,000 letters": "a" * 10_000,
    "10,000 question marks": "?" * 10_000,
    "a megabyte": "where " * 175_000,
    "a megabyte without a space": "é" * 1_048_576,
    "odd characters": "Who\x00 is \u202e\ud7ff\uffff (she)? -LRB- [it] \u00a0\u00a0.",
}


class Nothing(Decoder):
    def __init__(self) -> None:
        self.digest = "none"

    def parse(self, words: Sequence[tuple[str, str]]) -> Tree | None:
        return None


def check(syntax: Syntax) -> None:
    """Every token is in one sentence, and each tree stands over its sentence's tokens."""
    assert len(syntax.trees) == len(syntax.sentences)
    places = [position for start, end in syntax.sentences for position in range(start, end)]
    assert places == list(range(len(syntax.tokens)))
    for (start, end), tree in zip(syntax.sentences, syntax.trees, strict=True):
        assert tree.label == "ROOT"
        tokens = [(token.text, token.tag) for token in syntax.tokens[start:end]]
        assert list(tree.tagged_words()) == tokens
        assert all(start <= token.head < end for token in syntax.tokens[start:end])
    assert len(syntax.tokens) <= QUESTION_TOKENS


@pytest.mark.parametrize("name", ODD)
def test_whatever_is_asked_has_a_syntax(questions: SyntaxParser, name: str) -> None:
    text = ODD[name]
    (syntax,) = questions.parse([text])
    check(syntax)
    read, whole = "".join(token.text for token in syntax.tokens), "".join(text.split())
    assert whole.startswith(read)
    assert len(read) <= QUESTION_CHARACTERS
    assert read == whole or len(text) > QUESTION_CHARACTERS or len(syntax.tokens) == QUESTION_TOKENS


def test_a_tree_is_over_the_parses_own_tokens(questions: SyntaxParser) -> None:
    (syntax,) = questions.parse(["Who painted the boats? Where?"])
    assert syntax.sentences == ((0, 5), (5, 7))
    assert syntax.trees[0] == parse_brackets(
        "(ROOT (SBARQ (WHNP (WP Who)) (SQ (VP (VBD painted) (NP (DT the) (NNS boats)))) (. ?)))"
    )


def test_a_question_alone_has_the_syntax_it_has_in_a_batch(questions: SyntaxParser) -> None:
    texts = [text for text in ODD.values() if len(text) < 20_000]
    together = questions.parse(texts)
    assert together == [questions.parse([text])[0] for text in texts]
    assert together[::-1] == questions.parse(texts[::-1])
    assert questions.parse([]) == []
    assert questions.parse(["", " \n"]) == [Syntax((), ())] * 2


def test_a_sentence_that_is_too_long_alone_gets_a_flat_tree(questions: SyntaxParser) -> None:
    long = "Who built the boat " + "and the boat " * SENTENCE_TOKENS + "?"
    short, both = questions.parse(["Who came?", f"Who came? {long}"])
    assert both.trees[0] == short.trees[0]
    assert "X" in [tree.children[0].label for tree in both.trees[1:]]


def test_a_sentence_for_which_there_is_no_tree_gets_a_flat_one(parser: SpacyParser) -> None:
    (syntax,) = SyntaxParser(parser, Nothing()).parse(["Who came?"])
    check(syntax)
    assert syntax.trees == (parse_brackets("(ROOT (X (WP Who) (VBD came) (. ?)))"),)
    assert str(flat_tree([("It", "PRP"), ("(", "-LRB-")])) == "(ROOT (X (PRP It) (-LRB- -LRB-)))"


def test_the_fingerprint_is_that_of_both_models(questions: SyntaxParser) -> None:
    assert set(questions.fingerprint) == {"parser", "constituency", "syntax"}
    assert questions.fingerprint["parser"].startswith("en_core_web_sm")
