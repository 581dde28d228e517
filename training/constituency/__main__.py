"""`python -m training.constituency --data DIR --out models/NAME`: train, export, judge."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import print as say

from training.constituency.card import write_card
from training.constituency.corpus import load_corpus
from training.constituency.judge import MODEL, VECTORS, judge
from training.constituency.recipe import Recipe
from training.constituency.tagging import Tagger
from training.errors import TrainingError

_DEFAULT = Recipe()
Folder = Annotated[Path, typer.Option(file_okay=False)]


def main(
    data: Folder,
    out: Folder,
    epochs: Annotated[int, typer.Option(help="Epochs to train.")] = _DEFAULT.epochs,
    seed: Annotated[int, typer.Option(help="Of data, weights and order.")] = _DEFAULT.seed,
    judge_only: Annotated[bool, typer.Option(help="Score the model that is in --out.")] = False,
) -> None:
    """Train a constituency parser, write its files, and measure it for its card."""
    recipe = replace(Recipe(), epochs=epochs, seed=seed)
    tagger = Tagger(recipe.pipeline)
    if not judge_only:
        train(data, out, recipe, tagger)
    judgement = judge(out, data, tagger)
    write_card(out, recipe, judgement, tagger.name)
    for name, score in judgement.scores.items():
        say(f"{name:20} F1 {score.f1:.2f}  ({score.sentences} sentences)")
    say(f"{judgement.question_ms:.2f} ms a question, {judgement.megabytes:.1f} MB")


def train(data: Path, out: Path, recipe: Recipe, tagger: Tagger) -> None:
    """Train and write both files of the model.

    Args:
        data: Folder of treebank files.
        out: The model's folder; made when it is missing.
        recipe: Hyper-parameters.
        tagger: Gives the training tags.

    Raises:
        TrainingError: A treebank file or Stanza is missing.
    """
    try:
        import torch  # noqa: PLC0415

        from training.constituency.export import export  # noqa: PLC0415
        from training.constituency.fit import fit  # noqa: PLC0415
        from training.constituency.vectors import compress, save_for_stanza  # noqa: PLC0415
    except ImportError as error:
        raise TrainingError(
            f"Training a constituency model needs Stanza ({error}): pip install 'wye[stanza]'."
        ) from error
    # Sums in another order give other weights: one thread makes runs repeatable, and the
    # matrices are too small to gain from more.
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    corpus = load_corpus(data, recipe, tagger)
    say(f"{len(corpus.train)} training trees, {len(corpus.dev)} for dev")
    save_for_stanza(compress(recipe.encoder, recipe.vector_size), out / VECTORS)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = Path(scratch) / "checkpoint.pt"
        fit(
            recipe,
            corpus.train,
            corpus.dev,
            pretrain=out / VECTORS,
            out=checkpoint,
            report=say,
        )
        export(checkpoint, out / MODEL)


if __name__ == "__main__":
    typer.run(main)
