"""Trees, their transitions, and the units that are counted in them."""

import json
from pathlib import Path

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
from wye.featurizer.constituency.units import UNITS, count_units
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


@pytest.mark.parametrize("text", ["", "(S", "(S (N a)) (S (N b))", "a", "(S)", "(S (NN a)))", ")"])
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
        *[((), CLOSE), ((), NP), ((SHIFT,), SHIFT), ((SHIFT,), CLOSE), ((SHIFT,), ROOT)],
        *[((SHIFT, NP), S), ((SHIFT, S, SHIFT), ROOT), ((SHIFT, S, SHIFT, CLOSE), SHIFT)],
        ((SHIFT, NP, CLOSE, NP, CLOSE, NP), CLOSE),
    ],
)
def test_steps_to_nowhere_are_illegal(steps: tuple[Transition, ...], illegal: Transition) -> None:
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


ORACLE = Path(__file__).parents[3].parent / "shared" / "data" / "l2sca_oracle.jsonl"
FIELDS = {
    "W": "words",
    "S": "sentences",
    "VP": "verb_phrases",
    "C": "clauses",
    "T": "t_units",
    "DC": "dependent_clauses",
    "CT": "complex_t_units",
    "CP": "coordinate_phrases",
    "CN": "complex_nominals",
}
NO_UNITS = dict.fromkeys(UNITS, 0)


def units(*brackets: str) -> dict[str, int]:
    return count_units([parse_brackets(text) for text in brackets])


@pytest.mark.skipif(not ORACLE.is_file(), reason="the oracle's trees are not on this machine")
def test_every_count_agrees_with_the_published_patterns() -> None:
    wrong = []
    lines = ORACLE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        expected = json.loads(line)
        result = units(expected["tree"])
        ours = {name: result[FIELDS[name]] for name in set(FIELDS) - {"W"}}
        if ours != expected["counts"]:
            wrong.append((number, ours, expected["counts"]))
    assert len(lines) == 700
    assert wrong == []


CLAUSE = "(S (NP (PRP she)) (VP (VBD rowed)))"
OTHER = "(S (NP (PRP he)) (VP (VBD sang)))"
COUNTED = {
    "a plain clause": ("(S (NP (NNS Rivers)) (VP (VBP flow)) (. .))", "2 W, 1 S, 1 C, 1 T, 1 VP"),
    "an imperative at the root is a clause": (
        "(S (VP (VB Fold) (NP (DT the) (NN map))))",
        "3 W, 1 S, 1 C, 1 T, 1 VP",
    ),
    "an imperative elsewhere is none": (
        "(NP (NN time) (S (VP (VB fold) (NP (DT the) (NN map)))))",
        "4 W, 1 S, 1 VP, 1 CN",
    ),
    "a question with an inverted copula has a clause and a verb phrase": (
        "(SBARQ (WHADVP (WRB Where)) (SQ (VBZ is) (NP (DT the) (NN ferry))) (. ?))",
        "4 W, 1 S, 1 C, 1 T, 1 VP",
    ),
    "an auxiliary before the subject adds no verb phrase": (
        "(SQ (VBD Did) (NP (NNP Ines)) (VP (VB row)) (. ?))",
        "3 W, 1 S, 1 C, 1 T, 1 VP",
    ),
    "a relative clause makes the T-unit complex and the nominal too": (
        "(S (NP (NP (DT the) (NN baker)) (SBAR (WHNP (WP who)) (S (VP (VBD sang)))))"
        " (VP (VBD left)))",
        "5 W, 1 S, 2 C, 1 DC, 1 T, 1 CT, 1 CN, 2 VP",
    ),
    "coordinated main clauses are two T-units beside the whole": (
        f"(S {CLAUSE} (CC and) {OTHER})",
        "5 W, 1 S, 2 C, 2 T, 2 VP",
    ),
    "clauses coordinated under a subordinator are no T-units": (
        f"(S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) (S {CLAUSE} (CC and) {OTHER}))))",
        "8 W, 1 S, 3 C, 1 T, 1 CN, 3 VP",
    ),
    "coordination under a verb phrase head": (
        "(S (NP (PRP she)) (VP (VP (VBD rowed)) (CC and) (VP (VBD sang))))",
        "4 W, 1 S, 1 C, 1 T, 1 CP, 1 VP",
    ),
    "a fragment is a clause and a T-unit when it holds none": (
        "(FRAG (ADVP (RB Perhaps)) (. .))",
        "1 W, 1 S, 1 C, 1 T",
    ),
    "a fragment around a clause": (f"(FRAG (INTJ (UH Well)) {CLAUSE})", "3 W, 1 S, 1 C, 1 T, 1 VP"),
    "hyphens, brackets and money signs are no words": (
        "(NP (-LRB- -LRB-) (NN x) (HYPH -) (PRP$ my) ($ $))",
        "2 W, 1 S",
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_units_of_a_sentence(name: str) -> None:
    tree, counts = COUNTED[name]
    pairs = (count.split() for count in counts.split(", "))
    expected = {FIELDS[unit]: int(number) for number, unit in pairs}
    assert units(f"(ROOT {tree})") == {**NO_UNITS, **expected}


ASKED = "(SBAR (WHNP (WP what)) (S (NP (PRP she)) (VP (VBD rowed))))"


@pytest.mark.parametrize(
    ("tree", "complex_nominals"),
    [
        ("(NP (JJ red) (NN paint))", 1),
        ("(NP (NP (DT the) (NN lid)) (PP (IN of) (NP (NN tin))))", 1),
        ("(NP (NP (NNP Ines) (POS 's)) (NN boat))", 1),
        ("(NP (NP (NNP Ines)) (, ,) (NP (DT a) (NN baker)))", 1),
        ("(NP (NP (DT a) (NN boat)) (CC and) (NP (DT a) (NN map)))", 1),
        ("(NP (VBG running) (NN water))", 1),
        ("(NP (DT the) (NN lid))", 0),
        ("(NP (NN S))", 0),
        ("(NP (PRP it))", 0),
        # Clauses count as subject or object of a verb, not as adverbs.
        (f"(S {ASKED} (VP (VBD sank)))", 1),
        (f"(S (NP (PRP he)) (VP (VBD saw) {ASKED}))", 1),
        (f"(S (NP (PRP he)) (VP (VBD sang) (SBAR (IN while) {CLAUSE})))", 0),
        ("(S (S (VP (VBG rowing))) (VP (VBZ tires) (NP (PRP her))))", 1),
    ],
)
def test_modified_nouns_and_nominal_clauses_are_complex(tree: str, complex_nominals: int) -> None:
    assert units(f"(ROOT {tree})")["complex_nominals"] == complex_nominals


def test_sentences_add_up_and_nothing_counts_as_nothing() -> None:
    assert units(f"(ROOT {CLAUSE})", f"(ROOT {CLAUSE})")["clauses"] == 2
    assert units() == NO_UNITS
