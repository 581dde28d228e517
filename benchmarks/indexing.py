"""What indexing costs: seconds by stage on one thread and as it is by default, and bytes on disk.

Each mode is a process of its own, so that threads can be bounded. Loading the models is not
counted. Where other processes parse, they do so beside the encoder, and "parsing" is what the
encoder waits for them. "processor" rows are processor time of all threads and processes: on one
thread, what an otherwise idle machine would need.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import numpy as np

from backends.sources import DocumentSource
from benchmarks import harness
from benchmarks.harness import BenchmarkError, Table
from router.session import Session
from router.settings import load_settings

STAGES = ("parsing", "encoding", "writing", "other", "total")
_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
MODES: Mapping[str, Mapping[str, str]] = {
    "one thread": {
        "WYE_ANALYSER__PROCESSES": "1",
        "WYE_ANALYSER__ENCODER__THREADS": "1",
        **dict.fromkeys(_POOLS, "1"),
    },
    "default": {},
}
"""Name -> what the environment of the process has besides."""

Seconds = dict[str, dict[str, float]]
"""Clock ("wall", "processor") -> stage -> seconds."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the dataset, modes, and what makes this one of the processes."""
    parser.add_argument("dataset", nargs="?", type=Path, default=harness.DEMO, help="BEIR folder")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)


def run(given: argparse.Namespace) -> None:
    """Print the table, or be one of the processes."""
    if given.work:
        (given.work / "seconds.json").write_text(json.dumps(index(given.dataset, given.work)))
        return
    passages = sum(1 for _ in DocumentSource(given.dataset).passages())
    data = f"{given.dataset.resolve().name}, {passages} passages"
    harness.print_header("Indexing", seed=None, data=data)
    table = Table(["seconds per 1,000 passages", *STAGES], width=30)
    for mode in given.modes:
        with tempfile.TemporaryDirectory(prefix="wye-bench-") as folder:
            command = [sys.executable, "-m", "benchmarks", "indexing", str(given.dataset)]
            environment = {**os.environ, **MODES[mode]}
            done = subprocess.run(
                [*command, "--work", folder],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=False,
            )
            if done.returncode:
                raise BenchmarkError(f"'{mode}' ended with {done.returncode}; see above.")
            found: Seconds = json.loads(Path(folder, "seconds.json").read_text())
            files = Path(folder, "index").rglob("*")
            size = sum(path.stat().st_size for path in files if path.is_file())
        for clock, seconds in found.items():
            cells = [seconds.get(stage, np.nan) / passages * 1000 for stage in STAGES]
            table.row(f"{mode}: {clock}", *cells)
    print(f"\n{size / 1e6:,.1f} MB on disk, {size // passages:,} bytes a passage")


def index(dataset: Path, folder: Path) -> Seconds:
    """Index a dataset below a folder; wall and processor seconds by stage."""
    session = Session.create(load_settings(), folder / "index")
    before, start = os.times(), perf_counter()
    done = session.ingest(DocumentSource(dataset).passages())
    total = perf_counter() - start
    session.close()  # from here on the parser's processes count as children
    cpu = sum(os.times()[:4]) - sum(before[:4])
    wall = {**session.analyser.seconds, "writing": done.seconds["write"]}
    wall |= {"other": total - sum(wall.values()), "total": total}
    return {"wall": wall, "processor": {"total": cpu}}
