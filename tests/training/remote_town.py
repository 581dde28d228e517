"""A corpus that two servers of others search: one finds what is named, one what is meant."""

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


def simple(asked: Any) -> Any:  # noqa: ANN401 - JSON
    return {"found": {"hits": _found(asked, lambda n: bridge(n) if n % 2 else maker(n))}}


def graph(asked: Any) -> Any:  # noqa: ANN401 - JSON
    return {"found": {"hits": _found(asked, lambda n: maker(n) if n % 2 else bridge(n))}}


def _found(asked: Any, first: Callable[[int], Hit]) -> list[Hit]:  # noqa: ANN401 - JSON
    number = next(n for n in range(BRIDGES) if question(n) == asked["q"])
    others = [bridge(n) for n in range(number + 1, number + 4)]
    return [first(number), *others]


def write_arms(folder: Path, cheap: Remote, dear: Remote, *, price: float = 0.02) -> Path:
    cheap.reply, dear.reply = simple, graph
    return arms_file(
        folder,
        table(cheap.url, "cheap", role="simple", price=0.0, timeout_ms=2000),
        table(dear.url, "dear", price=price, same_ids=True, timeout_ms=2000),
    )
