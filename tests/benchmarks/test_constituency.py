from pathlib import Path

import pytest

from benchmarks import constituency
from featurizer.constituency.tree import parse_brackets

GOLD = "(ROOT (SBARQ (WHNP (WP Who)) (SQ (VP (VBD painted) (NP (DT the) (NNS boats)))) (. ?)))\n"


def test_every_set_is_scored_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dev", "test", "questions-eval"):
        (tmp_path / f"{name}.mrg").write_text(GOLD * 2, encoding="utf-8")
    monkeypatch.setattr(constituency, "own_questions", lambda: {"a": ["Who came?"]})
    monkeypatch.setattr(constituency, "find_spec", lambda name: None)
    assert constituency.main(["--data", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (held_out,) = [line.split() for line in lines if line.startswith("held-out questions")]
    assert held_out[2:] == ["2", "100.0", "100.0", "100.0", ">=82.0", "ok"]
    assert any("Stanza is not installed" in line for line in lines)


def test_a_missing_treebank_or_model_is_a_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert constituency.main(["--data", str(tmp_path)]) == 2
    assert constituency.main(["--data", str(tmp_path), "--model", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "No treebank at" in err
    assert "lacks the file" in err


class Says:
    """A parser with one answer."""

    digest = "none"

    def __init__(self, brackets: str | None) -> None:
        self._tree = parse_brackets(brackets) if brackets else None

    def parse(self, words: object) -> object:
        return self._tree

    def parse_many(self, sentences: list[object]) -> list[object]:
        return [self._tree for _ in sentences]


def test_agreement_counts_equal_trees() -> None:
    one, other, none = Says("(ROOT (NP (NN a)))"), Says("(ROOT (X (NN a)))"), Says(None)
    sentences = [[("a", "NN")]] * 3
    assert constituency.agreement(one, one, sentences) == 3  # type: ignore[arg-type]
    assert constituency.agreement(one, other, sentences) == 0  # type: ignore[arg-type]
    assert constituency.agreement(none, none, sentences) == 3  # type: ignore[arg-type]
