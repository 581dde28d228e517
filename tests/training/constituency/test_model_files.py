from pathlib import Path

import numpy as np
import pytest
import torch

from wye.featurizer.constituency.checkpoint import VECTORS, read_safetensors
from wye.training.constituency.model_files import Recipe, export, save_vectors


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
    save_vectors(["<PAD>", "boat"], vectors, tmp_path / "vectors.pt")
    export(tmp_path / "in.pt", tmp_path / "vectors.pt", tmp_path / "out.safetensors")
    found = read_safetensors(tmp_path / "out.safetensors")
    written = found.content["params"]
    assert written["words"] == ["boat", "year"]
    assert found.tensors["delta_embedding.weight"].flatten().tolist() == [0, 1, 4, 6]
    assert written["config"]["wordvec_pretrain_file"] == "vectors.pt"
    assert written["config"]["save_dir"] == ""
    assert written["rare_words"] == []
    assert (found.words, found.lower) == (["<PAD>", "boat"], True)
    assert found.tensors[VECTORS].dtype == np.float16
    assert found.tensors[VECTORS].tolist() == vectors.tolist()
    assert found.content["best_epoch"] == 3


def test_stanza_understands_every_argument() -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    from stanza.models import constituency_parser  # noqa: PLC0415

    args = constituency_parser.parse_args(Recipe(batch=48).stanza_arguments("v.pt", "folder"))
    assert args["train_batch_size"] == 48
    assert args["multistage"] is False
    assert args["retag_package"] is None
    assert args["rare_word_unknown_frequency"] == 0.25
