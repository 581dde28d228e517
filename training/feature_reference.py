"""`python -m training.feature_reference`: writes the reference set of `wye features`.

Its questions were written for this repository. Run it again when features, their versions or the
shipped models change; a test compares the file with the code.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from featurizer.analyser import AnalyserSettings
from featurizer.constituency.parser import SyntaxParser, open_syntax_parser
from featurizer.registry import DECIMALS, FEATURE_NAMES, Reference, schema_id, syntax_matrix

ROOT = Path(__file__).parents[1]
BATCH = 32


def main(
    out: Annotated[Path, typer.Option(help="File to write.", dir_okay=False)] = (
        ROOT / "featurizer" / "reference.json"
    ),
) -> None:
    """Compute every feature of every question, and write the sorted values."""
    settings = AnalyserSettings()
    parser = open_syntax_parser(settings.pipeline, settings.constituency)
    made = compute(own_questions(), parser)
    out.write_text(made.to_json(), encoding="utf-8")
    typer.echo(f"{sum(made.sources.values())} questions, schema {made.schema_id}: {out}")


def compute(questions: Mapping[str, Sequence[str]], parser: SyntaxParser) -> Reference:
    """Compute the reference set, from questions by name of their file."""
    texts = [text for part in questions.values() for text in part]
    parts = [
        syntax_matrix(parser.parse(texts[start : start + BATCH]))
        for start in range(0, len(texts), BATCH)
    ]
    # Adding 0 turns -0 into 0.
    columns = np.sort(np.concatenate(parts).round(DECIMALS) + 0.0, axis=0).T.tolist()
    return Reference(
        schema_id(parser.fingerprint),
        {name: len(part) for name, part in questions.items()},
        dict(zip(FEATURE_NAMES, columns, strict=True)),
    )


def own_questions() -> dict[str, list[str]]:
    """The questions of this repository, by file."""
    found = {}
    for name in (
        "service/demo/queries.jsonl",
        "benchmarks/technical/queries.jsonl",
        "tests/featurizer/questions.txt",
    ):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        if name.endswith(".jsonl"):
            lines = [json.loads(line)["text"] for line in lines]
        found[name] = lines
    return found


if __name__ == "__main__":
    typer.run(main)
