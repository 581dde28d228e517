"""`python -m training.constituency.reference`: writes Stanza's own trees of a list of questions.

Where Stanza is not installed, tests compare the decoder with this file.
"""

import importlib
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from featurizer.constituency.checkpoint import read_checkpoint
from featurizer.constituency.parser import MODEL_FILE, StanzaParser
from featurizer.spacy_pipeline import DEFAULT_PIPELINE
from training.constituency.model_files import to_stanza
from training.errors import TrainingError


def main(
    model: Annotated[Path, typer.Option(help="Folder of the model.", file_okay=False)],
    questions: Annotated[Path, typer.Option(help="Questions, one per line.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="File to write.", dir_okay=False)],
) -> None:
    """Write the model's digest on the first line and one bracketed tree on each other line."""
    file = model / MODEL_FILE
    with tempfile.TemporaryDirectory() as scratch:
        parser = StanzaParser(*to_stanza(file, Path(scratch)))
    tagger = importlib.import_module(DEFAULT_PIPELINE).load()
    lines = [json.dumps({"digest": read_checkpoint(file).digest})]
    for question in questions.read_text(encoding="utf-8").splitlines():
        (tree,) = parser.parse_many([[(token.text, token.tag_) for token in tagger(question)]])
        if tree is None:
            raise TrainingError(f"Stanza finds no tree for '{question[:80]}'.")
        lines.append(json.dumps({"tree": str(tree)}, ensure_ascii=False))
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
