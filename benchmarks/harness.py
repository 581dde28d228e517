"""Shared by all benchmarks: data, an index, times, and tables below a header.

A benchmark is a module with a docstring, whose first line is its help; `add_options`, which adds
its options to a parser; and `run`, which prints tables and returns an exit code, None for 0.
"""

import argparse
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from time import perf_counter, process_time
from typing import Generic, NamedTuple, Self, TypeVar

import httpx2 as httpx
import numpy as np
import psutil

from wye.backends.types import Float64
from wye.router.session import Session
from wye.router.types import Ask, Reply
from wye.training.data import Dataset, read_unjudged
from wye.training.measures import MEASURES, interval, resampled_means, score

T = TypeVar("T")

DEMO = Path(str(files("wye.service"))) / "demo"
WYE = (sys.executable, "-c", "from wye.service.cli import main; main()")
"""This environment's command `wye`."""

PATIENCE = 180.0
"""Seconds that a server may take to be ready, and a reply to come."""

WARM_UP = 5
"""How many questions each system is asked before its times count."""

_LIBRARIES = ("numpy", "scipy", "faiss-cpu", "pylance", "torch", "spacy")
_MODELS = ("encoding", "parsing")
"""Stages of the models."""
_CPUINFO = Path("/proc/cpuinfo")


class BenchmarkError(Exception):
    """A benchmark cannot run; the message says why."""


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add options for a dataset, by default the demo corpus, and its index."""
    parser.add_argument("dataset", nargs="?", type=Path, default=DEMO, help="BEIR folder")
    parser.add_argument("--index", type=Path, help="its index; default: a temporary one")


@contextmanager
def index_of(args: argparse.Namespace, *, wye: Sequence[str] = WYE) -> Iterator[Path]:
    """Folder of the named index, or of a new, temporary one of the dataset.

    Args:
        args: Parsed options of `add_data`.
        wye: The command that makes a new index.

    Raises:
        BenchmarkError: The index cannot be made.
    """
    if args.index is not None:
        yield args.index
        return
    with tempfile.TemporaryDirectory(prefix="wye-bench-") as scratch:
        folder = Path(scratch) / "index"
        if not args.dataset.is_dir():
            raise BenchmarkError(f"'{args.dataset}' is no dataset; name an index with --index.")
        command = [*wye, "index", str(args.dataset), "--index", str(folder)]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
            raise BenchmarkError(f"'{args.dataset}' cannot be indexed; see above.")
        yield folder


def data_name(args: argparse.Namespace) -> str:
    """Name of the named index, or else of the dataset."""
    return str((args.index or args.dataset).resolve().name)


def read_questions(path: Path) -> list[str]:
    """The different questions of a BEIR folder, or of a file with one a line."""
    return [question.text for question in read_unjudged(path)]


class ServerProcess:
    """A server on a free port, running inside a `with` block; it can be killed and started again.

    Args:
        command: What starts it; `--port N` is added.
    """

    def __init__(self, *command: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        self._command = [*command, "--port", str(port)]

    @classmethod
    def of(cls, index: Path, *options: str, wye: Sequence[str] = WYE) -> Self:
        """`wye serve` over an index."""
        return cls(*wye, "serve", "--index", str(index), *options)

    @property
    def processes(self) -> list[psutil.Process]:
        """The process and its descendants."""
        process = psutil.Process(self._process.pid)
        return [process, *process.children(recursive=True)]

    @property
    def megabytes(self) -> float:
        """Resident memory of its processes."""
        return sum(float(process.memory_info().rss) for process in self.processes) / 2**20

    def start(self) -> None:
        """Start a process, and wait until it is ready.

        Raises:
            BenchmarkError: It ended, or was not ready in time.
        """
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            if (code := self._process.poll()) is not None:
                raise BenchmarkError(f"The server ended with {code}; run it by hand.")
            try:
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        self.kill()
        raise BenchmarkError(f"The server was not ready within {PATIENCE:.0f} s.")

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()


def print_header(title: str, *, seed: int | None, data: str) -> None:
    """Print machine, commit, seed and data: without them a number means nothing.

    Args:
        title: What is measured.
        seed: Seed of everything drawn at random; None if nothing is.
        data: Which data, and how much.
    """
    memory = psutil.virtual_memory().total / 2**30
    libraries = (f"{name} {version(name)}" for name in _LIBRARIES)
    print(f"# {title}")
    for name, value in (
        ("machine", f"{_processor()}, {psutil.cpu_count()} cores, {memory:.0f} GiB"),
        ("software", f"Python {platform.python_version()}, {', '.join(libraries)}"),
        ("commit", _commit()),
        ("seed", "none" if seed is None else seed),
        ("data", data),
    ):
        print(f"# {name:<9}{value}")
    print(flush=True)


class Table:
    """A table that is printed row by row, so that a long benchmark shows its progress.

    Args:
        columns: Names; the first column is aligned left, the others right.
        width: Width of the first column; the others are as wide as their name, and at least 9.
    """

    def __init__(self, columns: Sequence[str], width: int = 24) -> None:
        self._widths = [width, *(max(9, len(name)) for name in columns[1:])]
        self._print(columns)
        self._print(["-" * wide for wide in self._widths])

    def row(self, *cells: str | float) -> None:
        """Print a row, which has a cell for each column; floats are formatted by `number`."""
        self._print([cell if isinstance(cell, str) else number(cell) for cell in cells])

    def _print(self, cells: Sequence[str]) -> None:
        first, *others = zip(cells, self._widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(cell.rjust(wide) for cell, wide in others)]
        print("  ".join(aligned).rstrip(), flush=True)


def number(value: float) -> str:
    """A number with thousands separators, and about three digits if small; "-" for NaN."""
    if np.isnan(value):
        return "-"
    if isinstance(value, int | np.integer) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3f}"


def intervals(values: Float64, baseline: Float64, *, seed: int) -> list[str]:
    """Means of (n, c) values over n questions, with 95 % bootstrap intervals, as text.

    A star marks columns whose paired difference to the (n, c) baseline excludes 0.
    """
    drawn = resampled_means(np.hstack([values, values - baseline]), seed=seed)
    cells = []
    for column, means, gains in zip(values.T, *np.split(drawn.T, 2), strict=True):
        mean, (low, high) = interval(column, means), np.percentile(gains, [2.5, 97.5])
        star = "*" if low > 0 or high < 0 else " "
        cells.append(f"{mean.mean:.3f} [{mean.low:.3f} {mean.high:.3f}]{star}")
    return cells


def measured(dataset: Dataset, hits: Iterable[Sequence[str]], *names: str) -> Float64:
    """(n, len(names)) measures of the ids that each question of a dataset found, best first."""
    run = {each.id: list(ids) for each, ids in zip(dataset.questions, hits, strict=True)}
    values = score({id_: dataset.judgements[id_] for id_ in run}, run)
    return values[:, [MEASURES.index(name) for name in names]]


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


class Taken(NamedTuple, Generic[T]):
    """A reply, with its seconds and those of the processor."""

    reply: T
    seconds: float
    processor: float


def in_turns(
    asks: Mapping[str, Callable[[str], T]], questions: Sequence[str]
) -> dict[str, list[Taken[T]]]:
    """Ask each system each question, and the first ones before; their order changes each time."""
    for ask in asks.values():
        for question in questions[:WARM_UP]:
            ask(question)
    taken: dict[str, list[Taken[T]]] = {name: [] for name in asks}
    names = list(asks)
    for number, question in enumerate(questions):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            start, processor = perf_counter(), process_time()
            reply = asks[name](question)
            times = perf_counter() - start, process_time() - processor
            taken[name].append(Taken(reply, *times))
    return taken


def over(session: Session, ask: Ask) -> Callable[[str], Reply]:
    """Asks a session one question, by a route."""
    return lambda question: session.gateway.search([question], ask)[0]


def search_seconds(reply: Reply) -> float:
    """Seconds of a question without the models, whose time does not depend on the index."""
    return sum(taken for stage, taken in reply.seconds.items() if stage not in _MODELS)


def percentiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    """p50, p95 and p99 in milliseconds."""
    p50, p95, p99 = np.percentile(np.asarray(seconds) * 1e3, [50, 95, 99])
    return float(p50), float(p95), float(p99)


def _commit() -> str:
    """The checked-out commit, marked if files differ from it."""
    options = ["--always", "--exclude=*", "--abbrev=12", "--dirty=+changes"]
    command = ["git", "-C", str(Path(__file__).parent), "describe", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not a git checkout"


def _processor() -> str:
    """The processor's name, which `platform` lacks on Linux."""
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
