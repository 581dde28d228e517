"""Word vectors without a download: the sentence encoder's own input embeddings, made smaller."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from featurizer.encoder import locate_model
from featurizer.types import Float32

# Stanza's reserved entries, in its order: padding, unknown, empty, root.
RESERVED = ("<PAD>", "<UNK>", "<EMPTY>", "<ROOT>")


@dataclass(frozen=True, slots=True)
class WordVectors:
    """A vocabulary with its vectors.

    Attributes:
        words: Reserved entries first.
        vectors: (number of words, d) float32 whose values are exact in float16.
    """

    words: tuple[str, ...]
    vectors: Float32


def compress(encoder: str, dimensions: int) -> WordVectors:
    """Principal components of a BERT-like encoder's input embeddings of whole words.

    The result is scaled to a root mean square of 0.3, the size that the parser's other
    embeddings have, and rounded to float16, so that the files that ship are the vectors that
    were trained with.

    Args:
        encoder: Name or folder, as the featurizer takes it.
        dimensions: Components to keep.
    """
    folder = locate_model(encoder)
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_text("utf-8"))[
        "model"
    ]["vocab"]
    matrix = _input_embeddings(folder)
    words = [
        word
        for word in sorted(vocabulary, key=vocabulary.__getitem__)
        if not word.startswith(("##", "[unused", "[CLS", "[SEP", "[MASK", "[PAD", "[UNK"))
    ]
    rows = matrix[[vocabulary[word] for word in words]].astype(np.float64)
    rows -= rows.mean(axis=0)
    _, axes = np.linalg.eigh(rows.T @ rows)
    # eigh sorts upwards; a component's sign is arbitrary, so it is fixed for reproducible files.
    kept = axes[:, ::-1][:, :dimensions]
    kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(dimensions)])
    reduced = rows @ kept
    reduced *= 0.3 / np.sqrt(np.mean(reduced**2))
    vectors = np.vstack([np.zeros((len(RESERVED), dimensions)), reduced])
    return WordVectors((*RESERVED, *words), vectors.astype(np.float16).astype(np.float32))


def _input_embeddings(folder: Path) -> Float32:
    tensors = load_file(str(folder / "model.safetensors"))
    name = next(n for n in tensors if n.endswith("embeddings.word_embeddings.weight"))
    return tensors[name].astype(np.float32)


def save_for_stanza(vectors: WordVectors, path: Path) -> None:
    """Write Stanza's pretrain format, in float16."""
    import torch  # noqa: PLC0415

    words = list(vectors.words)
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
            "emb": torch.from_numpy(vectors.vectors.astype(np.float16)),
        },
        path,
    )
