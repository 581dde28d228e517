"""How many judged questions thresholds need: solved on some, and tried on all.

Draws questions of a dev replay, judges them as feedback would (what the route then taken showed, if
it was relevant), solves thresholds on them, and asks what these are worth on all questions with all
judgements. Prints how often that is worse than the present thresholds are, and by how much.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from backends.types import Float64, Int64
from benchmarks import harness
from benchmarks.harness import Table
from router.policy import bands, routes
from training.data.evaluation_set import EvaluationSet
from training.data.replay import Replayed
from training.thresholds.outcomes import RouteOutcomes, outcome
from training.thresholds.solve import solve
from training.thresholds.sweep import CUTS
from training.thresholds.tuning import Tuning

SHOWN = 5
WORSE = 0.005
SIZES = (25, 50, 75, 100, 150, 200)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add replays and a router."""
    parser.add_argument("replays", type=Path, nargs="+", help="dev replays of `wye train`")
    parser.add_argument("--router", default="", help="name/version or a folder")
    parser.add_argument("--cache", type=Path, default=Path(".cache/wye"), help="of features")
    parser.add_argument("--draws", type=int, default=60, help="of each number of questions")


def run(given: argparse.Namespace) -> None:
    """Print a table for each replay, with a row for each number of questions."""
    for path in given.replays:
        tuning = Tuning.load([path], given.router, cache=given.cache / "features")
        seen, kept = as_feedback(tuning)
        harness.print_header(
            "Judged questions that thresholds need",
            seed=given.seed,
            data=f"{path.name}: {len(tuning.outcomes)} questions, {len(kept)} with feedback; "
            f"worse: by more than {WORSE} nDCG@10",
        )
        table = Table(["questions", "worse", "mean", "worst", "worse*", "mean*", "worst*"])
        judged = seen.only(kept)
        for size in [size for size in SIZES if size <= len(kept)]:
            cells: list[float] = []
            for cautious in (True, False):
                found = changes(
                    tuning, judged, size, cautious=cautious, draws=given.draws, seed=given.seed
                )
                cells += [float((found < -WORSE).mean()), float(found.mean()), float(found.min())]
            table.row(str(size), *cells)
        print("* with --no-elsewhere\n", flush=True)


def as_feedback(tuning: Tuning) -> tuple[RouteOutcomes, Int64]:
    """Outcomes judged by what was shown alone, and the rows of the questions that have any."""
    policy = tuning.model.policy
    scores = tuning.outcomes.scores
    codes = bands(scores, policy.thresholds)
    rankings = [
        tuning.evaluation_set.rankings(route, tuning.fusion, scores)
        for route in routes(policy.simple)
    ]
    (replay,) = tuning.evaluation_set.replays
    questions: list[Replayed] = []
    kept = []
    for row, one in enumerate(replay.questions):
        shown = {hit.id for hit in rankings[codes[row]][row].hits[:SHOWN]}
        gold = {id_: value for id_, value in one.gold.items() if value > 0 and id_ in shown}
        questions.append(replace(one, gold=gold or one.gold))
        if gold:
            kept.append(row)
    judged = EvaluationSet(
        (replace(replay, questions=tuple(questions)),), tuning.evaluation_set.features
    )
    return replace(tuning, evaluation_set=judged).outcomes, np.array(kept)


def changes(
    tuning: Tuning, judged: RouteOutcomes, size: int, *, cautious: bool, draws: int, seed: int
) -> Float64:
    """(draws,) true quality of what `size` questions solve, less that of the present."""
    now = outcome(tuning.outcomes, tuning.model.policy.thresholds).quality
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows = draw.choice(len(judged), size, replace=False)
        errors = 2.0 if cautious else 1.0
        solved = solve(judged.only(rows), errors=errors, most=CUTS, cautious=cautious)
        found.append(outcome(tuning.outcomes, solved.thresholds).quality - now)
    return np.array(found)
