"""What a constituency model is made of: its recipe, word vectors, and the file it is kept in."""

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from sklearn.decomposition import PCA

from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles, read_safetensors
from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.encoder import DEFAULT_ENCODER, locate_model
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE

STANZA: Mapping[str, object] = {
    "lang": "en",
    "shorthand": "en_gum",
    "transition_scheme": "in_order",
    "num_lstm_layers": 1,
    "num_output_layers": 2,
    "hidden_size": 224,
    "transition_hidden_size": 32,
    "transition_embedding_dim": 20,
    "delta_embedding_dim": 32,
    "tag_embedding_dim": 24,
    "word_dropout": 0.3,
    "predict_dropout": 0.2,
    "lstm_input_dropout": 0.2,
    "rare_word_threshold": 0.5,
    # Stanza's default, 2 % of few words, leaves the unknown word's vector untrained, and one word
    # in ten of a new text is unknown.
    "rare_word_unknown_frequency": 0.25,
    "optim": "adamw",
    "learning_rate": 2e-3,
    "learning_weight_decay": 0.01,
    "device": "cpu",
}
"""Arguments of Stanza's command line that are always the same."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a constituency model is trained, beside `STANZA`; `manifest.json` records both.

    Attributes:
        pipeline: spaCy pipeline whose tags the model is trained on.
        encoder: Encoder whose input embeddings become the word vectors.
        vector_size: Dimensions of the word vectors.
        most_words: Longer sentences are left out of training.
        batch: Trees per step.
        epoch_trees: Trees per epoch.
        warm_up: Steps until the learning rate is highest; then it falls linearly to 0.
        average: Decay per step of the running mean of the weights; the mean is kept.
        seed: Seed of data, initial weights and order.
    """

    pipeline: str = DEFAULT_PIPELINE
    encoder: str = DEFAULT_ENCODER
    vector_size: int = 128
    most_words: int = 40
    batch: int = 30
    epochs: int = 18
    epoch_trees: int = 6000
    warm_up: int = 200
    average: float = 0.995
    seed: int = 7

    def stanza_arguments(self, pretrain: str, save_dir: str) -> list[str]:
        """The recipe as arguments of Stanza's command line; Stanza may write to `save_dir`."""
        values = {
            **STANZA,
            "wordvec_pretrain_file": pretrain,
            "save_dir": save_dir,
            "train_batch_size": self.batch,
            "epochs": self.epochs,
            "epoch_size": self.epoch_trees,
            "seed": self.seed,
        }
        flags = ["--no_retag", "--no_multistage", "--no_strict_check_constituents"]
        pairs = ((f"--{name}", str(value)) for name, value in values.items())
        return ["--mode", "train", *flags, *(text for pair in pairs for text in pair)]


# Stanza's reserved entries, in its order: padding, unknown, empty, root.
RESERVED = ("<PAD>", "<UNK>", "<EMPTY>", "<ROOT>")


def compress(encoder: str, dimensions: int) -> tuple[list[str], NDArray[np.float16]]:
    """Word vectors for the parser: an encoder's own input vectors of words, with fewer dimensions.

    These are the first principal components, scaled to a root mean square of 0.3 as the parser's
    other inputs are, and rounded to float16 before anything is trained with them.

    Args:
        encoder: A BERT-like sentence encoder, by package or folder.

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
    reduced = PCA(dimensions, svd_solver="covariance_eigh").fit_transform(rows)
    reduced *= 0.3 / np.sqrt(np.mean(reduced**2))
    vectors = np.vstack([np.zeros((len(RESERVED), dimensions)), reduced])
    return [*RESERVED, *words], vectors.astype(np.float16)


def save_vectors(
    words: Sequence[str], vectors: NDArray[np.float16], out: Path, *, lower: bool = True
) -> None:
    """Write words and their (n, d) vectors in Stanza's format.

    Args:
        lower: Whether words are looked up in lower case.
    """
    numbers = {word: number for number, word in enumerate(words)}
    vocabulary = {"_id2unit": list(words), "_unit2id": numbers, "lower": lower}
    vocabulary |= {"lang": "en", "idx": 0, "cutoff": 0}
    torch.save({"vocab": vocabulary, "emb": torch.tensor(vectors)}, out)


# E-mail addresses, handles and telephone numbers in the treebank are kept out of the vocabulary.
_PERSONAL = re.compile(r"@|^#\w|://|www\.|(?:\d\D?){7}")


def export(checkpoint: Path, vectors: Path, out: Path) -> None:
    """Convert Stanza's files to ours, without this machine's paths and without personal data.

    Args:
        checkpoint: Stanza's .pt file of a model.
        vectors: Its .pt file of word vectors.
        out: The safetensors file to write.
    """
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    pretrain = torch.load(vectors, map_location="cpu", weights_only=True)
    params = content["params"]
    tensors = {name: tensor.numpy() for name, tensor in params.pop("model").items()}
    tensors[VECTORS] = np.asarray(pretrain["emb"])
    public = [i for i, word in enumerate(params["words"]) if not _PERSONAL.search(word)]
    # Two reserved rows come first.
    rows = [0, 1, *(i + 2 for i in public)]
    tensors["delta_embedding.weight"] = tensors["delta_embedding.weight"][rows]
    tensors["delta_tensors"] = np.arange(len(rows))
    params["words"] = [params["words"][i] for i in public]
    params["rare_words"] = []  # only training uses them
    params["config"] = {
        key: Path(value).name if isinstance(value, str) and "/" in value else value
        for key, value in params["config"].items()
    } | dict.fromkeys(("save_dir", "data_dir", "wordvec_dir"), "")
    vocabulary = pretrain["vocab"]
    StanzaFiles(content, tensors, vocabulary["_id2unit"], vocabulary["lower"]).write(out)


def write_manifest(out: Path, recipe: Recipe, scores: Mapping[str, float], tagger: str) -> None:
    """Write `manifest.json` beside the model in `out`: its recipe, epoch and F1 scores."""
    model = out / MODEL_FILE
    packages = ("stanza", "torch", "spacy")
    manifest = {
        "name": out.name,
        "format": "stanza constituency, safetensors",
        "files": {MODEL_FILE: hashlib.sha256(model.read_bytes()).hexdigest()},
        "tagger": tagger,
        "recipe": {**asdict(recipe), **STANZA},
        "epoch": read_safetensors(model).content["best_epoch"],
        "bracket_f1": {name: round(score, 2) for name, score in scores.items()},
        "trained_with": {package: importlib.metadata.version(package) for package in packages},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
