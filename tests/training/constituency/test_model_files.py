from pathlib import Path

import torch

from training.constituency.model_files import export


def test_paths_and_personal_words_stay_behind(tmp_path: Path) -> None:
    words = ["+1 555 0100 200", "@someone", "boat", "www.example.org", "year"]
    rows = torch.arange(7.0).unsqueeze(1)
    params = {
        "model": {"delta_embedding.weight": rows, "delta_tensors": torch.arange(7)},
        "words": words,
        "rare_words": ["boat"],
        "config": {"save_dir": "/somewhere", "wordvec_pretrain_file": "/somewhere/vectors.pt"},
    }
    torch.save({"params": params}, tmp_path / "in.pt")
    export(tmp_path / "in.pt", tmp_path / "out.pt")
    written = torch.load(tmp_path / "out.pt", weights_only=True)["params"]
    assert written["words"] == ["boat", "year"]
    assert written["model"]["delta_embedding.weight"].flatten().tolist() == [0, 1, 4, 6]
    assert written["config"]["wordvec_pretrain_file"] == "vectors.pt"
    assert written["config"]["save_dir"] == ""
    assert written["rare_words"] == []
