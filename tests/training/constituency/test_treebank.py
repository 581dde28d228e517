from pathlib import Path

import pytest

from wye.featurizer.constituency.tree import parse_brackets
from wye.training.constituency.treebank import is_question, read_trees, retag
from wye.training.errors import TrainingError

QUESTION = parse_brackets("(ROOT (SBARQ (WHADVP (WRB Where)) (SQ (VBZ is) (NP (NNP Oslo))) (. ?)))")


def test_retagging_keeps_words_and_phrases() -> None:
    changed = retag(QUESTION, ["A", "B", "C", "D"])
    assert [tag for _, tag in changed.tagged_words()] == ["A", "B", "C", "D"]
    assert changed.words() == QUESTION.words()


def test_questions_are_told_by_their_nodes() -> None:
    assert is_question(QUESTION)
    assert not is_question(parse_brackets("(ROOT (NP (NN rain)))"))


def test_a_treebank_has_one_tree_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text(f"{QUESTION}\n\n{QUESTION}\n")
    assert read_trees(tmp_path / "a.mrg") == [QUESTION, QUESTION]
    with pytest.raises(TrainingError, match="No treebank"):
        read_trees(tmp_path / "b.mrg")
