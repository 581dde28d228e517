import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from wye.featurizer.constituency.checkpoint import read_safetensors
from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.errors import ModelError

Maker = Callable[..., Path]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transition_scheme", "TOP_DOWN"),
        ("constituency_composition", "BILSTM"),
        ("bert_model", "some/encoder"),
        ("charlm_forward_file", "forward.pt"),
        ("num_lstm_layers", 2),
        ("sentence_boundary_vectors", "NONE"),
        ("pattn_num_layers", 3),
        ("nonlinearity", "tanh"),
        ("reversed", True),
        ("maxout_k", 2),
        ("use_rattn", True),
    ],
)
def test_another_architecture_is_named(make_model: Maker, key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"Wye cannot run .*{key}={value}"):
        Decoder.read(make_model(**{key: value}))


def test_missing_and_foreign_files_are_model_errors(make_model: Maker, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.safetensors"
    with pytest.raises(ModelError, match="No constituency model file"):
        Decoder.read(foreign)
    foreign.write_text("no weights")
    with pytest.raises(ModelError, match="cannot be read as a safetensors file"):
        Decoder.read(foreign)
    save_file({"weights": np.zeros(3)}, foreign)
    with pytest.raises(ModelError, match="is not a constituency model"):
        Decoder.read(foreign)
    files = read_safetensors(make_model())
    del files.tensors["reduce_linear.bias"]
    files.write(foreign)
    with pytest.raises(ModelError, match=r"reduce_linear\.bias"):
        Decoder.read(foreign)


def test_the_digest_names_all_that_decides_a_tree(make_model: Maker) -> None:
    first, again, other = (read_safetensors(make_model(seed)).digest for seed in (0, 0, 1))
    assert first == again != other
    assert read_safetensors(make_model(nonlinearity="tanh")).digest != first
    files = read_safetensors(make_model())
    files.content["best_epoch"] = 7
    files.content["params"]["rare_words"] = ["boat"]
    assert files.digest == first
    files.words[4] = "ship"
    assert files.digest != first


def test_files_are_the_same_bytes_each_time(make_model: Maker) -> None:
    first = make_model().read_bytes()
    assert all(make_model().read_bytes() == first for _ in range(5))


def test_the_shipped_model_builds_trees_without_pytorch_or_stanza() -> None:
    code = (
        "import sys; from wye.featurizer.constituency.parser import *;"
        "trees = open_decoder(ConstituencySettings());"
        "print(trees.parse_many([[('Who', 'WP'), ('rowed', 'VBD'), ('?', '.')]])[0]);"
        "print([m for m in ('torch', 'stanza', 'udapi', 'udtools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "(ROOT (SBARQ (WHNP (WP Who)) (SQ (VP (VBD rowed))) (. ?)))",
        "[]",
    ]
