"""What indexing costs: time by stage, bytes on disk, resident memory, and time to open.

`python -m benchmarks.indexing DATASET [--rival JSON]` indexes a folder in BEIR's layout in each
mode, in processes of their own so that threads can be bounded, and puts what `rival_linearrag`
wrote next to it. Loading the models is not counted. "processor" rows are processor time
of all threads and processes: on one thread, what an otherwise idle machine would need; the stages
of a mode with several processes are known in wall time only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from backends.documents import read_passages
from backends.store.ingest import ingest
from benchmarks import report
from benchmarks.rival_driver import CallTimer
from router.session import Session, Snapshot
from router.settings import load_settings
from router.types import Route

STAGES = ("parsing", "encoding", "writing", "other", "total")
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}
MODES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "one thread, float32": (
        {"processes": 1, "encoder": {"threads": 1, "dtype": "float32"}},
        _ONE_THREAD,
    ),
    "one thread": ({"processes": 1, "encoder": {"threads": 1}}, _ONE_THREAD),
    "default": ({}, {}),
}
"""Name -> the analyser's settings and the environment of the process."""

Result = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables, or be one of the processes."""
    arguments = _parse(argv)
    if arguments.work:
        folder, result = Path(arguments.work[0]), Path(arguments.work[1])
        work = _open if arguments.modes == ["open"] else _index
        result.write_text(json.dumps(work(arguments.dataset, folder, arguments.modes[0])))
        return
    passages = sum(1 for _ in read_passages(arguments.dataset))
    data = f"{arguments.dataset.resolve().name}, {passages} passages"
    report.print_header("Indexing", seed=None, data=data)
    rival = json.loads(arguments.rival.read_text()) if arguments.rival else None
    with tempfile.TemporaryDirectory() as scratch:
        results = {
            mode: _run(arguments.dataset, Path(scratch, str(place)), mode)
            for place, mode in enumerate(arguments.modes)
        }
        opened = _run(arguments.dataset, Path(scratch, "0"), "open")
        size = report.folder_bytes(Path(scratch, "0"))
    _print_seconds(results, passages, rival)
    _print_sizes(opened, size, passages)
    if arguments.output:
        header = report.header(seed=None, data=data)
        sizes = {"bytes_on_disk": size, **opened}
        content = {"header": header, "passages": passages, "modes": results, "opening": sizes}
        arguments.output.write_text(json.dumps(content, indent=1))


def _run(dataset: Path, folder: Path, mode: str) -> Result:
    """Do one piece of work in a process of its own.

    Raises:
        SystemExit: It failed; its output says why.
    """
    environment = dict(MODES[mode][1]) if mode in MODES else {}
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch, "result.json")
        command = [sys.executable, "-m", "benchmarks.indexing", str(dataset), "--modes", mode]
        command += ["--work", str(folder), str(result)]
        done = subprocess.run(command, env={**os.environ, **environment}, check=False)
        if done.returncode:
            sys.exit(f"'{mode}' failed with exit code {done.returncode}; see above.")
        found: Result = json.loads(result.read_text())
        return found


def _index(dataset: Path, folder: Path, mode: str) -> Result:
    """Index a dataset; wall and processor seconds by stage."""
    settings = load_settings(index=folder, analyser=dict(MODES[mode][0]))
    target = Session.create(settings, folder)
    parsing, encoding = CallTimer(), CallTimer()
    parsing.wrap(target.analyser.parser, "parse_many")
    encoding.wrap(target.analyser.encoder, "encode_spans")
    before, start = os.times(), perf_counter()
    done = ingest(
        target.index,
        read_passages(dataset),
        target.analyser,
        batch_passages=settings.ingest.batch_passages,
        entity_vectors=settings.ingest.entity_vectors,
    )
    total = perf_counter() - start
    target.close()  # from here on the parser's processes count as children
    cpu = sum(os.times()[:4]) - sum(before[:4])
    writing = done.seconds["write"]
    wall = {"parsing": parsing.seconds, "encoding": encoding.seconds, "writing": writing}
    wall |= {"other": total - sum(wall.values()), "total": total}
    cpu_seconds = {"total": cpu}
    if settings.analyser.processes == 1:
        cpu_seconds |= {"parsing": parsing.cpu_seconds, "encoding": encoding.cpu_seconds}
    return {"added": done.added, "seconds": wall, "cpu_seconds": cpu_seconds}


def _open(dataset: Path, folder: Path, mode: str) -> Result:
    """Open an index and build every arm; resident bytes and seconds of each step."""
    del mode
    container = Session.open(load_settings(), folder)
    resident, start = report.resident_bytes(), perf_counter()
    snapshot = Snapshot(container.index, container.settings)
    steps = {"read": (report.resident_bytes() - resident, perf_counter() - start)}
    for arm in ("dense", "lexical", "graph"):
        resident, start = report.resident_bytes(), perf_counter()
        getattr(snapshot, arm)
        steps[arm] = (report.resident_bytes() - resident, perf_counter() - start)
    analyser, question = container.analyser, _first_question(dataset)
    analyser.questions([question])  # models load their last parts with their first text

    def open_and_answer() -> None:
        fresh = Session.open(container.settings, folder)
        fresh.__dict__["analyser"] = analyser  # in the place of the cached property: loaded already
        fresh.gateway.search([question], Route.FUSION, 5)

    return {"steps": steps, "first_answer_seconds": report.timed(open_and_answer)}


def _first_question(dataset: Path) -> str:
    with (dataset / "queries.jsonl").open(encoding="utf-8") as lines:
        text: str = json.loads(next(lines))["text"]
    return text


def _print_seconds(results: Mapping[str, Result], passages: int, rival: Result | None) -> None:
    table = report.Table(["seconds per 1,000 passages", *STAGES], width=36)
    rows = {f"wye, {mode}": (result, passages) for mode, result in results.items()}
    if rival:
        rows["reference LinearRAG"] = (_as_ours(rival), rival["passages"])
    for name, (result, count) in rows.items():
        for clock, label in (("seconds", "wall"), ("cpu_seconds", "processor")):
            cells = [result[clock].get(stage, np.nan) / count * 1000 for stage in STAGES]
            table.row(f"{name}: {label}", *cells)
    if rival:
        print()
        theirs, their_passages = rows.pop("reference LinearRAG")
        table = report.Table(["reference's time / ours", "wall", "processor"], width=36)
        for name, (result, count) in rows.items():
            ratios = [
                theirs[clock]["total"] / their_passages / (result[clock]["total"] / count)
                for clock in ("seconds", "cpu_seconds")
            ]
            table.row(name, *ratios)


def _as_ours(rival: Result) -> Result:
    """The rival's result with our stages; what it writes is within "other"."""
    found: Result = {}
    for clock in ("seconds", "cpu_seconds"):
        parsing, encoding, total = (rival[clock][n] for n in ("parsing", "encoding", "total"))
        found[clock] = {**rival[clock], "other": total - parsing - encoding}
    return found


def _print_sizes(opened: Result, size: int, passages: int) -> None:
    print()
    table = report.Table(["opening an index", "seconds", "MB", "bytes per passage"], width=36)
    table.row("on disk", np.nan, size / 1e6, size // passages)
    for step, (resident, seconds) in opened["steps"].items():
        table.row(f"resident: {step}", seconds, resident / 1e6, resident // passages)
    total = sum(resident for resident, _ in opened["steps"].values())
    seconds = sum(seconds for _, seconds in opened["steps"].values())
    table.row("resident: all arms", seconds, total / 1e6, total // passages)
    table.row("opened to first answer", opened["first_answer_seconds"], np.nan, np.nan)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = report.parser(__doc__)
    parser.add_argument("dataset", type=Path, help="a folder in BEIR's layout")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=[*MODES, "open"])
    parser.add_argument("--rival", type=Path, help="JSON that rival_linearrag wrote")
    parser.add_argument("--output", type=Path, help="write everything there as JSON")
    parser.add_argument("--work", nargs=2, metavar=("FOLDER", "JSON"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
