import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.featurizer.constituency.tree import (
    CLOSE,
    SHIFT,
    ParserState,
    Transition,
    Tree,
    parse_brackets,
)
from wye.featurizer.errors import TreeError

words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6)
labels = st.sampled_from(["S", "NP", "VP", "-LRB-", "PRP$"])
trees = st.recursive(
    st.builds(lambda tag, word: Tree(tag, (Tree(word),)), labels, words),
    lambda below: st.builds(Tree, labels, st.lists(below, min_size=1, max_size=4).map(tuple)),
    max_leaves=12,
)


@given(trees)
def test_what_is_written_is_read_again(tree: Tree) -> None:
    # A word that is spelled like an escape is read as what the escape stands for.
    plain = str(tree)
    assert str(parse_brackets(plain)) == plain
    if not any("-" in word or "(" in word or ")" in word for word in tree.words()):
        assert parse_brackets(plain) == tree


def test_parentheses_are_escaped_as_words_and_kept_as_tags() -> None:
    tree = Tree("NP", (Tree("-LRB-", (Tree("("),)), Tree("NN", (Tree("a b"),))))
    assert str(tree) == "(NP (-LRB- -LRB-) (NN a_b))"
    assert parse_brackets("(NP (-LRB- -LRB-) (NN ab))").words() == ("(", "ab")


def test_words_tags_and_nodes_come_in_the_order_of_the_text() -> None:
    tree = parse_brackets("(ROOT (S (NP (PRP it)) (VP (VBZ rains))))")
    assert tree.words() == ("it", "rains")
    assert tree.tagged_words() == (("it", "PRP"), ("rains", "VBZ"))
    assert [node.label for node in tree.nodes()][:4] == ["ROOT", "S", "NP", "PRP"]


def test_penn_treebank_files_have_an_outer_bracket_without_a_label() -> None:
    assert parse_brackets("( (S (NN a)))").label == "ROOT"


def test_nesting_deeper_than_pythons_stack() -> None:
    deep = parse_brackets("(S " * 5000 + "(NN a)" + ")" * 5000)
    assert str(deep).count("(S ") == 5000


@pytest.mark.parametrize(
    "text", ["", "(S", "(S (NN a)) (S (NN b))", "a", "(S)", "(S (NN a)))", ")"]
)
def test_other_strings_are_refused(text: str) -> None:
    with pytest.raises(TreeError):
        parse_brackets(text)


NP, S, ROOT = (Transition("open", (label,)) for label in ("NP", "S", "ROOT"))
SENTENCE = (("boats", "NNS"), ("float", "VBP"))


def state_after(*steps: Transition) -> ParserState:
    state = ParserState(SENTENCE, frozenset({"ROOT"}), unary_limit=2)
    for step in steps:
        assert state.is_legal(step), step
        state.apply(step)
    return state


def test_a_derivation_builds_its_tree_when_the_root_is_closed() -> None:
    state = state_after(SHIFT, NP, CLOSE, S, SHIFT, CLOSE, ROOT, CLOSE)
    assert str(state.tree) == "(ROOT (S (NP (NNS boats)) (VBP float)))"
    assert state_after(SHIFT, S, SHIFT, CLOSE).tree is None
    assert state_after(SHIFT, S, SHIFT, CLOSE, ROOT).tree is None


@pytest.mark.parametrize(
    ("steps", "illegal"),
    [
        ((), CLOSE),
        ((), NP),
        ((SHIFT,), SHIFT),
        ((SHIFT,), CLOSE),
        ((SHIFT,), ROOT),
        ((SHIFT, NP), S),
        ((SHIFT, S, SHIFT), ROOT),
        ((SHIFT, S, SHIFT, CLOSE), SHIFT),
        ((SHIFT, NP, CLOSE, NP, CLOSE, NP), CLOSE),
    ],
)
def test_steps_that_lead_nowhere_are_illegal(
    steps: tuple[Transition, ...], illegal: Transition
) -> None:
    assert not state_after(*steps).is_legal(illegal)


def test_a_phrase_of_several_labels_is_a_chain() -> None:
    both = Transition("open", ("S", "VP"))
    state = state_after(SHIFT, both, SHIFT, CLOSE, ROOT, CLOSE)
    assert str(state.tree) == "(ROOT (S (VP (NNS boats) (VBP float))))"


def test_transitions_are_read_as_checkpoints_spell_them() -> None:
    assert Transition.from_repr("Shift") == SHIFT
    assert Transition.from_repr("CloseConstituent") == CLOSE
    assert Transition.from_repr("OpenConstituent(('NP',))") == NP
    with pytest.raises(ValueError, match="malformed"):
        Transition.from_repr("Finalize('ROOT')")
