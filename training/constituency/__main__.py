"""`python -m wye.training.constituency --data DIR --out models/NAME`: train, export, evaluate.

DIR has train.mrg, dev.mrg, test.mrg and questions-eval.mrg, one bracketed tree a line.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich import print as say

from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.errors import how_to_install
from wye.training.constituency.evaluation import Tagger, evaluate, read_trees, write_manifest
from wye.training.constituency.model_files import Recipe, compress, export, save_vectors
from wye.training.errors import TrainingError

_DEFAULT = Recipe()
Folder = Annotated[Path, typer.Option(file_okay=False)]


def main(
    data: Folder,
    out: Folder,
    epochs: Annotated[int, typer.Option(help="Epochs to train.")] = _DEFAULT.epochs,
    seed: Annotated[int, typer.Option(help="Seed of data, weights and order.")] = _DEFAULT.seed,
) -> None:
    """Train a constituency parser, write it, and evaluate it."""
    recipe = replace(Recipe(), epochs=epochs, seed=seed)
    tagger = Tagger(recipe.pipeline)
    train(data, out, recipe, tagger)
    scores = evaluate(out, data, tagger)
    write_manifest(out, recipe, scores, tagger.name)
    for name, f1 in scores.items():
        say(f"{name:20} F1 {f1:.2f}")


def train(data: Path, out: Path, recipe: Recipe, tagger: Tagger) -> None:
    """Train a model, and write it to the folder `out`.

    Raises:
        TrainingError: A treebank file or Stanza is missing.
    """
    try:
        from wye.training.constituency.fit import fit  # noqa: PLC0415
    except ImportError as error:
        raise TrainingError(
            f"Training a constituency model needs Stanza ({error}); {how_to_install('stanza')}."
        ) from error
    # One thread fixes the order of sums, so runs are repeatable; the matrices are too small to
    # gain from more.
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    trees, dev = (
        [tagger.retag(tree) for tree in read_trees(data / f"{split}.mrg")]
        for split in ("train", "dev")
    )
    trees = [tree for tree in trees if len(tree.words()) <= recipe.most_words]
    say(f"{len(trees)} training trees, {len(dev)} for dev")
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, vectors = Path(scratch) / "checkpoint.pt", Path(scratch) / "vectors.pt"
        save_vectors(*compress(recipe.encoder, recipe.vector_size), vectors)
        fit(recipe, trees, dev, pretrain=vectors, out=checkpoint, report=say)
        export(checkpoint, vectors, out / MODEL_FILE)


if __name__ == "__main__":
    typer.run(main)
