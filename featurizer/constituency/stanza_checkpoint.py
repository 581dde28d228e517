"""Stanza's constituency checkpoints as plain arrays, read without Stanza.

Importing Stanza's parser would import udtools and udapi (GPL); its files are ordinary PyTorch
archives, so reading them takes neither.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from featurizer.constituency.transitions import Transition
from featurizer.errors import ModelError, UnsupportedModelError
from featurizer.types import Float32

# Stanza's vocabularies begin with a padding entry and the unknown word.
UNKNOWN = 1
_OFFSET = 2


@dataclass(frozen=True, slots=True)
class Lstm:
    """One direction of one LSTM layer; gates in the order input, forget, output, cell.

    Attributes:
        inputs: (x, 4 h) weights of the input.
        recurrent: (h, 4 h) weights of the state.
        bias: (4 h,).
    """

    inputs: Float32
    recurrent: Float32
    bias: Float32


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A constituency model; `..._rows` tell the row of a word, tag or tuple of labels in a matrix.

    Attributes:
        transitions: In the order of the scores.
        roots: Labels of finished trees.
        unary_limit: See `transitions.ParserState`.
        lower: Whether the pretrained vocabulary is lower-cased.
        deltas: Word vectors of the training vocabulary, trained with the model.
        boundaries: (2, x) inputs before the first and after the last word.
        forward: Word LSTM, left to right; `backward` reads right to left.
        to_constituent: (2 h, h) and (h,): from word states to constituents.
        transition_start: Input that starts the LSTM over the transitions taken.
        opens: Vectors that mark open phrases.
        constituent_start: Input that starts the LSTM over the stack.
        compose: (h, h) and (h,): from the maximum of the children to their parent.
        output: Layers from (word, transition, constituent) states to scores.
        nonlinearity: "relu" or "tanh".
        digest: SHA-256 of both files.
    """

    transitions: tuple[Transition, ...]
    roots: frozenset[str]
    unary_limit: int
    vector_rows: Mapping[str, int]
    vectors: Float32
    lower: bool
    delta_rows: Mapping[str, int]
    deltas: Float32
    tag_rows: Mapping[str, int]
    tags: Float32
    boundaries: Float32
    forward: Lstm
    backward: Lstm
    to_constituent: tuple[Float32, Float32]
    transition_vectors: Float32
    transition_start: Float32
    transition_lstm: Lstm
    open_rows: Mapping[tuple[str, ...], int]
    opens: Float32
    constituent_start: Float32
    constituent_lstm: Lstm
    compose: tuple[Float32, Float32]
    output: tuple[tuple[Float32, Float32], ...]
    nonlinearity: str
    digest: str


# What the decoder computes; whatever a checkpoint's configuration says otherwise is Stanza's work.
_REQUIRED: Mapping[str, tuple[object, ...]] = {
    "transition_scheme": ("IN_ORDER",),
    "reversed": (False,),
    "charlm_forward_file": (None, ""),
    "charlm_backward_file": (None, ""),
    "bert_model": (None, ""),
    "use_rattn": (False,),
    "transition_stack": ("LSTM",),
    "constituent_stack": ("LSTM",),
    "constituency_composition": ("MAX",),
    "sentence_boundary_vectors": ("EVERYTHING",),
    "num_lstm_layers": (1,),
    "num_tree_lstm_layers": (1,),
    "maxout_k": (None, 0),
    "nonlinearity": ("relu", "tanh"),
}
_ABSENT_MEANS = {"reversed": False, "use_rattn": False, "num_tree_lstm_layers": 1}


def read_checkpoint(model: Path, vectors: Path) -> Checkpoint:
    """Read Stanza's .pt file of a model and its pretrain .pt file of word vectors.

    Raises:
        ModelError: A file is missing or is no such file.
        UnsupportedModelError: Only Stanza can run this model.
    """
    content, pretrain = _load(model), _load(vectors)
    try:
        params = content["params"]
        _check_supported(model, params)
        return _build(params, pretrain, file_digest(model, vectors))
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{model} with {vectors} is no Stanza constituency model with its word vectors: "
            f"{error!r} is missing or of another kind."
        ) from error


def _load(path: Path) -> Mapping[str, Any]:
    import torch  # noqa: PLC0415 - seconds that a text-only command need not pay

    if not path.is_file():
        raise ModelError(f"No constituency model file at {path}. Nothing is downloaded.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError) as error:
        raise ModelError(
            f"{path} cannot be read as a PyTorch archive of weights: {error}"
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds a {type(content).__name__}, not a Stanza model.")
    return content


def _check_supported(path: Path, params: Mapping[str, Any]) -> None:
    config = params["config"]
    found = {
        key: value
        for key, allowed in _REQUIRED.items()
        if (value := config.get(key, _ABSENT_MEANS.get(key))) not in allowed
    }
    if params["model_type"] != "LSTM":
        found["model_type"] = params["model_type"]
    if config["pattn_num_heads"] > 0 and config["pattn_num_layers"] > 0:
        found["pattn_num_layers"] = config["pattn_num_layers"]
    if config["tag_embedding_dim"] == 0:
        found["tag_embedding_dim"] = 0
    if found:
        said = ", ".join(f"{key}={value}" for key, value in sorted(found.items()))
        raise UnsupportedModelError(
            f"The numpy decoder cannot run {path} ({said}). Stanza can: install the extra "
            "'stanza' to use it, or choose a one-layer in-order LSTM model."
        )


def file_digest(*paths: Path) -> str:
    """SHA-256 of the files' bytes, one after the other."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _build(params: Mapping[str, Any], pretrain: Mapping[str, Any], digest: str) -> Checkpoint:
    config = params["config"]
    weights: dict[str, Float32] = {
        name: np.ascontiguousarray(tensor.numpy(), np.float32)
        for name, tensor in params["model"].items()
        if tensor.is_floating_point()
    }
    layers = range(config["num_output_layers"])
    return Checkpoint(
        transitions=tuple(map(Transition.from_repr, params["transitions"])),
        roots=frozenset(params["root_labels"]),
        unary_limit=params["unary_limit"],
        vector_rows=pretrain["vocab"]["_unit2id"],
        vectors=np.asarray(pretrain["emb"], np.float32),
        lower=pretrain["vocab"]["lower"],
        delta_rows=_rows(params["words"]),
        deltas=weights["delta_embedding.weight"],
        tag_rows=_rows(params["tags"]),
        tags=weights["tag_embedding.weight"],
        boundaries=np.stack([weights["word_start_embedding"], weights["word_end_embedding"]]),
        forward=_lstm(weights, "word_lstm"),
        backward=_lstm(weights, "word_lstm", "_reverse"),
        to_constituent=_linear(weights, "word_to_constituent"),
        transition_vectors=weights["transition_embedding.weight"],
        transition_start=weights["transition_stack.start_embedding"],
        transition_lstm=_lstm(weights, "transition_stack.lstm"),
        open_rows={tuple(labels): row for row, labels in enumerate(params["constituent_opens"])},
        opens=weights["dummy_embedding.weight"],
        constituent_start=weights["constituent_stack.start_embedding"],
        constituent_lstm=_lstm(weights, "constituent_stack.lstm"),
        compose=_linear(weights, "reduce_linear"),
        output=tuple(_linear(weights, f"output_layers.{layer}") for layer in layers),
        nonlinearity=config["nonlinearity"],
        digest=digest,
    )


def _rows(units: Sequence[str]) -> dict[str, int]:
    return {unit: row + _OFFSET for row, unit in enumerate(units)}


def _linear(weights: Mapping[str, Float32], name: str) -> tuple[Float32, Float32]:
    return np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]


def _lstm(weights: Mapping[str, Float32], name: str, suffix: str = "") -> Lstm:
    def part(kind: str) -> Float32:
        # PyTorch's gates: input, forget, cell, output.
        gates = np.split(weights[f"{name}.{kind}_l0{suffix}"], 4)
        return np.concatenate([gates[0], gates[1], gates[3], gates[2]])

    return Lstm(
        np.ascontiguousarray(part("weight_ih").T),
        np.ascontiguousarray(part("weight_hh").T),
        part("bias_ih") + part("bias_hh"),
    )
