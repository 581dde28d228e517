import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from wye.featurizer.constituency.checkpoint import VECTORS, read_safetensors
from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.constituency.tree import parse_brackets
from wye.training import constituency
from wye.training.errors import TrainingError

SHIPPED = Path(__file__).parents[2] / "models/constituency-en-gum"
GOLD = parse_brackets("(ROOT (S (NP (DT the) (NN ferry)) (VP (VBZ waits)) (. .)))")
FLAT = parse_brackets("(ROOT (S (NP (DT the) (NN ferry)) (VBZ waits) (. .)))")


def test_f1_is_over_the_phrases_of_the_whole_corpus() -> None:
    assert dict(constituency.brackets(GOLD)) == {("S", 0, 3): 1, ("NP", 0, 2): 1, ("VP", 2, 3): 1}
    assert constituency.brackets(parse_brackets("(ROOT (NP (NP (NN rain))))"))["NP", 0, 1] == 2
    assert constituency.score([(FLAT, GOLD), (GOLD, GOLD)]) == pytest.approx(100 * 10 / 11)
    assert constituency.score([]) == 0


def test_a_manifest_says_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 1")
    shutil.copy(SHIPPED / MODEL_FILE, tmp_path)
    constituency.write_manifest(
        tmp_path, constituency.Recipe(seed=3), {"test": 80.001}, "tagger 1.0"
    )
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    shipped = json.loads((SHIPPED / "manifest.json").read_text())
    assert manifest["files"] == shipped["files"]
    assert (manifest["recipe"]["seed"], manifest["recipe"]["hidden_size"]) == (3, 224)
    assert (manifest["epoch"], manifest["tagger"]) == (shipped["epoch"], "tagger 1.0")
    assert manifest["bracket_f1"] == {"test": 80.0}


QUESTION = parse_brackets("(ROOT (SBARQ (WHADVP (WRB Where)) (SQ (VBZ is) (NP (NNP Oslo))) (. ?)))")


def test_retagging_keeps_words_and_phrases() -> None:
    changed = constituency.retag(QUESTION, ["A", "B", "C", "D"])
    assert [tag for _, tag in changed.tagged_words()] == ["A", "B", "C", "D"]
    assert changed.words() == QUESTION.words()


def test_a_treebank_has_one_tree_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text(f"{QUESTION}\n\n{QUESTION}\n")
    assert constituency.read_trees(tmp_path / "a.mrg") == [QUESTION, QUESTION]
    with pytest.raises(TrainingError, match="No treebank"):
        constituency.read_trees(tmp_path / "b.mrg")


def test_paths_and_personal_words_stay_behind(tmp_path: Path) -> None:
    words = ["+1 555 0100 200", "@someone", "boat", "www.example.org", "year"]
    rows = torch.arange(7.0).unsqueeze(1)
    params = {
        "model": {"delta_embedding.weight": rows, "delta_tensors": torch.arange(7)},
        "words": words,
        "rare_words": ["boat"],
        "config": {"save_dir": "/somewhere", "wordvec_pretrain_file": "/somewhere/vectors.pt"},
    }
    torch.save({"params": params, "best_epoch": 3}, tmp_path / "in.pt")
    vectors = np.array([[0.5], [2]], np.float16)
    constituency.save_vectors(["<PAD>", "boat"], vectors, tmp_path / "vectors.pt")
    constituency.export(tmp_path / "in.pt", tmp_path / "vectors.pt", tmp_path / "out.safetensors")
    files = read_safetensors(tmp_path / "out.safetensors")
    written = files.content["params"]
    assert written["words"] == ["boat", "year"]
    assert files.tensors["delta_embedding.weight"].flatten().tolist() == [0, 1, 4, 6]
    assert written["config"]["wordvec_pretrain_file"] == "vectors.pt"
    assert written["config"]["save_dir"] == ""
    assert written["rare_words"] == []
    assert (files.words, files.lower) == (["<PAD>", "boat"], True)
    assert files.tensors[VECTORS].dtype == np.float16
    assert files.tensors[VECTORS].tolist() == vectors.tolist()
    assert files.content["best_epoch"] == 3


def test_stanza_understands_every_argument() -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    from stanza.models import constituency_parser  # noqa: PLC0415

    args = constituency_parser.parse_args(
        constituency.Recipe(batch=48).stanza_arguments("v.pt", "folder")
    )
    assert args["train_batch_size"] == 48
    assert args["multistage"] is False
    assert args["retag_package"] is None
    assert args["rare_word_unknown_frequency"] == 0.25
