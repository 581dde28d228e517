import hashlib
import json
from pathlib import Path

import pytest

from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.constituency.tree import parse_brackets
from wye.training.constituency.evaluation import (
    BracketScore,
    ModelEvaluation,
    brackets,
    score,
    write_card,
)
from wye.training.constituency.recipe import Recipe

GOLD = parse_brackets("(ROOT (S (NP (DT the) (NN ferry)) (VP (VBZ waits)) (. .)))")
FLAT = parse_brackets("(ROOT (S (NP (DT the) (NN ferry)) (VBZ waits) (. .)))")


def test_root_tags_and_punctuation_are_not_scored() -> None:
    assert dict(brackets(GOLD)) == {("S", 0, 3): 1, ("NP", 0, 2): 1, ("VP", 2, 3): 1}


def test_chains_of_one_label_count_as_often_as_they_stand() -> None:
    twice = parse_brackets("(ROOT (NP (NP (NN rain))))")
    assert brackets(twice)["NP", 0, 1] == 2


def test_f1_is_over_the_whole_corpus() -> None:
    result = score([(FLAT, GOLD), (GOLD, GOLD)])
    assert result == BracketScore(matched=5, predicted=5, gold=6, exact=1, sentences=2)
    assert result.precision == 100
    assert result.recall == pytest.approx(100 * 5 / 6)
    assert result.f1 == pytest.approx(100 * 10 / 11)


def test_nothing_scores_nothing() -> None:
    empty = score([])
    assert (empty.precision, empty.recall, empty.f1) == (0, 0, 0)


def test_card_and_manifest_say_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 1")
    out = tmp_path / "constituency-xx"
    out.mkdir()
    (out / MODEL_FILE).write_bytes(b"weights" * 100_000)
    evaluation = ModelEvaluation({"test": BracketScore(8, 10, 10, 1, 4)}, 12)
    write_card(out, Recipe(seed=3), evaluation, "xx_tagger 1.0")
    card = (out / "CARD.md").read_text()
    assert "| test | 4 | 80.0 | 80.0 | 80.0 | 25.0 % |" in card
    assert "0.7 MB" in card
    assert "xx_tagger 1.0" in card
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"] == {MODEL_FILE: hashlib.sha256(b"weights" * 100_000).hexdigest()}
    assert manifest["recipe"]["seed"] == 3
    assert manifest["epoch"] == 12
    assert manifest["bracket_f1"] == {"test": 80.0}
    assert str(tmp_path) not in card + json.dumps(manifest)
