"""Dense search: what the approximate kinds lose against exact search, and what they save.

`python -m benchmarks.dense` measures on clustered vectors of its own making; `--index DIR` on
the passages of an index. Questions are passages with noise added, which an approximate kind has
not seen. "of 32" is per question in batches of 32, "filter" with a tenth of the passages allowed,
and "index MB" comes on top of the vectors. "FAISS flat" is there to justify that the exact kind
scans with BLAS instead.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import faiss
import numpy as np

from backends.dense import DenseRetriever, DenseSettings
from backends.store.index import Index
from backends.store.snapshot import read_corpus
from backends.types import Float32, Mask, Query
from benchmarks import report

K = 10
BATCH = 32
COLUMNS = ("kind", "passages", "R@10", "build s", "index MB", "p50 ms", "p95 ms", "p99 ms")
BATCHED = (f"of {BATCH}: p50", "p95", "p99", "filter p50")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    arguments = _parse(argv)
    generator = np.random.default_rng(arguments.seed)
    if arguments.index:
        corpora = [read_corpus(Index.open(arguments.index)).vectors]
        data = f"{len(corpora[0])} passages of {arguments.index.resolve().name}"
    else:
        corpora = [clustered(generator, n, arguments.dimension) for n in arguments.passages]
        data = f"clustered vectors, {arguments.passages} x {arguments.dimension}"
    data += f"; {arguments.questions} questions"
    report.print_header("Dense search", seed=arguments.seed, data=data)
    table = report.Table([*COLUMNS, *BATCHED], width=44)
    for vectors in corpora:
        task = _task(vectors, arguments.questions, generator)
        table.row("FAISS flat", len(vectors), *_flat(task))
        for name, settings in arguments.settings.items():
            chosen = DenseSettings(**{"scan_below": 0, **settings})
            table.row(name, len(vectors), *_kind(chosen, task))


def clustered(generator: np.random.Generator, n: int, d: int) -> Float32:
    """(n, d) unit vectors around n / 50 centres, unevenly many around each."""
    centres = generator.standard_normal((max(1, n // 50), d), dtype=np.float32)
    weights = generator.pareto(2, len(centres)) + 1
    members = generator.choice(len(centres), n, p=weights / weights.sum())
    return _noisy(generator, centres[members], 0.8)


def _noisy(generator: np.random.Generator, vectors: Float32, share: float) -> Float32:
    """Unit vectors near others; noise as long as `share` of the vector."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True) / vectors.shape[1] ** 0.5
    noise = generator.standard_normal(vectors.shape, dtype=np.float32)
    moved: Float32 = vectors + np.float32(share) * length * noise
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return moved


@dataclass(frozen=True, slots=True)
class Task:
    """What every kind has to do.

    Attributes:
        vectors: (n, d) of the passages.
        asked: (b, d) of the questions.
        allowed: (n,) of the filtered searches.
        ids: Of the passages.
        truth: What exact search finds for each question.
    """

    vectors: Float32
    asked: Float32
    allowed: Mask
    ids: list[str]
    truth: list[set[str]]


def _task(vectors: Float32, questions: int, generator: np.random.Generator) -> Task:
    ids = [_id(row) for row in range(len(vectors))]
    asked = _noisy(generator, vectors[generator.integers(0, len(vectors), questions)], 0.5)
    exact = DenseRetriever(ids, vectors).search(_queries(asked), K)
    truth = [{hit.id for hit in ranking.hits} for ranking in exact]
    return Task(vectors, asked, generator.random(len(vectors)) < 0.1, ids, truth)


def _flat(task: Task) -> list[float]:
    """FAISS's own exact index with its copy of the vectors: cells after name and size."""
    index = faiss.IndexFlatIP(task.vectors.shape[1])
    build = report.timed(lambda: index.add(task.vectors))
    found = [[_id(row) for row in rows] for rows in index.search(task.asked, K)[1]]
    times = _times(task.asked, lambda part: index.search(part, K))
    return [_recall(found, task.truth), build, task.vectors.nbytes / 1e6, *times, np.nan]


def _kind(settings: DenseSettings, task: Task) -> list[float]:
    """One of ours: cells after name and size."""
    start = perf_counter()
    retriever = DenseRetriever(task.ids, task.vectors, settings)
    build = perf_counter() - start
    rankings = retriever.search(_queries(task.asked), K)
    found = [[hit.id for hit in ranking.hits] for ranking in rankings]
    times = _times(task.asked, lambda part: retriever.search(_queries(part), K))
    filtered = [
        report.timed(partial(retriever.search, [query], K, task.allowed))
        for query in _queries(task.asked)
    ]
    size = retriever.index_bytes / 1e6
    return [_recall(found, task.truth), build, size, *times, report.percentiles(filtered)[0]]


def _times(asked: Float32, search: Callable[[Float32], object]) -> list[float]:
    """p50, p95 and p99 in milliseconds per question, alone and in batches."""
    search(asked[:1])
    alone = [report.timed(partial(search, asked[row : row + 1])) for row in range(len(asked))]
    starts = range(0, len(asked), BATCH)
    parts = [asked[start : start + BATCH] for start in starts]
    batched = [report.timed(partial(search, part)) / len(part) for part in parts]
    return [*report.percentiles(alone), *report.percentiles(batched)]


def _queries(vectors: Float32) -> list[Query]:
    return [Query(str(row), vector) for row, vector in enumerate(vectors)]


def _id(row: int) -> str:
    return f"{row:09}"


def _recall(found: Sequence[Sequence[str]], truth: Sequence[set[str]]) -> float:
    shares = [len(best & set(ids)) / len(best) for ids, best in zip(found, truth, strict=True)]
    return float(np.mean(shares))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = report.parser(__doc__)
    parser.add_argument("--passages", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--questions", type=int, default=256)
    parser.add_argument("--index", type=Path, help="measure on this index's passages instead")
    parser.add_argument(
        "--settings",
        nargs="+",
        metavar="JSON",
        default=['{"kind": "exact"}', '{"kind": "hnsw"}', '{"kind": "ivfpq"}'],
        help='fields of DenseSettings, as in \'{"kind": "hnsw", "hnsw_search": 64}\'',
    )
    arguments = parser.parse_args(argv)
    arguments.settings = {text: json.loads(text) for text in arguments.settings}
    return arguments


if __name__ == "__main__":
    main()
