"""nDCG@10 and Recall@5 by route on dev splits, beside recorded figures.

Every question goes through the gateway that serves. `--against FILE` fails if an nDCG@10 differs
from the file's by more than `--tolerance`; `--write FILE` records the figures. The indexes of the
datasets are kept in a folder, and are made if they are missing.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.harness import WYE, BenchmarkError, Table
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.router.types import USUAL
from wye.training.data import read_dataset
from wye.training.evaluate import evaluate

RECORDED = Path(__file__).with_name("quality.json")
SHOWN = ("nDCG@10", "R@5")

Figures = dict[str, dict[str, dict[str, float]]]
"""Dataset -> route -> measure -> mean over its questions."""


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
    names = ", ".join(folder.name for folder in args.datasets)
    harness.print_header("Quality by route", seed=None, data=f"{names} ({args.split})")
    table = Table(["dataset", "route", *SHOWN, "recorded", "difference"], width=14)
    figures: Figures = {}
    changed = 0
    for folder in args.datasets:
        figures[folder.name] = _measure(folder, args)
        for route, means in figures[folder.name].items():
            before = recorded.get(folder.name, {}).get(route, {}).get("nDCG@10", np.nan)
            difference = means["nDCG@10"] - before
            changed += abs(difference) > args.tolerance
            table.row(folder.name, route, *(means[name] for name in SHOWN), before, difference)
    if args.write:
        args.write.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if args.against:
        print(f"\n{changed} figures differ by more than {args.tolerance:g}.")
    return int(changed > 0)


def _measure(folder: Path, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    dataset = read_dataset(folder, args.split, args.limit)
    index = args.indexes / folder.name
    command = [*WYE, "index", str(folder), "--index", str(index)]
    if not index.exists() and subprocess.run(command, check=False).returncode:
        raise BenchmarkError(f"'{folder}' could not be indexed; run {' '.join(command)}.")
    with Session.open(load_settings(), index) as session:
        evaluation = evaluate(session.gateway, dataset, USUAL, resamples=1)
    return {
        name: {shown: round(means[shown].mean, 6) for shown in SHOWN}
        for name, means in evaluation.means.items()
    }


def _read(path: Path) -> Figures:
    try:
        return Figures(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"'{path}' has no figures: {error}") from None
