import hashlib
import json
from pathlib import Path

import pytest

from training.constituency.brackets import BracketScore
from training.constituency.card import write_card
from training.constituency.judge import MODEL, VECTORS, Judgement
from training.constituency.recipe import Recipe


def test_card_and_manifest_say_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 1")
    out = tmp_path / "constituency-xx"
    out.mkdir()
    (out / MODEL).write_bytes(b"weights")
    (out / VECTORS).write_bytes(b"vectors")
    judgement = Judgement({"test": BracketScore(8, 10, 10, 1, 4)}, 0.25, 1.5, 9.96, 12)
    write_card(out, Recipe(seed=3), judgement, "xx_tagger 1.0")
    card = (out / "CARD.md").read_text()
    assert "| test | 4 | 80.0 | 80.0 | 80.0 | 25.0 % |" in card
    assert "10.0 MB" in card
    assert "xx_tagger 1.0" in card
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"][MODEL] == hashlib.sha256(b"weights").hexdigest()
    assert manifest["recipe"]["seed"] == 3
    assert manifest["epoch"] == 12
    assert manifest["bracket_f1"] == {"test": 80.0}
    assert str(tmp_path) not in card + json.dumps(manifest)
