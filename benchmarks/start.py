"""Times `wye search` in a process of its own, by route, and `wye serve` until it is ready.

Several `wye` take turns, and each round asks each route another question. The first call of each is
not counted: no file is cached then, and a writable index has no derived files yet.
"""

import argparse
import os
import resource
import subprocess
import time
from collections.abc import Sequence

import numpy as np

from benchmarks import harness
from benchmarks.harness import WYE, BenchmarkError, Table
from benchmarks.load import free_port, running

ROUTES = "dense,lexical,hybrid,graph,fusion,auto"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for data, commands and rounds."""
    harness.add_data(parser)
    parser.add_argument("--wye", action="append", default=[], help="a `wye`; several take turns")
    parser.add_argument("--routes", default=ROUTES)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per route (default 5)")


def run(given: argparse.Namespace) -> None:
    """Print medians by route, then of servers."""
    questions = harness.read_questions(given.dataset)
    np.random.default_rng(given.seed).shuffle(questions)
    data = f"{harness.data_name(given)}, {given.rounds} rounds"
    harness.print_header("From nothing to a first answer", seed=given.seed, data=data)
    commands = {chr(ord("A") + place): [path] for place, path in enumerate(given.wye)}
    for name, command in commands.items():
        print(f"# {name:<9}{command[0]}")
    print(f"# load     {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores")
    commands = commands or {"": [*WYE]}
    with harness.index_of(given) as index:
        table = Table(["wye search", "wall s", "least s", "processor s"])
        for route in given.routes.split(","):
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
            for turn in range(given.rounds + 1):
                question = questions[turn % len(questions)]
                options = ["search", question, "--index", str(index), "--route", route]
                for name, command in commands.items():
                    cost = cost_of([*command, *options])
                    if turn:
                        taken[name].append(cost)
            for name, costs in taken.items():
                _row(table, f"{route} {name}", costs)
        print()
        table = Table(["wye serve", "wall s", "least s", "processor s"])
        served: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(given.rounds):
            for name, command in commands.items():
                served[name].append(_ready([*command, "serve", "--index", str(index)]))
        for name, costs in served.items():
            _row(table, f"until ready {name}", costs)


def cost_of(command: Sequence[str]) -> tuple[float, float]:
    """Wall seconds and processor seconds of a command.

    Raises:
        BenchmarkError: The command failed.
    """
    before, started = _spent(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode:
        raise BenchmarkError(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return taken, _spent() - before


def _ready(command: Sequence[str]) -> tuple[float, float]:
    """Wall seconds of a server until it is ready, and processor seconds until its end."""
    port, before, started = free_port(), _spent(), time.perf_counter()
    with running([*command, "--port", str(port)], port):
        taken = time.perf_counter() - started
    return taken, _spent() - before


def _spent() -> float:
    """Processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(table: Table, name: str, costs: Sequence[tuple[float, float]]) -> None:
    wall, processor = np.array(costs).T
    table.row(name, float(np.median(wall)), float(wall.min()), float(np.median(processor)))
