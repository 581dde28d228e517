"""A dataset as it would be typed in a hurry: `python -m training.data.respell OUT DATASET`.

Questions lose their capitals and their question mark, and nothing else changes. Where one dataset
is typed that way and another is not, letter case tells them apart and passes for a reason; asked
this way, a question still wants the same passages.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from training.data.dataset import read_dataset
from training.errors import DatasetError


def respell(text: str) -> str:
    """A question without capitals, question mark or blanks at its end."""
    return text.lower().rstrip("? \t")


def write_respelt(out: Path, dataset: Path) -> int:
    """Write a BEIR folder with the same passages, judgements and ids, and respelt questions.

    Args:
        out: A folder that is missing or empty.

    Returns:
        How many questions there are.

    Raises:
        DatasetError: The folder is not empty, the dataset cannot be read, or a question would have
            no word left.
    """
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"'{out}' is not empty; name a new folder for the respelt dataset.")
    splits = sorted(file.stem for file in (dataset / "qrels").glob("*.tsv"))
    if not splits:
        raise DatasetError(f"'{dataset}' has no qrels; name a folder in BEIR's layout.")
    for split in splits:
        read_dataset(dataset, split)  # says what is wrong with it, if anything is
    rows = [
        json.loads(line)
        for line in (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    for row in rows:
        row["text"] = respell(row["text"])
        # The same questions, whatever the folder is called, so nothing is learned of one from it.
        row["metadata"] = {"dataset": dataset.resolve().name, **(row.get("metadata") or {})}
        if not row["text"]:
            raise DatasetError(f"Question '{row['_id']}' of '{dataset}' is nothing but marks.")
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    (out / "queries.jsonl").write_text("".join(lines), encoding="utf-8")
    shutil.copytree(dataset / "qrels", out / "qrels")
    shutil.copy(dataset / "corpus.jsonl", out / "corpus.jsonl")
    return len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Write a respelt dataset; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 2:
        sys.stderr.write("Usage: python -m training.data.respell OUT DATASET\n")
        return 2
    try:
        count = write_respelt(Path(arguments[0]), Path(arguments[1]))
    except DatasetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{arguments[0]}: {count} questions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
