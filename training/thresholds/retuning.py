"""New thresholds for a router that stays as it is, and what they change."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.thresholds.outcomes import Moves, Outcome, ThresholdObjective, moves, names, outcome
from training.thresholds.solve import Solution, Stability, solve, stability, standard_errors
from training.thresholds.sweep import CUTS, keeps
from training.thresholds.tuning import Tuning


@dataclass(frozen=True, slots=True)
class Retuned:
    """Thresholds to review.

    Attributes:
        goal: That they were solved for.
        solution: The thresholds.
        stability: How sure they, and what they give, are.
        before: What the router's own thresholds give on the same questions.
        moves: Questions that take another route.
        stays: Whether the router's own thresholds are proposed, for on these questions those that
            were solved are no better.
        gain: Quality with the proposed thresholds less quality with the router's own, paired; like
            the other intervals, it does not count that they were chosen on these questions.
    """

    goal: ThresholdObjective
    solution: Solution
    stability: Stability
    before: Outcome
    moves: Moves
    stays: bool
    gain: Interval

    def notes(self) -> dict[str, Any]:
        """For the thresholds file."""
        low, high = self.stability.low, self.stability.high
        return {
            "max_mean_ms": self.goal.max_mean_ms,
            "max_graph_share": self.goal.max_graph_share,
            "interval of low": [low.low, low.high],
            "interval of high": [high.low, high.high],
            "stays as it was": self.stays,
            "questions that change route": len(self.moves.rows),
            "interval of the change in quality": [self.gain.low, self.gain.high],
        }


def retune(
    tuning: Tuning, goal: ThresholdObjective, *, elsewhere: bool = True, seed: int = 0
) -> Retuned:
    """Solve thresholds on replayed questions.

    What is solved lies in the middle of all that these questions cannot tell from the best, and so
    may be worse on them than the thresholds in use. Where it is, or is as good, nothing changes, as
    long as the bounds are kept.

    Args:
        tuning: Questions and the router.
        goal: Bounds to keep.
        elsewhere: Whether the thresholds have to hold for questions unlike these as well.
        seed: Of the bootstrap.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    own = tuning.model.policy.thresholds
    errors = standard_errors(elsewhere=elsewhere)
    solution = solve(tuning.outcomes, goal, errors=errors, most=CUTS, cautious=elsewhere)
    before = outcome(tuning.outcomes, own)
    stays = keeps(before, goal) and before.objective(goal) >= solution.outcome.objective(goal)
    if stays:
        solution = replace(solution, thresholds=own, outcome=before)
    moved = moves(tuning.outcomes, own, solution.thresholds)
    gained = np.zeros((len(tuning.outcomes), 1))
    gained[moved.rows, 0] = moved.gain
    return Retuned(
        goal=goal,
        solution=solution,
        stability=stability(
            tuning.outcomes,
            solution.thresholds,
            goal,
            errors=errors,
            cautious=elsewhere,
            seed=seed,
        ),
        before=before,
        moves=moved,
        stays=stays,
        gain=interval(gained[:, 0], resampled_means(gained, seed=seed)[:, 0]),
    )


def show_retuned(console: Console, tuning: Tuning, found: Retuned, *, most: int) -> None:
    """Print old and new thresholds side by side, and the questions that move.

    Args:
        console: Where to.
        tuning: Questions and the router.
        found: What was solved.
        most: Moved questions to list, those with the largest change of quality first.
    """
    console.print(_before_and_after(tuning, found))
    if found.stays:
        console.print("Those in use are as good on these questions, so they stay.")
    if most and len(found.moves.rows):
        console.print(_moved(tuning, found, most))


def _before_and_after(tuning: Tuning, found: Retuned) -> Table:
    table = Table(
        title=f"{tuning.model.name} on {len(tuning.material)} questions",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("", "now", "proposed", "95 % interval"):
        table.add_column(heading)
    own, new = tuning.model.policy.thresholds, found.solution.thresholds
    sure, after = found.stability, found.solution.outcome
    table.add_row("low", f"{own.low:.3f}", f"{new.low:.3f}", _interval(sure.low))
    table.add_row("high", f"{own.high:.3f}", f"{new.high:.3f}", _interval(sure.high))
    table.add_row(
        tuning.measure,
        f"{found.before.quality:.4f}",
        f"{after.quality:.4f}",
        _interval(sure.quality),
    )
    table.add_row(
        f"change in {tuning.measure}", "", f"{found.gain.mean:+.4f}", _interval(found.gain)
    )
    table.add_row(
        "mean ms", f"{found.before.mean_ms:.1f}", f"{after.mean_ms:.1f}", _interval(sure.mean_ms)
    )
    routes = names(tuning.model.policy.simple)
    for route, old, share in zip(routes, found.before.shares, after.shares, strict=True):
        table.add_row(f"share of {route}", f"{old:.1%}", f"{share:.1%}", "")
    return table


def _moved(tuning: Tuning, found: Retuned, most: int) -> Table:
    changed = found.moves
    table = Table(
        title=f"{len(changed.rows)} questions change route",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("question", "from", "to", "gain", "score"):
        table.add_column(heading)
    routes, texts = names(tuning.model.policy.simple), tuning.material.texts
    order = sorted(range(len(changed.rows)), key=lambda at: (-abs(changed.gain[at]), at))
    for at in order[:most]:
        row = int(changed.rows[at])
        table.add_row(
            Text(texts[row]),
            routes[int(changed.before[at])],
            routes[int(changed.after[at])],
            f"{changed.gain[at]:+.3f}",
            f"{tuning.outcomes.scores[row]:.3f}",
        )
    return table


def _interval(found: Interval) -> str:
    return f"{found.low:.3f} to {found.high:.3f}"
