"""What grows with the corpus, on made-up data: dense search, and walks over the graph.

Vectors lie around centres; questions are passages with noise added, which an approximate kind has
not seen. "of 32" is a question's share of a batch of 32, "filter" a search among a tenth of the
passages, and "index MB" comes on top of the vectors. Graphs have the shape of real ones: "full"
sweeps the graph, sixteen walks at a time in the second column; "local" pushes from where the mass
is, and "same 10" is how many of the ten best are then the same.
"""

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from scipy import sparse

from backends.dense import DenseRetriever, DenseSettings
from backends.numerics import top_rows
from backends.trigraph.pagerank import (
    COLUMNS,
    Masses,
    personalized_pagerank,
    share_of_mentions,
    walk_on,
)
from backends.trigraph.push import Restart, local_walk
from backends.trigraph.push import personalized_pagerank as push
from backends.types import Float32, Float64, Int64, Mask, Query
from benchmarks import harness
from benchmarks.harness import Table

DIMENSION = 384
QUESTIONS = 256
K = 10
BATCH = 32
DAMPING = 0.5
WALKS = 8
MENTIONS = 12
SENTENCES = 4
ENTITIES_PER_PASSAGE = 4
EXPONENT = 0.8
"""The r-th most frequent entity is mentioned in proportion to r to minus this power."""

Search = Callable[[Float32], list[set[int]]]
"""(b, d) questions to the rows of the ten best for each."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the sizes."""
    vectors, graphs = [20_000, 100_000], [10_000, 30_000, 100_000, 300_000, 1_000_000]
    parser.add_argument("--vectors", nargs="*", type=int, default=vectors, help="numbers of them")
    parser.add_argument("--graphs", nargs="*", type=int, default=graphs, help="passages in each")


def run(given: argparse.Namespace) -> None:
    """Print the tables."""
    data = f"made-up vectors {given.vectors} x {DIMENSION}, made-up graphs {given.graphs}"
    harness.print_header("What grows with the corpus", seed=given.seed, data=data)
    generator = np.random.default_rng(given.seed)
    columns = ["dense", "passages", "R@10", "build s", "index MB", "p50 ms", "p95 ms", "p99 ms"]
    table = Table([*columns, f"of {BATCH}: p50", "filter p50"], width=12)
    for size in given.vectors:
        vectors = clustered(generator, size, DIMENSION)
        rows = generator.integers(0, size, min(QUESTIONS, size))
        allowed = generator.random(size) < 0.1
        print_dense(table, vectors, noisy(generator, vectors[rows], 0.5), allowed)
    print()
    columns = ["passages", "entities", "edges", "MB", "full ms", f"of {COLUMNS}: ms", "local ms"]
    table = Table([*columns, "local edges", "same 10"], width=12)
    for size in given.graphs:
        table.row(f"{size:,}", *time_walks(size, given.seed))


def print_dense(table: Table, vectors: Float32, asked: Float32, allowed: Mask) -> None:
    """A row for each kind."""
    ids = [f"{row:09}" for row in range(len(vectors))]
    truth: list[set[int]] = []
    for kind in ("exact", "compressed"):
        start = perf_counter()
        arm = DenseRetriever(ids, vectors, DenseSettings(kind=kind))
        build = perf_counter() - start

        def search(part: Float32, arm: DenseRetriever = arm) -> list[set[int]]:
            return [{int(hit.id) for hit in r.hits} for r in arm.search(as_queries(part), K)]

        found = search(asked)
        truth = truth or found
        recall = float(np.mean([len(a & b) / K for a, b in zip(found, truth, strict=True)]))
        filtered = [
            harness.timed(partial(arm.search, [query], K, allowed)) for query in as_queries(asked)
        ]
        times = [*search_times(search, asked), harness.percentiles(filtered)[0]]
        table.row(kind, len(vectors), recall, build, arm.index_bytes / 1e6, *times)


def search_times(search: Search, asked: Float32) -> list[float]:
    """p50, p95 and p99 in milliseconds alone, and p50 per question in batches."""
    search(asked[:1])
    alone = [harness.timed(partial(search, asked[row : row + 1])) for row in range(len(asked))]
    parts = [asked[start : start + BATCH] for start in range(0, len(asked), BATCH)]
    batched = [harness.timed(partial(search, part)) / len(part) for part in parts]
    return [*harness.percentiles(alone), harness.percentiles(batched)[0]]


def as_queries(vectors: Float32) -> list[Query]:
    """Queries of vectors alone."""
    return [Query("", vector) for vector in vectors]


def clustered(generator: np.random.Generator, n: int, d: int) -> Float32:
    """(n, d) unit vectors around n / 50 centres, unevenly many around each."""
    centres = generator.standard_normal((max(1, n // 50), d), dtype=np.float32)
    weights = generator.pareto(2, len(centres)) + 1
    members = generator.choice(len(centres), n, p=weights / weights.sum())
    return noisy(generator, centres[members], 0.8)


def noisy(generator: np.random.Generator, vectors: Float32, share: float) -> Float32:
    """Unit vectors near others; noise as long as `share` of the vector."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True) / vectors.shape[1] ** 0.5
    noise = generator.standard_normal(vectors.shape, dtype=np.float32)
    moved: Float32 = vectors + np.float32(share) * length * noise
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    return moved


def time_walks(size: int, seed: int) -> list[float]:
    """Cells of one row of the second table, after the first."""
    generator = np.random.default_rng(seed)
    counts = mentions(size, generator)
    weights = share_of_mentions(counts)
    walk, pushed = walk_on(weights), local_walk(weights)
    prior, entities = restarts(counts, COLUMNS, generator)
    sweep = partial(personalized_pagerank, walk, damping=DAMPING)
    full: list[float] = []
    local: list[float] = []
    same = followed = 0
    rows = np.arange(size, dtype=np.int64)
    given = [Restart(rows, prior[:, column], *entities[column]) for column in range(WALKS)]
    push(pushed, given[:1], damping=DAMPING)  # makes room, once
    for column in range(WALKS):
        one = prior[:, [column]], entities[column : column + 1]
        start = perf_counter()
        swept = sweep(*one)
        full.append(perf_counter() - start)
        start = perf_counter()
        (found,) = push(pushed, [given[column]], damping=DAMPING)
        local.append(perf_counter() - start)
        best = top_rows(swept[:, 0], K), found.passages[top_rows(found.mass, K)]
        same += len(np.intersect1d(*best))
        followed += found.edges
    together = min(harness.timed(lambda: sweep(prior, entities)) for _ in range(2))
    matrices = walk.from_entities, walk.kernel
    arrays = [array for m in matrices for array in (m.data, m.indices, m.indptr)]
    return [
        counts.shape[1],
        counts.nnz,
        sum(array.nbytes for array in (*arrays, walk.root, walk.returned)) / 1e6,
        float(np.median(full)) * 1e3,
        together / COLUMNS * 1e3,
        float(np.median(local)) * 1e3,
        followed / WALKS,
        same / WALKS,
    ]


def mentions(passages: int, generator: np.random.Generator) -> sparse.csc_array:
    """How often each passage mentions each entity.

    A passage has about 12 mentions in 4 sentences, of which each repeats its passage's subject, an
    entity of the passage's own; the rest are drawn from a power law.

    Returns:
        (passages, entities) float32.
    """
    common = ENTITIES_PER_PASSAGE * passages
    drawn = generator.poisson(MENTIONS - SENTENCES, passages)
    rows = np.repeat(np.arange(passages, dtype=np.int64), drawn)
    columns = power_law(len(rows), common, generator)
    own = np.arange(passages, dtype=np.int64)
    where = (np.concatenate([rows, own]), np.concatenate([columns, common + own]))
    often = np.ones(len(where[0]), np.float32)
    often[len(rows) :] = SENTENCES
    counts = sparse.csc_array((often, where), shape=(passages, common + passages))
    counts.sum_duplicates()
    return counts


def power_law(count: int, size: int, generator: np.random.Generator) -> Int64:
    """Numbers below `size`, the r-th in proportion to r^-EXPONENT, by inverse transform."""
    power = 1 - EXPONENT
    rank = (1 + generator.random(count) * ((size + 1) ** power - 1)) ** (1 / power)
    drawn: Int64 = np.minimum(rank.astype(np.int64) - 1, size - 1)
    return drawn


def restarts(
    counts: sparse.csc_array, columns: int, generator: np.random.Generator
) -> tuple[Float64, list[Masses]]:
    """Restart masses with the sizes that default settings give real questions.

    Every passage has its similarity's share. The subjects of two passages, and eight entities that
    these mention, are active; where such a subject is a title, its passage has far more.

    Returns:
        (n, columns) of the passages, and of the entities for each column.
    """
    n = counts.shape[0]
    prior = np.clip(generator.normal(0.4, 0.12, (n, columns)), 0, 1) * 0.2
    degree, by_passage = np.diff(counts.indptr), counts.tocsr()
    active: list[Int64] = []
    for column in range(columns):
        subjects = generator.choice(n, 2, replace=False)
        prior[subjects, column] += generator.uniform(1, 16, 2)
        near = [by_passage[[row]].indices for row in subjects]
        active.append(np.unique(np.concatenate(near))[:10].astype(np.int64))
    return prior, [(own, generator.uniform(0.35, 1.5, len(own)) / degree[own]) for own in active]
