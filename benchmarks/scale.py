"""What retrieval costs as the corpus grows: samples, whole corpora, their union, and beyond.

`python -m benchmarks.scale --corpus DATASET INDEX --corpus ...` searches in random samples of
the first index, in every index, and in all of them as one. "MB" is vectors and graph; "CPU" is
processor time, of questions in batches of 32 as the column before it. Then come made-up graphs of
up to a million passages, for the walk alone: "full" sweeps the graph, sixteen walks at a time in
the second column; "local" pushes from where the mass is. "same 10" is how many of the ten best are
the same. "similarity" is the scan that gives a passage's prior, on one thread. Milliseconds per
question.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from backends.numerics import products, top_rows
from backends.store.index import Index
from backends.trigraph.pagerank import (
    COLUMNS,
    Stationary,
    Walk,
    personalized_pagerank,
    share_of_mentions,
    walk_on,
)
from backends.trigraph.push import THRESHOLD, LocalWalk, local_walk
from backends.trigraph.push import personalized_pagerank as push
from backends.trigraph.retriever import TriGraphRetriever
from backends.types import Float32, Query
from benchmarks import report, synthetic
from benchmarks.questions import Analyse, with_models
from router.session import Snapshot
from router.settings import load_settings
from training.data.dataset import read_dataset

DAMPING = 0.5
DEPTH = 10
SAMPLES = (1000, 2000, 4000)
SYNTHETIC = (10_000, 30_000, 100_000, 300_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Source:
    """Passages to put into a corpus.

    Attributes:
        index: Where they are stored.
        limit: How many of them at most, drawn at random.
    """

    index: Index
    limit: int | None = None


def main(argv: Sequence[str] | None = None, analyse: Analyse = with_models) -> None:
    """Print the tables."""
    parser = report.parser(__doc__)
    parser.add_argument(
        "--corpus", nargs=2, action="append", type=Path, default=[], metavar=("DATASET", "INDEX")
    )
    parser.add_argument("--split", default="dev", help="whose questions are asked")
    parser.add_argument("--samples", nargs="*", type=int, default=SAMPLES)
    parser.add_argument("--synthetic", nargs="*", type=int, default=SYNTHETIC)
    parser.add_argument("--dimension", type=int, default=384, help="of made-up vectors")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, help="below which local walks hold mass"
    )
    arguments = parser.parse_args(argv)
    names = [dataset.resolve().name for dataset, _ in arguments.corpus]
    report.print_header(
        "Cost against corpus size",
        seed=arguments.seed,
        data=", ".join([*(f"{name} ({arguments.split})" for name in names), "made-up graphs"]),
    )
    if arguments.corpus:
        _real(arguments.corpus, arguments.split, arguments.samples, arguments.seed, analyse)
        print()
    if arguments.synthetic:
        _made_up(arguments.synthetic, arguments.seed, arguments.dimension, arguments.threshold)


def _real(
    corpora: Sequence[tuple[Path, Path]],
    split: str,
    samples: Sequence[int],
    seed: int,
    analyse: Analyse,
) -> None:
    asked = [
        analyse(index, [question.text for question in read_dataset(dataset, split).questions])
        for dataset, index in corpora
    ]
    indexes = [Index.open(index) for _, index in corpora]
    names = [dataset.resolve().name for dataset, _ in corpora]
    columns = ["corpus", "passages", "entities", "build s", "MB", "p50 ms", "p95 ms", "ms of 32"]
    table = report.Table([*columns, "CPU of 32", "dense ms", "BM25 ms"])
    sizes = [size for size in samples if size < indexes[0].count()]
    rows = [(f"{names[0]}, sample", [Source(indexes[0], size)], asked[0]) for size in sizes]
    rows += [
        (name, [Source(index)], queries)
        for name, index, queries in zip(names, indexes, asked, strict=True)
    ]
    if len(indexes) > 1:
        union = [query for queries in asked for query in queries]
        rows.append(("all of these", [Source(index) for index in indexes], union))
    for name, sources, queries in rows:
        with tempfile.TemporaryDirectory() as folder:
            merged = merge(Path(folder) / "index", sources, seed)
            table.row(name, *_search(merged, queries))


def merge(folder: Path, sources: Sequence[Source], seed: int) -> Index:
    """One index with the passages of several; ids are kept apart by a number in front.

    Raises:
        IndexMismatchError: They were written with different models.
    """
    first = sources[0].index
    merged = Index.create(folder, first.dimension, first.fingerprint)
    generator = np.random.default_rng(seed)
    for number, source in enumerate(sources):
        source.index.check(first.fingerprint)
        size = min(source.limit or source.index.count(), source.index.count())
        rows = np.sort(generator.permutation(source.index.count())[:size])
        table = source.index.snapshot().take(rows.tolist())
        for name in ("id", "document"):
            prefixed = pa.array([f"{number}:{value}" for value in table[name].to_pylist()])
            column = table.schema.get_field_index(name)
            table = table.set_column(column, table.schema.field(name), prefixed)
        with merged.writer() as writer:
            (batch,) = table.cast(writer.schema).combine_chunks().to_batches()
            writer.upsert(batch)
    merged.refresh()
    return merged


def _search(index: Index, queries: Sequence[Query]) -> list[float]:
    """Cells of one row of the first table, after the name."""
    start = perf_counter()
    snapshot = Snapshot(index, load_settings())
    graph = snapshot.graph
    build = perf_counter() - start
    p50, p95, _ = report.percentiles(_each(graph, queries))
    batches = [queries[start : start + 32] for start in range(0, len(queries), 32)]
    before = process_time()
    batched = sum(report.timed(partial(graph.search, batch, DEPTH)) for batch in batches)
    cpu = process_time() - before
    dense = report.percentiles(
        [report.timed(partial(snapshot.dense.search, [query], DEPTH)) for query in queries]
    )
    lexical = report.percentiles(
        [report.timed(partial(snapshot.lexical.search, [query], DEPTH)) for query in queries]
    )
    together = [seconds / len(queries) * 1e3 for seconds in (batched, cpu)]
    sizes = [len(snapshot), len(graph.graph)]
    return [*sizes, build, _megabytes(snapshot), p50, p95, *together, dense[0], lexical[0]]


def _megabytes(snapshot: Snapshot) -> float:
    """Vectors of passages and sentences, and the walk."""
    corpus = snapshot.corpus
    walk = walk_on(share_of_mentions(snapshot.graph.graph.counts))
    vectors = corpus.vectors.nbytes + corpus.sentence_vectors.nbytes
    return (vectors + _walk_bytes(walk)) / 1e6


def _each(graph: TriGraphRetriever, queries: Sequence[Query]) -> list[float]:
    return [report.timed(partial(graph.search, [query], DEPTH)) for query in queries]


def _made_up(sizes: Sequence[int], seed: int, dimension: int, threshold: float) -> None:
    columns = ["made-up passages", "entities", "edges", "graph MB", "full", f"full of {COLUMNS}"]
    table = report.Table([*columns, "local", "local edges", "same 10", "similarity"], width=18)
    for size in sizes:
        table.row(f"{size:,}", *_walk(size, seed, threshold), _similarity(size, dimension))


def _walk(size: int, seed: int, threshold: float) -> list[float]:
    """Cells of one row of the second table, between the first and the last."""
    generator = np.random.default_rng(seed)
    counts = synthetic.mentions(size, generator)
    walk = walk_on(share_of_mentions(counts))
    pushed = local_walk(walk)
    prior, entities = synthetic.restarts(counts, COLUMNS, generator)
    full: list[float] = []
    local: list[float] = []
    same = followed = 0
    for column in range(min(COLUMNS, 8)):
        one = prior[:, [column]], entities[:, [column]]
        seconds, swept = _timed(partial(personalized_pagerank, walk, *one, damping=DAMPING))
        full.append(seconds)
        push(pushed, *one, damping=DAMPING, threshold=threshold)
        seconds, found = _timed(partial(push, pushed, *one, damping=DAMPING, threshold=threshold))
        local.append(seconds)
        best = [set(top_rows(x.passages[:, 0], DEPTH).tolist()) for x in (swept, found)]
        same += len(best[0] & best[1])
        followed += found.steps
    sweep = partial(personalized_pagerank, walk, prior, entities, damping=DAMPING)
    batch = min(report.timed(sweep) for _ in range(2))
    return [
        counts.shape[1],
        counts.nnz,
        (_walk_bytes(walk) + _local_bytes(pushed)) / 1e6,
        float(np.median(full)) * 1e3,
        batch / COLUMNS * 1e3,
        float(np.median(local)) * 1e3,
        followed / len(local),
        same / len(local),
    ]


def _timed(call: Callable[[], Stationary]) -> tuple[float, Stationary]:
    start = perf_counter()
    found = call()
    return perf_counter() - start, found


def _similarity(size: int, dimension: int) -> float:
    vectors: Float32 = np.full((size, dimension), 0.05, np.float32)
    return min(report.timed(lambda: products(vectors, vectors[0])) for _ in range(3)) * 1e3


def _walk_bytes(walk: Walk) -> int:
    """Memory of what full sweeps use."""
    entities = walk.from_entities, walk.to_entities
    matrices = (*entities, walk.shared_to_entities, walk.shared_to_passages)
    arrays = [a for m in matrices for a in (m.data, m.indices, m.indptr)]
    return sum(array.nbytes for array in (*arrays, walk.returned))


def _local_bytes(walk: LocalWalk) -> int:
    """Memory of what local walks use beside that; the entities' edges are the same arrays."""
    edges = walk.passages
    return edges.starts.nbytes + edges.targets.nbytes + edges.shares.nbytes


if __name__ == "__main__":
    main()
