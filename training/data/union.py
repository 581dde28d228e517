"""Joins several datasets over one corpus: `python -m training.data.union OUT DATASET...`.

A router that only saw each corpus alone never had to tell their questions apart. The dataset's name
is put before each id, so that ids stay unique. A passage that several datasets have, with the same
title and text, becomes one passage with the judgements of all of them. Duplicates within one
dataset stay, since its judgements may tell them apart.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from training.data.dataset import read_lines, read_rows
from training.errors import DatasetError

SEPARATOR = "/"


def write_union(out: Path, datasets: Sequence[Path]) -> int:
    """Write the union of several BEIR folders.

    The metadata of passages and questions gain `dataset`, the name of the first dataset that has
    them. Every split that any dataset has is written.

    Args:
        out: A folder that is missing or empty.
        datasets: BEIR folders with different names; passages follow their order.

    Returns:
        The number of passages.

    Raises:
        DatasetError: Fewer than two datasets, equal names, a folder that is not empty, or a file
            that is missing or cannot be read.
    """
    names = [folder.resolve().name for folder in datasets]
    if len(datasets) < 2 or len(set(names)) < len(names):
        raise DatasetError(
            f"A union needs two or more datasets with different names, not {', '.join(names)}."
        )
    if out.exists() and any(out.iterdir()):
        raise DatasetError(f"'{out}' is not empty; name a new folder for the union.")
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    moved = _write_passages(out / "corpus.jsonl", _own_rows("corpus.jsonl", datasets, names))
    with (out / "queries.jsonl").open("w", encoding="utf-8") as file:
        for _, row in _own_rows("queries.jsonl", datasets, names):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    for split in sorted({file.stem for d in datasets for file in (d / "qrels").glob("*.tsv")}):
        _write_judgements(out / "qrels" / f"{split}.tsv", split, datasets, names, moved)
    return len(set(moved.values()))


def _own_rows(
    file: str, datasets: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of all datasets with their dataset's name, which also prefixes their ids."""
    for folder, name in zip(datasets, names, strict=True):
        for _, row in read_rows(folder / file):
            metadata = {**(row.get("metadata") or {}), "dataset": name}
            yield name, {**row, "_id": _prefixed(name, row["_id"]), "metadata": metadata}


def _write_passages(path: Path, rows: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """Write the corpus; returns prefixed id -> id in the union."""
    moved: dict[str, str] = {}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    with path.open("w", encoding="utf-8") as file:
        for name, row in rows:
            content = (row.get("title") or "", row["text"])
            owner, known = first.setdefault(content, (name, row["_id"]))
            moved[row["_id"]] = row["_id"] if owner == name else known
            if owner == name:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return moved


def _write_judgements(
    path: Path, split: str, datasets: Sequence[Path], names: Sequence[str], moved: dict[str, str]
) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for folder, name in zip(datasets, names, strict=True):
            source = folder / "qrels" / f"{split}.tsv"
            for number, line in read_lines(source) if source.is_file() else ():
                fields = line.split("\t")
                if number == 1 and fields[0] == "query-id":
                    continue
                if len(fields) != 3 or _prefixed(name, fields[1]) not in moved:
                    raise DatasetError(
                        f"{source}:{number} is not a judgement of a passage of '{name}'; it needs "
                        "a question id, a passage id and a whole number, separated by tabs."
                    )
                passage = moved[_prefixed(name, fields[1])]
                file.write(f"{_prefixed(name, fields[0])}\t{passage}\t{fields[2]}\n")


def _prefixed(name: str, id_: str) -> str:
    return f"{name}{SEPARATOR}{id_}"


def main(out: Path, datasets: list[Path]) -> None:
    """Merge several datasets in BEIR's layout into one, with their names as prefixes of ids."""
    try:
        passages = write_union(out, datasets)
    except DatasetError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{out}: {passages} passages of {len(datasets)} datasets")


if __name__ == "__main__":
    typer.run(main)
