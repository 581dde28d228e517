"""Compares Lance's searches of a dataset on the disk with the same index in memory.

The index is copied and its indices are built. Then the questions of a split go through each route
with both engines, which take turns, on one thread. Times leave out the models, and mean little on a
busy machine; processor time is that of all threads, models included.
"""

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

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


def run(args: argparse.Namespace) -> None:
    """Build the indices and print the table."""
    dataset = read_dataset(args.dataset, args.split)
    rng = np.random.default_rng(args.seed)
    order = rng.permutation(len(dataset.questions))[: args.most].tolist()
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
            sessions = dict(zip(ENGINES, (memory, lance), strict=True))
            for route in ROUTES:
                answers = _answers(sessions, dataset, order, route)
                for engine in ENGINES:
                    recalls = _recalls(answers[engine], dataset, order)
                    _print(table, route, engine, answers, recalls)


class TimedReply(NamedTuple):
    """A reply, and the seconds of all processors that it took."""

    reply: Reply
    processor: float


def _answers(
    sessions: Mapping[str, Session], dataset: Dataset, order: Sequence[int], route: Route
) -> dict[str, list[TimedReply]]:
    """The answers of both engines, which take turns."""
    texts = [dataset.questions[row].text for row in order]
    answers: dict[str, list[TimedReply]] = {engine: [] for engine in sessions}
    for number, text in enumerate([*texts[:WARM_UP], *texts]):
        for engine, session in sessions.items():
            start = process_time()
            (reply,) = session.gateway.search([text], Ask(route, DEPTH))
            if number >= WARM_UP:
                answers[engine].append(TimedReply(reply, process_time() - start))
    return answers


def _recalls(answers: Sequence[TimedReply], dataset: Dataset, order: Sequence[int]) -> list[float]:
    recalls = []
    for row, answer in zip(order, answers, strict=True):
        judged = dataset.judgements[dataset.questions[row].id]
        relevant = {id_ for id_, grade in judged.items() if grade > 0}
        hits = answer.reply.ranking.ids(FIRST)
        recalls.append(len(relevant.intersection(hits)) / len(relevant))
    return recalls


def _print(
    table: Table,
    route: Route,
    engine: str,
    answers: Mapping[str, Sequence[TimedReply]],
    recalls: Sequence[float],
) -> None:
    replies = [answer.reply for answer in answers[engine]]
    seconds = [
        sum(time for stage, time in reply.seconds.items() if stage not in MODELS)
        for reply in replies
    ]
    pairs = [*zip((answer.reply for answer in answers[ENGINES[0]]), replies, strict=True)]
    hits = np.mean([first.ranking.ids(FIRST) == other.ranking.ids(FIRST) for first, other in pairs])
    routes = np.mean([first.route == other.route for first, other in pairs])
    p50, p95, _ = harness.percentiles(seconds)
    processor = 1000 * float(np.median([answer.processor for answer in answers[engine]]))
    same = f"{hits:.2f}" + (f", route {routes:.2f}" if route == Route.AUTO else "")
    times = (f"{time:.1f}" for time in (p50, p95, processor))
    table.row(route, engine, f"{np.mean(recalls):.4f}", *times, same)
