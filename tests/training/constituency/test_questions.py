from featurizer.constituency.tree import parse_brackets
from training.constituency.questions import make_questions
from training.constituency.treebank import is_question

PROSE = [
    parse_brackets("(ROOT (S (NP (DT the) (NN ferry)) (VP (VBZ waits)) (. .)))"),
    parse_brackets("(ROOT (S (NP (JJ green) (NNS boats)) (VP (VBP float)) (. .)))"),
]


def test_the_same_seed_makes_the_same_questions_and_another_seed_others() -> None:
    first = make_questions(PROSE, 60, seed=3)
    assert first == make_questions(PROSE, 60, seed=3)
    assert first != make_questions(PROSE, 60, seed=4)


def test_each_is_a_different_question_without_slots_left() -> None:
    made = make_questions(PROSE, 300, seed=1)
    assert len(set(made)) == 300
    for tree in made:
        assert tree.label == "ROOT"
        assert is_question(tree)
        assert "<" not in str(tree)
        assert tree.words()[-1] == "?"


def test_no_phrase_stands_alone_under_its_own_label() -> None:
    for tree in make_questions(PROSE, 300, seed=2):
        for node in tree.nodes():
            assert node.is_preterminal or not (
                len(node.children) == 1 and node.children[0].label == node.label
            )
