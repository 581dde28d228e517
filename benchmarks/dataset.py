"""Compares Lance's searches of a dataset on the disk with the same index in memory.

The index is copied and its indices are built. Then the questions of a split go through each route
with both engines, one after another, on one thread. Times are without the models' stages. Look at
them from an otherwise idle machine.
"""

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.harness import Table
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import Ask, Reply, Route
from wye.training.data import Dataset, read_dataset

ENGINES = ("memory", "dataset")
ROUTES = (Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.FUSION, Route.STEPS, Route.AUTO)
MODELS = ("encoding", "parsing")
FIRST = 5
DEPTH = 10
WARM_UP = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the data, its split and how many questions are asked."""
    harness.add_data(parser)
    parser.add_argument("--split", default="dev", help="split of the questions (default dev)")
    parser.add_argument("--most", type=int, default=200, help="most questions (default 200)")


def run(given: argparse.Namespace) -> None:
    """Build the indices and print the table."""
    dataset = read_dataset(given.dataset, given.split)
    rng = np.random.default_rng(given.seed)
    order = rng.permutation(len(dataset.questions))[: given.most].tolist()
    with harness.index_of(given) as source, tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(source, Path(scratch) / "index"))
        memory, lance = (Session.open(load_settings(engine=e), folder) for e in ENGINES)
        with memory, lance, threadpool_limits(1):
            building = harness.timed(partial(memory.build_indices, again=True))
            data = f"{harness.data_name(given)}, {memory.count:,} passages, {given.split}"
            harness.print_header("The dataset as the engine", seed=given.seed, data=data)
            print(f"Indices built in {building:.1f} s; {len(order)} questions.\n")
            lance = lance.reload() or lance
            opening = harness.timed(lambda: lance.snapshot)
            print(f"Opened by Lance in {opening:.3f} s.\n")
            table = Table(["route", "engine", "recall@5", "p50 ms", "p95 ms", "same as memory"], 14)
            for route in ROUTES:
                replies: dict[str, Sequence[Reply]] = {}
                for engine, session in zip(ENGINES, (memory, lance), strict=True):
                    replies[engine] = _answers(session, dataset, order, route)
                    _print(table, route, engine, replies, _recalls(replies[engine], dataset, order))


def _answers(session: Session, dataset: Dataset, order: Sequence[int], route: Route) -> list[Reply]:
    texts = [dataset.questions[row].text for row in order]
    ask = Ask(route, DEPTH)
    for text in texts[:WARM_UP]:
        session.gateway.search([text], ask)
    return [reply for text in texts for reply in session.gateway.search([text], ask)]


def _recalls(replies: Sequence[Reply], dataset: Dataset, order: Sequence[int]) -> list[float]:
    recalls = []
    for row, reply in zip(order, replies, strict=True):
        judged = dataset.judgements[dataset.questions[row].id]
        relevant = {id_ for id_, grade in judged.items() if grade > 0}
        recalls.append(len(relevant.intersection(reply.ranking.ids(FIRST))) / len(relevant))
    return recalls


def _print(
    table: Table,
    route: Route,
    engine: str,
    replies: Mapping[str, Sequence[Reply]],
    recalls: Sequence[float],
) -> None:
    seconds = [
        sum(time for stage, time in reply.seconds.items() if stage not in MODELS)
        for reply in replies[engine]
    ]
    same = [
        one.route == other.route and one.ranking.ids(FIRST) == other.ranking.ids(FIRST)
        for one, other in zip(replies[ENGINES[0]], replies[engine], strict=True)
    ]
    same_route = [
        one.route == other.route
        for one, other in zip(replies[ENGINES[0]], replies[engine], strict=True)
    ]
    p50, p95 = (1000 * float(np.quantile(seconds, share)) for share in (0.5, 0.95))
    agreement = f"{np.mean(same):.2f}"
    if route == Route.AUTO:
        agreement += f"; route {np.mean(same_route):.2f}"
    table.row(route, engine, f"{np.mean(recalls):.4f}", f"{p50:.1f}", f"{p95:.1f}", agreement)
