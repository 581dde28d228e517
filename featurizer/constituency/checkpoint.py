"""Constituency models as plain arrays, read from a safetensors file.

The file is a Stanza checkpoint with its word vectors: the same tensors under the same names, and
everything else as JSON. Reading it needs neither PyTorch nor Stanza, which would import udtools and
udapi (GPL). `training.constituency.model_files.export` makes one from Stanza's own files.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from wye.featurizer.constituency.tree import Transition
from wye.featurizer.errors import ModelError
from wye.featurizer.types import Float32

VECTORS = "vectors"
"""Name of the word vectors among a file's tensors."""
# Stanza's vocabularies begin with a padding entry and the unknown word.
UNKNOWN = 1
_OFFSET = 2
_HEADER = "stanza"


@dataclass(frozen=True, slots=True)
class Lstm:
    """One direction of one LSTM layer, with gates in the order input, forget, output, cell.

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
    """A constituency model; `..._rows` map words, tags or tuples of labels to rows of a matrix.

    Attributes:
        transitions: Transitions in the order of the scores.
        roots: Labels of finished trees.
        unary_limit: See `tree.ParserState`.
        lower: Whether the pretrained vocabulary is lower-cased.
        deltas: Word vectors of the training vocabulary, trained with the model.
        boundaries: (2, x) inputs before the first and after the last word.
        forward: Word LSTM, left to right; `backward` reads right to left.
        to_constituent: (2 h, h) and (h,): layer from word states to constituents.
        transition_start: First input of the LSTM over the transitions taken.
        opens: Vectors that mark open phrases.
        constituent_start: First input of the LSTM over the stack.
        compose: (h, h) and (h,): layer from the maximum of the children to their parent.
        output: Layers from (word, transition, constituent) states to scores.
        nonlinearity: "relu" or "tanh".
        digest: See `StanzaFiles.digest`.
    """

    transitions: tuple[Transition, ...]
    roots: frozenset[str]
    unary_limit: int
    vector_rows: Mapping[str, int]
    vectors: NDArray[np.floating]
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


# Configurations that the decoder can compute.
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


@dataclass(frozen=True, slots=True)
class StanzaFiles:
    """The content of a Stanza checkpoint and of its file of word vectors.

    Attributes:
        content: The checkpoint without the tensors of `content["params"]["model"]`.
        tensors: These tensors, by Stanza's names, and the vectors (n, d) as `VECTORS`.
        words: The word of each vector, Stanza's reserved entries first.
        lower: Whether the words are lower-cased.
    """

    content: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    words: list[str]
    lower: bool

    def write(self, path: Path) -> None:
        """Write everything as one safetensors file."""
        header = {"content": self.content, "words": self.words, "lower": self.lower}
        # A single entry, since the order of several is not deterministic.
        save_file(self.tensors, path, {_HEADER: json.dumps(header, sort_keys=True)})

    @property
    def digest(self) -> str:
        """SHA-256 of everything that a tree depends on."""
        params = self.content["params"]
        config = {key: params["config"].get(key) for key in (*_REQUIRED, "num_output_layers")}
        facts = [config, *(params[key] for key in _FACTS), self.words, self.lower]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for name, values in sorted(self.tensors.items()):
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()


_FACTS = ("constituent_opens", "root_labels", "tags", "transitions", "unary_limit", "words")


def read_checkpoint(model: Path) -> Checkpoint:
    """Read a model from a safetensors file.

    Raises:
        ModelError: The file is missing or of another kind, or its architecture is another one.
    """
    try:
        files = read_safetensors(model)
        _check_supported(model, files.content["params"])
        return _build(files)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{model} is not a constituency model with its word vectors: {error!r} is missing or "
            "has the wrong type."
        ) from error


def read_safetensors(model: Path) -> StanzaFiles:
    """Read a file that `StanzaFiles.write` wrote.

    Raises:
        ModelError: The file is missing or is no safetensors file.
        KeyError, TypeError: Its content is something else.
    """
    if not model.is_file():
        raise ModelError(f"No constituency model file at {model}. Nothing is downloaded.")
    try:
        with safe_open(model, framework="np") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise ModelError(f"{model} cannot be read as a safetensors file: {error}") from error
    return StanzaFiles(header["content"], tensors, header["words"], header["lower"])


def _check_supported(path: Path, params: Mapping[str, Any]) -> None:
    config = params["config"]
    unsupported = {
        key: value
        for key, allowed in _REQUIRED.items()
        if (value := config.get(key, _ABSENT_MEANS.get(key))) not in allowed
    }
    if params["model_type"] != "LSTM":
        unsupported["model_type"] = params["model_type"]
    if config["pattn_num_heads"] > 0 and config["pattn_num_layers"] > 0:
        unsupported["pattn_num_layers"] = config["pattn_num_layers"]
    if config["tag_embedding_dim"] == 0:
        unsupported["tag_embedding_dim"] = 0
    if unsupported:
        description = ", ".join(f"{key}={value}" for key, value in sorted(unsupported.items()))
        raise ModelError(
            f"Wye cannot run {path} ({description}). Choose one of Stanza's in-order models with "
            "one LSTM layer, without a transformer and a character model."
        )


def _build(files: StanzaFiles) -> Checkpoint:
    params, tensors = files.content["params"], files.tensors
    config = params["config"]
    weights: dict[str, Float32] = {
        name: np.ascontiguousarray(values, np.float32)
        for name, values in tensors.items()
        if name != VECTORS
    }
    layers = range(config["num_output_layers"])
    return Checkpoint(
        transitions=tuple(map(Transition.from_repr, params["transitions"])),
        roots=frozenset(params["root_labels"]),
        unary_limit=params["unary_limit"],
        vector_rows={word: row for row, word in enumerate(files.words)},
        vectors=tensors[VECTORS],
        lower=files.lower,
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
        digest=files.digest,
    )


def _rows(units: Sequence[str]) -> dict[str, int]:
    return {unit: row + _OFFSET for row, unit in enumerate(units)}


def _linear(weights: Mapping[str, Float32], name: str) -> tuple[Float32, Float32]:
    return np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]


def _lstm(weights: Mapping[str, Float32], name: str, suffix: str = "") -> Lstm:
    def reordered(kind: str) -> Float32:
        # PyTorch's order of gates: input, forget, cell, output.
        gates = np.split(weights[f"{name}.{kind}_l0{suffix}"], 4)
        return np.concatenate([gates[0], gates[1], gates[3], gates[2]])

    return Lstm(
        np.ascontiguousarray(reordered("weight_ih").T),
        np.ascontiguousarray(reordered("weight_hh").T),
        reordered("bias_ih") + reordered("bias_hh"),
    )
