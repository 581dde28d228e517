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
from wye.training.constituency.evaluation import Tagger, evaluate, read_trees
from wye.training.constituency.model_files import (
    Recipe,
    compress,
    export,
    save_vectors,
    write_manifest,
)
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
    try:
        from wye.training.constituency.fit import fit  # noqa: PLC0415
    except ImportError as error:
        raise TrainingError(
            f"Training a constituency model needs Stanza ({error}); {how_to_install('stanza')}."
        ) from error
    recipe = replace(_DEFAULT, epochs=epochs, seed=seed)
    tagger = Tagger(recipe.pipeline)
    # One thread fixes the order of sums, so runs are repeatable; the matrices are too small to
    # gain from more.
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    train, dev = (
        [tagger.retag(tree) for tree in read_trees(data / f"{split}.mrg")]
        for split in ("train", "dev")
    )
    train = [tree for tree in train if len(tree.words()) <= recipe.most_words]
    say(f"{len(train)} training trees, {len(dev)} for dev")
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, vectors = Path(scratch) / "checkpoint.pt", Path(scratch) / "vectors.pt"
        save_vectors(*compress(recipe.encoder, recipe.vector_size), vectors)
        fit(recipe, train, dev, pretrain=vectors, out=checkpoint, report=say)
        export(checkpoint, vectors, out / MODEL_FILE)
    scores = evaluate(out, data, tagger)
    write_manifest(out, recipe, scores, tagger.name)
    for name, f1 in scores.items():
        say(f"{name:20} F1 {f1:.2f}")


if __name__ == "__main__":
    typer.run(main)
