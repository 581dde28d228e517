"""A cross-encoder: a model that reads a question together with a text and scores how well they fit.

BERT with a classification head is computed by OpenVINO, like the encoder; any other architecture
that sentence-transformers can load is computed by PyTorch.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wye.featurizer.bert import (
    Tensors,
    as_openvino,
    check_architecture,
    compile_model,
    padded,
    read_tensors,
    read_tokenizer,
    states_graph,
)
from wye.featurizer.errors import ModelError, UnsupportedModelError, how_to_install
from wye.featurizer.types import Float32

if TYPE_CHECKING:
    from openvino import Model

log = logging.getLogger(__name__)


class CrossEncoder:
    """Scores texts for a question, each by itself: a score does not depend on the other texts.

    Attributes:
        engine: "openvino" or "pytorch".
    """

    def __init__(self, folder: Path) -> None:
        """Load a one-label classifier from a folder that `transformers` saved.

        Raises:
            ModelError: It is missing or damaged, or needs PyTorch, which is not installed.
        """
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"No cross-encoder at '{folder}': expected a folder with config.json, "
                "model.safetensors and tokenizer.json. Nothing is downloaded."
            )
        try:
            self._pairs: _OpenVinoPairs | _TorchPairs = _OpenVinoPairs(folder)
            self.engine = "openvino"
        except UnsupportedModelError as reason:
            log.warning("The cross-encoder in %s runs in PyTorch: %s.", folder, reason)
            self._pairs = _TorchPairs(folder)
            self.engine = "pytorch"
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ModelError(
                f"The cross-encoder in {folder} cannot be loaded: {error}. Copy it again from its "
                "source."
            ) from error

    def score(self, question: str, texts: Sequence[str]) -> Float32:
        """(n,) how well each of n texts fits a question, 0 to 1."""
        return self._pairs.score(question, texts)


class _OpenVinoPairs:
    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        check_architecture(config, ("bert",))
        self._tokenizer, limit = read_tokenizer(folder, config)
        self._tokenizer.enable_truncation(limit)
        tensors, self._mapped = read_tensors(folder / "model.safetensors")
        if "classifier.weight" not in tensors or len(tensors["classifier.weight"]) != 1:
            raise UnsupportedModelError("it has no classifier with one label")
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"]
        self._kinds = tensors["embeddings.token_type_embeddings.weight"]
        self._compiled = compile_model(_graph(tensors, config), 1, halves=False)

    def score(self, question: str, texts: Sequence[str]) -> Float32:
        return np.array([self._logit(question, text) for text in texts], np.float32)

    def _logit(self, question: str, text: str) -> float:
        pair = self._tokenizer.encode(question, text)
        size = len(pair.ids)
        rows = np.zeros((1, padded(size), self._words.shape[1]), np.float32)
        rows[0, :size] = self._words[pair.ids] + self._positions[:size] + self._kinds[pair.type_ids]
        mask = np.zeros((1, 1, 1, rows.shape[1]), np.float32)
        mask[..., size:] = np.finfo(np.float32).min
        return float(self._compiled({0: rows, 1: mask})[0][0, 0])


def _graph(tensors: Tensors, config: dict[str, Any]) -> "Model":
    """The graph from embedding rows (1, t, d) and an additive attention mask to a score (1, 1)."""
    openvino = as_openvino()
    ops = openvino.opset13
    states, inputs = states_graph(openvino, tensors, config)
    first = ops.gather(states, np.int64(0), np.int64(1))
    for name, then in (("pooler.dense", ops.tanh), ("classifier", ops.sigmoid)):
        product = ops.matmul(first, ops.constant(tensors[f"{name}.weight"]), False, True)
        first = then(ops.add(product, ops.constant(tensors[f"{name}.bias"])))
    return openvino.Model([first], inputs, "cross-encoder")


class _TorchPairs:
    def __init__(self, folder: Path) -> None:
        try:
            from sentence_transformers import CrossEncoder as Model  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ModelError(
                f"The cross-encoder in {folder} needs PyTorch and sentence-transformers, which are "
                f"not installed ({error}); {how_to_install('torch')}."
            ) from error
        try:
            self._model: Any = Model(str(folder), device="cpu", local_files_only=True)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"sentence-transformers cannot load {folder}: {error}. Copy it again from its "
                "source."
            ) from error
        if self._model.num_labels != 1:
            raise ModelError(
                f"The cross-encoder in {folder} has {self._model.num_labels} labels; it must have "
                "one."
            )

    def score(self, question: str, texts: Sequence[str]) -> Float32:
        scores = [
            self._model.predict([(question, text)], show_progress_bar=False)[0] for text in texts
        ]
        return np.array(scores, np.float32)
