"""A dataset as it would be typed in a hurry: `python -m training.data.respell OUT DATASET [WAY]`.

Questions lose their capitals and their question mark, and nothing else changes. Where one dataset
is typed that way and another is not, letter case tells them apart and passes for a reason; asked
this way, a question still wants the same passages. Two more ways, `unmarked` and `mistyped`, show
what a router is worth on spellings that it has not seen.
"""

import json
import random
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from training.data.dataset import read_dataset
from training.errors import DatasetError


def respell(text: str) -> str:
    """A question without capitals, question mark or blanks at its end."""
    return text.lower().rstrip("? \t")


def unmark(text: str) -> str:
    """A question without question mark or blanks at its end."""
    return text.rstrip("? \t")


def mistype(text: str) -> str:
    """A question with two neighbouring letters swapped in a third of its words of five or more.

    The first and the last letter stay, and the same question is always mistyped the same way.
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
"""Of spelling, by name."""


def write_respelt(out: Path, dataset: Path, way: str = "hurried") -> int:
    """Write a BEIR folder with the same passages, judgements and ids, and respelt questions.

    Args:
        out: A folder that is missing or empty.
        way: One of `WAYS`.

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
        row["text"] = WAYS[way](row["text"])
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
    way = arguments[2] if len(arguments) == 3 else "hurried"
    if len(arguments) not in (2, 3) or way not in WAYS:
        ways = "|".join(WAYS)
        sys.stderr.write(f"Usage: python -m training.data.respell OUT DATASET [{ways}]\n")
        return 2
    try:
        count = write_respelt(Path(arguments[0]), Path(arguments[1]), way)
    except DatasetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{arguments[0]}: {count} questions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
