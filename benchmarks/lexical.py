"""BM25 beside Lance's full-text index: quality, cost of building and of updating.

`python -m benchmarks.lexical DATASET...` takes folders in BEIR's layout. "stable" is the share
of questions whose ten best, scores included, are the same after an update (all but the last 100
passages indexed, then those added) as after indexing everything at once. "MB" is the index: in
memory for ours, on disk for Lance.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import lance
import numpy as np
import pyarrow as pa

from backends.documents import read_passages
from backends.lexical import LexicalRetriever, LexicalSettings
from backends.types import Passage, Query
from benchmarks import report
from training.data.dataset import Dataset, read_dataset
from training.evaluation.measures import MEASURES, score

UPDATE = 100
DEPTH = 10

SearchResult = list[tuple[str, float]]
"""Ids and scores, best first."""


class Engine(Protocol):
    """What is compared."""

    def build(self, passages: Sequence[Passage]) -> None:
        """Index these and nothing else."""
        ...

    def add(self, before: Sequence[Passage], after: Sequence[Passage]) -> None:
        """With `before` indexed, make `before + after` searchable."""
        ...

    def search(self, text: str) -> SearchResult:
        """The best `DEPTH`."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the index, without the passages."""
        ...


class Ours:
    """The lexical arm, which is made anew for every version."""

    def __init__(self, settings: LexicalSettings) -> None:
        self._settings = settings

    def build(self, passages: Sequence[Passage]) -> None:
        """Tokenise and weigh."""
        ordered = sorted(passages, key=lambda passage: passage.id)
        ids = [passage.id for passage in ordered]
        self._retriever = LexicalRetriever(ids, map(_text, ordered), self._settings)

    def add(self, before: Sequence[Passage], after: Sequence[Passage]) -> None:
        """There is no shorter way: every weight depends on every passage."""
        self.build([*before, *after])

    def search(self, text: str) -> SearchResult:
        """Through the arm."""
        ranking = self._retriever.search([Query(text, np.empty(0, np.float32))], DEPTH)[0]
        return [(hit.id, hit.score) for hit in ranking.hits]

    @property
    def size(self) -> int:
        """In memory."""
        return self._retriever.index_bytes


class LanceText:
    """Lance's inverted index, with its English analyser (stemming, stop words, ASCII folding)."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "passages.lance"

    def build(self, passages: Sequence[Passage]) -> None:
        """Write the rows and index their text."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._dataset = lance.write_dataset(_rows(passages), self._path)
        self._dataset.create_scalar_index(
            "text", "INVERTED", stem=True, remove_stop_words=True, ascii_folding=True
        )

    def add(self, before: Sequence[Passage], after: Sequence[Passage]) -> None:
        """Append rows and let the index take them in."""
        del before
        self._dataset = lance.write_dataset(_rows(after), self._path, mode="append")
        self._dataset.optimize.optimize_indices()
        self._dataset = lance.dataset(self._path)

    def search(self, text: str) -> SearchResult:
        """Through a scanner, scores included."""
        table = self._dataset.scanner(
            columns=["id", "_score"], full_text_query=text, limit=DEPTH
        ).to_table()
        columns = table["id"].to_pylist(), table["_score"].to_pylist()
        return list(zip(*columns, strict=True))

    @property
    def size(self) -> int:
        """On disk."""
        return report.folder_bytes(self._path / "_indices")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = report.parser(__doc__)
    parser.add_argument("datasets", nargs="+", type=Path, help="folders in BEIR's layout")
    parser.add_argument("--split", default="dev", help="whose questions are asked")
    arguments = parser.parse_args(argv)
    names = ", ".join(folder.resolve().name for folder in arguments.datasets)
    report.print_header(
        "BM25 beside Lance's full-text index", seed=None, data=f"{names} ({arguments.split})"
    )
    columns = ["engine", "questions", "R@5", "nDCG@10", "build s", f"add {UPDATE} s"]
    table = report.Table([*columns, "p50 ms", "p95 ms", "p99 ms", "MB", "stable"], width=28)
    for folder in arguments.datasets:
        dataset = read_dataset(folder, arguments.split)
        passages = list(read_passages(folder))
        with tempfile.TemporaryDirectory() as scratch:
            engines: dict[str, Engine] = {
                "ours": Ours(LexicalSettings()),
                "ours, plain": Ours(LexicalSettings(1.2, 0.75, stemmer="none", stopwords=())),
                "lance": LanceText(Path(scratch)),
            }
            for name, engine in engines.items():
                table.row(f"{dataset.name} {name}", *_measure(engine, dataset, passages))


def _measure(engine: Engine, dataset: Dataset, passages: Sequence[Passage]) -> list[float]:
    """Cells of one row, after the first."""
    before, after = passages[:-UPDATE], passages[-UPDATE:]
    texts = [question.text for question in dataset.questions]
    engine.build(before)
    add = report.timed(lambda: engine.add(before, after))
    updated = [engine.search(text) for text in texts]
    build = report.timed(lambda: engine.build(passages))
    fresh = [engine.search(text) for text in texts]
    seconds = [report.timed(lambda text=text: engine.search(text)) for text in texts]  # type: ignore[misc]
    ids = (question.id for question in dataset.questions)
    run = {id_: [hit for hit, _ in found] for id_, found in zip(ids, fresh, strict=True)}
    means = dict(zip(MEASURES, score(dataset.judgements, run).mean(axis=0).tolist(), strict=True))
    stable = float(np.mean([one == other for one, other in zip(updated, fresh, strict=True)]))
    quality = [len(texts), means["R@5"], means["nDCG@10"]]
    return [*quality, build, add, *report.percentiles(seconds), engine.size / 1e6, stable]


def _text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


def _rows(passages: Sequence[Passage]) -> pa.Table:
    ids = [passage.id for passage in passages]
    return pa.table({"id": ids, "text": [_text(passage) for passage in passages]})


if __name__ == "__main__":
    main()
