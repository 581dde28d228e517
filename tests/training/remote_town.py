"""A corpus of which a server of others finds what is meant, and text search what is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.arms.fakes import Remote, arms_file, table

BRIDGES = 60
Hit = dict[str, Any]


def question(number: int) -> str:
    """Every second question names the passage that answers it."""
    if number % 2:
        return f"Where was the maker of the bridge Pons{number} born?"
    return f"Who is Maker{number}?"


def bridge(number: int) -> Hit:
    return {"key": f"bridge{number}", "name": f"Pons{number}", "body": f"Pons{number} is long."}


def maker(number: int) -> Hit:
    return {"key": f"maker{number}", "name": f"Maker{number}", "body": f"Maker{number}, born here."}


def write_dataset(folder: Path) -> Path:
    """In BEIR's layout, with judgements for train, dev and test."""
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"q{number}", "text": question(number)} for number in range(BRIDGES)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for split, wanted in (("train", {0, 1, 2}), ("dev", {3}), ("test", {4})):
        lines = [
            f"q{number}\tmaker{number}\t1" for number in range(BRIDGES) if number // 2 % 5 in wanted
        ]
        text = "\n".join(["query-id\tcorpus-id\tscore", *lines])
        (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def graph(asked: Any) -> Any:  # noqa: ANN401 - JSON
    return {"found": {"hits": _found(asked, lambda n: maker(n) if n % 2 else bridge(n))}}


def _found(asked: Any, first: Callable[[int], Hit]) -> list[Hit]:  # noqa: ANN401 - JSON
    number = next(n for n in range(BRIDGES) if question(n) == asked["q"])
    others = [bridge(n) for n in range(number + 1, number + 4)]
    return [first(number), *others]


def write_corpus(folder: Path) -> Path:
    """The passages as JSON lines."""
    rows = [one(number) for number in range(BRIDGES) for one in (bridge, maker)]
    lines = [json.dumps({"_id": r["key"], "title": r["name"], "text": r["body"]}) for r in rows]
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_arms(folder: Path, dear: Remote, *, price: float = 0.02) -> Path:
    dear.reply = graph
    options = {"price": price, "same_ids": True, "timeout_ms": 2000}
    return arms_file(folder, table(dear.url, "dear", **options))
