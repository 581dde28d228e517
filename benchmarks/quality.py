"""Quality and processor time by route on dev splits, beside recorded figures.

Every question goes alone through the gateway that serves. "without graph" and "in steps" are shares
of the questions. `--against FILE` fails if an nDCG@10 differs from the file's by more than
`--tolerance`; `--write FILE` records the figures. The indexes of the datasets are kept in a folder,
and are made if they are missing.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.harness import WYE, BenchmarkError, Table
from wye.backends.types import Float64
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import USUAL, Ask, Route
from wye.training.data import read_dataset
from wye.training.measures import DEPTH

RECORDED = Path(__file__).with_name("quality.json")
MEASURED = ("nDCG@10", "R@5", "Success@1")
SHOWN = (*MEASURED, "without graph", "in steps", "ms")
WITHOUT_GRAPH = (Route.DENSE, Route.LEXICAL, Route.HYBRID)
SYSTEMS = {str(route): Ask(route, DEPTH) for route in USUAL}
ALL = "all"

Figures = dict[str, dict[str, dict[str, float]]]
"""Dataset -> system -> measure -> mean over its questions; the last is all of them together."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add datasets, the folder of indexes, and what to compare with."""
    parser.add_argument("datasets", nargs="*", type=Path, default=[harness.DEMO])
    parser.add_argument("--indexes", type=Path, default=Path("bench-out/indexes"))
    parser.add_argument("--split", default="dev")
    parser.add_argument("--limit", type=int, help="most questions of a dataset")
    parser.add_argument("--against", type=Path, nargs="?", const=RECORDED, metavar="FILE")
    parser.add_argument("--tolerance", type=float, default=0.002, help="of nDCG@10 (default .002)")
    parser.add_argument("--write", type=Path, metavar="FILE")


def run(args: argparse.Namespace) -> int:
    """Print a row for each dataset and route; 1 if one is not within the tolerance."""
    recorded = _read(args.against) if args.against else {}
    listed = ", ".join(folder.name for folder in args.datasets)
    harness.print_header("Quality by route", seed=None, data=f"{listed} ({args.split})")
    table = Table(["dataset", "route", *SHOWN, "recorded", "difference"], width=14)
    figures: Figures = {}
    changed = 0
    values: dict[str, dict[str, Float64]] = {}
    for folder in (*args.datasets, Path(ALL)):
        if folder.name == ALL:
            sets = [*values.values()]
            values[ALL] = {name: np.concatenate([one[name] for one in sets]) for name in SYSTEMS}
        else:
            values[folder.name] = _measure(folder, args)
        figures[folder.name] = {
            system: dict(zip(SHOWN, rows.mean(axis=0).round(6).tolist(), strict=True))
            for system, rows in values[folder.name].items()
        }
        for system, means in figures[folder.name].items():
            before = recorded.get(folder.name, {}).get(system, {}).get("nDCG@10", np.nan)
            difference = means["nDCG@10"] - before
            changed += abs(difference) > args.tolerance
            table.row(folder.name, system, *means.values(), before, difference)
    if args.write:
        args.write.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if args.against:
        print(f"\n{changed} figures differ by more than {args.tolerance:g}.")
    return int(changed > 0)


def _measure(folder: Path, args: argparse.Namespace) -> dict[str, Float64]:
    """System -> (n, len(SHOWN)) values of each question."""
    dataset = read_dataset(folder, args.split, args.limit)
    index = args.indexes / folder.name
    command = [*WYE, "index", str(folder), "--index", str(index)]
    if not index.exists() and subprocess.run(command, check=False).returncode:
        raise BenchmarkError(f"'{folder}' could not be indexed; run {' '.join(command)}.")
    values = {}
    with Session.open(load_settings(), index) as session:
        asks = {name: harness.over(session, ask) for name, ask in SYSTEMS.items()}
        # In turns, since the parser remembers words that it has read for the one before.
        taken = harness.in_turns(asks, [question.text for question in dataset.questions])
    for name, of_system in taken.items():
        replies = [each.reply for each in of_system]
        hits = [reply.ranking.ids() for reply in replies]
        routes = [[r.route in WITHOUT_GRAPH, r.route == Route.STEPS] for r in replies]
        ms = [[1e3 * each.processor] for each in of_system]
        values[name] = np.hstack([harness.measured(dataset, hits, *MEASURED), routes, ms])
    return values


def _read(path: Path) -> Figures:
    try:
        return Figures(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"'{path}' has no figures: {error}") from None
