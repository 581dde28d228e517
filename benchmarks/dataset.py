"""Compares Lance's searches of a dataset on the disk with the same index in memory.

The index is copied and its indices are built. Then the questions of a split go through each route
with both engines, which take turns, on one thread. Times leave out the models, and mean little on a
busy machine; processor time is that of all threads, models included.
"""

import argparse
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.harness import Table
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Route
from wye.training.data import Dataset, read_dataset

ENGINES = ("memory", "dataset")
ROUTES = (Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.FUSION, Route.STEPS, Route.AUTO)
FIRST = 5
DEPTH = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the data, its split and how many questions are asked."""
    harness.add_data(parser)
    parser.add_argument("--split", default="dev", help="split of the questions (default dev)")
    parser.add_argument("--most", type=int, default=200, help="most questions (default 200)")


def run(args: argparse.Namespace) -> None:
    """Build the indices and print the table."""
    dataset = read_dataset(args.dataset, args.split)
    order = np.random.default_rng(args.seed).permutation(len(dataset.questions))[: args.most]
    dataset = replace(dataset, questions=tuple(dataset.questions[row] for row in order.tolist()))
    with harness.index_of(args) as source, tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(source, Path(scratch) / "index"))
        memory, lance = (Session.open(load_settings(engine=e), folder) for e in ENGINES)
        with memory, lance, threadpool_limits(1):
            building = harness.timed(partial(memory.build_indices, again=True))
            data = f"{harness.data_name(args)}, {memory.count:,} passages, {args.split}"
            harness.print_header("The dataset as the engine", seed=args.seed, data=data)
            print(f"Indices built in {building:.1f} s; {len(order)} questions.\n")
            lance = lance.reload() or lance
            opening = harness.timed(lambda: lance.snapshot)
            print(f"Opened by Lance in {opening:.3f} s.\n")
            table = Table(
                ["route", "engine", "recall@5", "p50 ms", "p95 ms", "processor ms", "same hits"], 14
            )
            for route in ROUTES:
                print_route(table, {"memory": memory, "dataset": lance}, dataset, route)


def print_route(
    table: Table, sessions: Mapping[str, Session], dataset: Dataset, route: Route
) -> None:
    """Ask both engines in turns, and print a row for each."""
    texts = [question.text for question in dataset.questions]
    asks = {name: harness.over(each, Ask(route, DEPTH)) for name, each in sessions.items()}
    taken = harness.in_turns(asks, texts)
    for engine, times in taken.items():
        of_engine = [each.reply for each in times]
        hits = [reply.ranking.ids(FIRST) for reply in of_engine]
        pairs = [*zip((each.reply for each in taken[ENGINES[0]]), of_engine, strict=True)]
        same = np.mean([a.ranking.ids(FIRST) == b.ranking.ids(FIRST) for a, b in pairs])
        routes = np.mean([a.route == b.route for a, b in pairs])
        p50, p95, _ = harness.percentiles([*map(harness.search_seconds, of_engine)])
        processor = float(np.median([each.processor for each in times]))
        table.row(
            route,
            engine,
            f"{harness.measured(dataset, hits, 'R@5').mean():.4f}",
            *(f"{time:.1f}" for time in (p50, p95, 1000 * processor)),
            f"{same:.2f}" + (f", route {routes:.2f}" if route == Route.AUTO else ""),
        )
