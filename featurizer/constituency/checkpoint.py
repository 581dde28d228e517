"""The file of a constituency model: a Stanza checkpoint with its word vectors, as safetensors.

It has the same tensors under the same names, and everything else as JSON. Reading it needs neither
PyTorch nor Stanza, which would import udtools and udapi (GPL).
`training.constituency.export` makes one from Stanza's own files.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from wye.featurizer.errors import ModelError

VECTORS = "vectors"  # name of the word vectors among a file's tensors
_HEADER = "stanza"
# Configurations that the decoder can compute.
_REQUIRED: Mapping[str, tuple[object, ...]] = {
    "transition_scheme": ("IN_ORDER",),
    "reversed": (False, None),
    "charlm_forward_file": (None, ""),
    "charlm_backward_file": (None, ""),
    "bert_model": (None, ""),
    "use_rattn": (False, None),
    "transition_stack": ("LSTM",),
    "constituent_stack": ("LSTM",),
    "constituency_composition": ("MAX",),
    "sentence_boundary_vectors": ("EVERYTHING",),
    "num_lstm_layers": (1,),
    "num_tree_lstm_layers": (1, None),
    "maxout_k": (None, 0),
    "nonlinearity": ("relu",),
}
_FACTS = ("constituent_opens", "root_labels", "tags", "transitions", "unary_limit", "words")


@dataclass(frozen=True, slots=True)
class StanzaFiles:
    """The content of a Stanza checkpoint and of its file of word vectors."""

    content: dict[str, Any]  # the checkpoint without the tensors of `content["params"]["model"]`
    tensors: dict[str, NDArray[Any]]  # by Stanza's names; the vectors (n, d) as `VECTORS`
    words: list[str]  # the word of each vector, Stanza's reserved entries first
    lower: bool  # whether the words are lower-cased

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

    def require_supported(self, path: Path) -> None:
        """Raise a `ModelError` for an architecture that the decoder cannot compute."""
        params = self.content["params"]
        config = {**params["config"], "model_type": params["model_type"]}
        required = {**_REQUIRED, "model_type": ("LSTM",), "pattn_num_layers": (0, None)}
        others = (key for key in sorted(required) if config.get(key) not in required[key])
        unsupported = [f"{key}={config.get(key)}" for key in others]
        if unsupported:
            raise ModelError(
                f"Wye cannot run {path} ({', '.join(unsupported)}). Choose one of Stanza's "
                "in-order models with one LSTM layer, without a transformer and a character model."
            )


def read_safetensors(model: Path) -> StanzaFiles:
    """Read a file that `StanzaFiles.write` wrote; a `ModelError` if it is no safetensors file."""
    if not model.is_file():
        raise ModelError(f"No constituency model file at {model}. Nothing is downloaded.")
    try:
        with safe_open(model, framework="np") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise ModelError(f"{model} cannot be read as a safetensors file: {error}") from error
    return StanzaFiles(header["content"], tensors, header["words"], header["lower"])
