"""Several datasets over one corpus: `python -m training.data.union OUT DATASET...`.

A router that has only seen corpora apart has never had to tell their questions apart. Ids take the
dataset's name in front, so that none meet; a passage that several datasets have word for word, with
the same title, is one passage, and the judgements of all of them are about it. Passages twice
within one dataset stay as they are: its judgements may tell them apart.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from training.errors import DatasetError

SEPARATOR = "/"


def write_union(out: Path, datasets: Sequence[Path]) -> int:
    """Write one BEIR folder that holds all of several.

    A passage's and a question's metadata gain `dataset`, the name it comes from first. A split is
    written for every name that any dataset has.

    Args:
        out: A folder that is missing or empty.
        datasets: BEIR folders with different names, in the order in which passages are taken.

    Returns:
        How many passages there are.

    Raises:
        DatasetError: Fewer than two datasets, names that meet, a folder that is not empty, or a
            file that is missing or cannot be read.
    """
    names = [folder.resolve().name for folder in datasets]
    if len(datasets) < 2 or len(set(names)) < len(names):
        raise DatasetError(
            f"A union needs two or more datasets with different names, not {', '.join(names)}."
        )
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"'{out}' is not empty; name a new folder for the union.")
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    moved = _write_passages(out / "corpus.jsonl", datasets, names)
    _write_questions(out / "queries.jsonl", datasets, names)
    for split in sorted({file.stem for d in datasets for file in (d / "qrels").glob("*.tsv")}):
        _write_judgements(out / "qrels" / f"{split}.tsv", split, datasets, names, moved)
    return len(set(moved.values()))


def _write_passages(path: Path, datasets: Sequence[Path], names: Sequence[str]) -> dict[str, str]:
    """Write the corpus; returns prefixed id -> id that the union has for it."""
    moved: dict[str, str] = {}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    with path.open("w", encoding="utf-8") as file:
        for folder, name in zip(datasets, names, strict=True):
            for row in _rows(folder / "corpus.jsonl"):
                id_ = _prefixed(name, row["_id"])
                content = (row.get("title") or "", row["text"])
                owner, known = first.setdefault(content, (name, id_))
                if owner != name:
                    moved[id_] = known
                    continue
                moved[id_] = id_
                file.write(_line({**row, "_id": id_, "metadata": _metadata(row, name)}))
    return moved


def _write_questions(path: Path, datasets: Sequence[Path], names: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for folder, name in zip(datasets, names, strict=True):
            for row in _rows(folder / "queries.jsonl"):
                id_ = _prefixed(name, row["_id"])
                file.write(_line({**row, "_id": id_, "metadata": _metadata(row, name)}))


def _write_judgements(
    path: Path, split: str, datasets: Sequence[Path], names: Sequence[str], moved: dict[str, str]
) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for folder, name in zip(datasets, names, strict=True):
            source = folder / "qrels" / f"{split}.tsv"
            for number, line in enumerate(_text_lines(source) if source.is_file() else (), 1):
                fields = line.split("\t")
                if number == 1 and fields[0] == "query-id":
                    continue
                if len(fields) != 3 or _prefixed(name, fields[1]) not in moved:
                    raise DatasetError(
                        f"{source}:{number} is no judgement of a passage of '{name}'; it needs "
                        "question id, passage id and a whole number, with tabs between them."
                    )
                passage = moved[_prefixed(name, fields[1])]
                file.write(f"{_prefixed(name, fields[0])}\t{passage}\t{fields[2]}\n")


def _prefixed(name: str, id_: str) -> str:
    return f"{name}{SEPARATOR}{id_}"


def _metadata(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {**(row.get("metadata") or {}), "dataset": name}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a JSON-lines file that have an id and a text."""
    for number, line in enumerate(_text_lines(path), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DatasetError(f"{path}:{number} is not JSON ({error}); mend the line.") from None
        if not isinstance(row, dict) or not all(
            isinstance(row.get(key), str) for key in ("_id", "text")
        ):
            raise DatasetError(f'{path}:{number} needs "_id" and "text", both strings.')
        yield row


def _text_lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from (line.rstrip("\r\n") for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"'{path}' cannot be read ({error}); name folders in BEIR's layout."
        ) from None


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write a union; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) < 3:
        sys.stderr.write("Usage: python -m training.data.union OUT DATASET DATASET...\n")
        return 2
    out, *datasets = map(Path, arguments)
    try:
        passages = write_union(out, datasets)
    except DatasetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{out}: {passages} passages of {len(datasets)} datasets\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
