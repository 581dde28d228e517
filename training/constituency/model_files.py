"""The files that ship: word vectors made of the sentence encoder's own, and the trained weights."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from featurizer.encoder import locate_model

MODEL, VECTORS = "model.pt", "vectors.pt"
# Stanza's reserved entries, in its order: padding, unknown, empty, root.
RESERVED = ("<PAD>", "<UNK>", "<EMPTY>", "<ROOT>")


def compress(encoder: str, dimensions: int) -> tuple[list[str], NDArray[np.float16]]:
    """Principal components of a BERT-like encoder's input embeddings of whole words.

    The result is scaled to a root mean square of 0.3, the size that the parser's other
    embeddings have, and rounded to float16 before anything is trained with it.

    Returns:
        n words, Stanza's reserved entries first, and their (n, dimensions) vectors.
    """
    folder = locate_model(encoder)
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_text("utf-8"))[
        "model"
    ]["vocab"]
    tensors = load_file(str(folder / "model.safetensors"))
    name = next(n for n in tensors if n.endswith("embeddings.word_embeddings.weight"))
    words = [
        word
        for word in sorted(vocabulary, key=vocabulary.__getitem__)
        if not word.startswith(("##", "[unused", "[CLS", "[SEP", "[MASK", "[PAD", "[UNK"))
    ]
    rows = tensors[name][[vocabulary[word] for word in words]].astype(np.float64)
    rows -= rows.mean(axis=0)
    _, axes = np.linalg.eigh(rows.T @ rows)
    # eigh sorts upwards; a component's sign is arbitrary, so it is fixed for reproducible files.
    kept = axes[:, ::-1][:, :dimensions]
    kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(dimensions)])
    reduced = rows @ kept
    reduced *= 0.3 / np.sqrt(np.mean(reduced**2))
    vectors = np.vstack([np.zeros((len(RESERVED), dimensions)), reduced])
    return [*RESERVED, *words], vectors.astype(np.float16)


def save_vectors(words: list[str], vectors: NDArray[np.float16], out: Path) -> None:
    """Write Stanza's pretrain format."""
    torch.save(
        {
            "vocab": {
                "lang": "en",
                "idx": 0,
                "cutoff": 0,
                "lower": True,
                "_id2unit": words,
                "_unit2id": {word: number for number, word in enumerate(words)},
            },
            "emb": torch.from_numpy(vectors),
        },
        out,
    )


# Addresses, handles and telephone numbers of the treebank's texts have no place in a vocabulary.
_PERSONAL = re.compile(r"@|^#\w|://|www\.|(?:\d\D?){7}")


def export(checkpoint: Path, out: Path) -> None:
    """Write a checkpoint without this machine's paths, training state or personal words."""
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    params = content["params"]
    _drop_words(params)
    # Only training replaces rare words.
    params["rare_words"] = []
    params["config"] = _without_paths(params["config"])
    torch.save(content, out)


def _drop_words(params: dict[str, Any]) -> None:
    words = params["words"]
    kept = [place for place, word in enumerate(words) if not _PERSONAL.search(word)]
    # Two reserved rows come first.
    rows = torch.tensor([0, 1, *(place + 2 for place in kept)])
    weights = params["model"]
    weights["delta_embedding.weight"] = weights["delta_embedding.weight"][rows].clone()
    weights["delta_tensors"] = torch.arange(len(rows))
    params["words"] = [words[place] for place in kept]


def _without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    clean = {
        key: Path(value).name if isinstance(value, str) and "/" in value else value
        for key, value in config.items()
    }
    clean["save_dir"] = clean["data_dir"] = clean["wordvec_dir"] = ""
    return clean
