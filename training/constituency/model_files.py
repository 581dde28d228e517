"""The model file that ships: word vectors derived from the sentence encoder, and the weights."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from wye.featurizer.constituency.checkpoint import (
    VECTORS,
    StanzaFiles,
    read_safetensors,
    read_stanza,
)
from wye.featurizer.encoder import locate_model

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
    basis = axes[:, ::-1][:, :dimensions]
    basis = basis * np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(dimensions)])
    reduced = rows @ basis
    reduced *= 0.3 / np.sqrt(np.mean(reduced**2))
    vectors = np.vstack([np.zeros((len(RESERVED), dimensions)), reduced])
    return [*RESERVED, *words], vectors.astype(np.float16)


def save_vectors(
    words: Sequence[str], vectors: NDArray[np.float16], out: Path, *, lower: bool = True
) -> None:
    """Write Stanza's pretrain format."""
    torch.save(
        {
            "vocab": {
                "lang": "en",
                "idx": 0,
                "cutoff": 0,
                "lower": lower,
                "_id2unit": list(words),
                "_unit2id": {word: number for number, word in enumerate(words)},
            },
            "emb": torch.tensor(vectors),
        },
        out,
    )


# E-mail addresses, handles and telephone numbers in the treebank are kept out of the vocabulary.
_PERSONAL = re.compile(r"@|^#\w|://|www\.|(?:\d\D?){7}")


def export(checkpoint: Path, vectors: Path, out: Path) -> None:
    """Convert Stanza's files to ours, without this machine's paths and without personal data."""
    files = read_stanza(checkpoint, vectors)
    _drop_words(files)
    params = files.content["params"]
    # Only training uses this.
    params["rare_words"] = []
    params["config"] = _without_paths(params["config"])
    files.write(out)


def to_stanza(model: Path, folder: Path) -> tuple[Path, Path]:
    """Convert our file to the two that Stanza loads, model and word vectors, in a folder."""
    files = read_safetensors(model)
    tensors = {name: torch.tensor(values) for name, values in files.tensors.items()}
    del tensors[VECTORS]
    params = {**files.content["params"], "model": tensors}
    # JSON has no tuples.
    params["constituent_opens"] = [tuple(labels) for labels in params["constituent_opens"]]
    written = folder / "model.pt", folder / "vectors.pt"
    torch.save({**files.content, "params": params}, written[0])
    save_vectors(files.words, files.tensors[VECTORS], written[1], lower=files.lower)
    return written


def _drop_words(files: StanzaFiles) -> None:
    params, tensors = files.content["params"], files.tensors
    indices = [i for i, word in enumerate(params["words"]) if not _PERSONAL.search(word)]
    # Two reserved rows come first.
    rows = [0, 1, *(i + 2 for i in indices)]
    tensors["delta_embedding.weight"] = tensors["delta_embedding.weight"][rows]
    tensors["delta_tensors"] = np.arange(len(rows))
    params["words"] = [params["words"][i] for i in indices]


def _without_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    clean = {
        key: Path(value).name if isinstance(value, str) and "/" in value else value
        for key, value in config.items()
    }
    clean["save_dir"] = clean["data_dir"] = clean["wordvec_dir"] = ""
    return clean
