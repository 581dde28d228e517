"""Respells a dataset as if typed in a hurry: `python -m training.data.respell OUT DATASET [WAY]`.

Questions lose their capitals and their question mark; the relevant passages stay the same. If only
one of two datasets were typed that way, a router could tell them apart by letter case and learn
that instead. Two more ways, `unmarked` and `mistyped`, test a router on spellings it has not seen.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from training.data.dataset import read_dataset, read_rows
from training.errors import DatasetError


def respell(text: str) -> str:
    """A question without capitals, question mark or blanks at its end."""
    return text.lower().rstrip("? \t")


def unmark(text: str) -> str:
    """A question without question mark or blanks at its end."""
    return text.rstrip("? \t")


def mistype(text: str) -> str:
    """A question with two adjacent letters swapped in a third of its words of five letters or more.

    The first and the last letter of a word stay. A question is always mistyped in the same way.
    """
    draw = random.Random(text)

    def swapped(found: re.Match[str]) -> str:
        word, at = found[0], draw.randrange(1, len(found[0]) - 2)
        if draw.random() >= _MISTYPED:
            return word
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    return _LONG.sub(swapped, text)


_MISTYPED = 1 / 3
_LONG = re.compile(r"[^\W\d_]{5,}")
WAYS: Mapping[str, Callable[[str], str]] = {
    "hurried": respell,
    "unmarked": unmark,
    "mistyped": mistype,
}
"""Ways to spell, by name."""


def write_respelt(out: Path, dataset: Path, way: str = "hurried") -> int:
    """Write a BEIR folder with the same passages, judgements and ids, and respelt questions.

    Args:
        out: A folder that is missing or empty.

    Returns:
        The number of questions.

    Raises:
        DatasetError: The folder is not empty, the dataset cannot be read, or a question would have
            no word left.
    """
    if way not in WAYS:
        raise DatasetError(f"There is no spelling '{way}'; use one of {', '.join(WAYS)}.")
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"'{out}' is not empty; name a new folder for the respelt dataset.")
    splits = sorted(file.stem for file in (dataset / "qrels").glob("*.tsv"))
    if not splits:
        raise DatasetError(f"'{dataset}' has no qrels; name a folder in BEIR's layout.")
    for split in splits:
        read_dataset(dataset, split)  # says what is wrong with it, if anything is
    rows = [row for _, row in read_rows(dataset / "queries.jsonl")]
    for row in rows:
        row["text"] = WAYS[way](row["text"])
        # The group stays the original dataset, so that both spellings count as one dataset.
        row["metadata"] = {"dataset": dataset.resolve().name, **(row.get("metadata") or {})}
        if not row["text"]:
            raise DatasetError(f"Question '{row['_id']}' of '{dataset}' has no word.")
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (out / "queries.jsonl").write_text("".join(lines), encoding="utf-8")
    shutil.copytree(dataset / "qrels", out / "qrels")
    shutil.copy(dataset / "corpus.jsonl", out / "corpus.jsonl")
    return len(rows)


def main(
    out: Path, dataset: Path, way: Annotated[str, typer.Argument(help=", ".join(WAYS))] = "hurried"
) -> None:
    """Write a copy of a dataset in BEIR's layout with its questions respelt."""
    try:
        count = write_respelt(out, dataset, way)
    except DatasetError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{out}: {count} questions")


if __name__ == "__main__":
    typer.run(main)
