"""`wye tune`: solves a router's thresholds again, on questions whose replies are known.

A replay has what every arm returned for each judged question. So the quality and the time of
each route are known for each question, and any pair of thresholds can be tried without a search.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wye.backends.types import Progress
from wye.router.evidence import COLUMNS, stages
from wye.router.model_files import load_router, save_policy
from wye.router.policy import Policy, RoutingModel, bands, routes
from wye.router.settings import load_settings
from wye.router.types import Thresholds
from wye.training.data import parse_source
from wye.training.errors import TrainingError
from wye.training.evaluation_set import EvaluationSet, schema_of
from wye.training.markdown import escape, table
from wye.training.measures import QUALITY, Interval, mean_interval
from wye.training.replay import Replays, TrainingReplay
from wye.training.thresholds import (
    Outcome,
    RouteOutcomes,
    Solution,
    ThresholdObjective,
    keeps,
    outcome,
    scores_of,
    solve,
)


def replays_of(
    datasets: Sequence[str], index: Path | None, *, cache: Path, progress: Callable[[], Progress]
) -> list[TrainingReplay]:
    """Replays of the dev splits of DATASET=INDEX sources.

    Raises:
        TrainingError: None is given, one has no dev split, or there is no index.
    """
    if not datasets:
        raise TrainingError("Tune on what? Name datasets with a dev split.")
    settings = load_settings(index=index)
    sources = [parse_source(text, settings.index) for text in datasets]
    if lacking := [source.name for source in sources if not source.has("dev")]:
        raise TrainingError(f"{', '.join(lacking)} has no dev split; add qrels/dev.tsv.")
    return Replays(settings, cache / "replays", progress).training(sources, "dev")


@dataclass(frozen=True)
class Tuning:
    """Judged questions with one router's scores, and the outcome of every route for each.

    A router is overconfident on the questions that it was trained on, so use others: those of a dev
    split, or your own.
    """

    evaluation_set: EvaluationSet
    model: RoutingModel

    @classmethod
    def load(
        cls,
        replays: Sequence[TrainingReplay],
        model: Path | str = "",
        *,
        cache: Path,
    ) -> "Tuning":
        """Read a router, and compute the questions' features.

        Args:
            model: "name/version", or a version's folder; "" for the settings' router.
            cache: Folder of features that later runs use again.

        Raises:
            ModelFileError: There is no such router, or it was trained on other features.
        """
        settings = load_settings()
        options = replace(settings.router, model=str(model)) if model else settings.router
        router = load_router(options.folder(), schema_id=schema_of(settings), names=COLUMNS)
        deciding = stages(router.scorer.names)
        return cls(EvaluationSet.load(replays, cache, settings, deciding), router)

    @cached_property
    def outcomes(self) -> RouteOutcomes:
        """The outcome of every route for every question, with steps where they are taken."""
        scores = scores_of(self.model.scorer.logits(self.evaluation_set.features))
        policy = self.model.policy
        return self.evaluation_set.outcomes(scores, policy.simple, policy.thresholds.steps)

    @cached_property
    def fixed(self) -> dict[str, Outcome]:
        """Route -> outcome of always taking it."""
        return self.evaluation_set.fixed(self.model.policy.simple)

    def save(
        self,
        path: Path,
        thresholds: Thresholds,
        notes: Mapping[str, Any] | None = None,
    ) -> Policy:
        """Write a thresholds file for review.

        Args:
            path: The file; an existing one is replaced.
            notes: Notes for the reviewer, beside the thresholds' outcome.
        """
        current, result = self.model.policy, outcome(self.outcomes, thresholds)
        policy = Policy(thresholds, current.simple, self.model.name)
        facts = {
            "replays": [f"{r.dataset}, {r.split}" for r in self.evaluation_set.replays],
            "questions": len(self.evaluation_set),
            QUALITY: result.quality,
            "mean_ms": result.mean_ms,
            "p95_ms": result.p95_ms,
            "shares": dict(zip(map(str, routes(policy.simple)), result.shares, strict=True)),
        }
        save_policy(path, policy, {**facts, **(notes or {})})
        return policy


@dataclass(frozen=True, slots=True)
class Retuned:
    """Thresholds to review.

    Attributes:
        before: Outcome of the router's present thresholds on the same questions.
        stays: Whether the present thresholds are proposed, since the solved ones are no better on
            these questions.
        changed: How many questions change route.
        gain: Paired difference in quality from the present thresholds. It is too optimistic, since
            the new ones were chosen on these questions.
    """

    solution: Solution
    before: Outcome
    stays: bool
    changed: int
    gain: Interval


def retune(tuning: Tuning, goal: ThresholdObjective, *, elsewhere: bool = True) -> Retuned:
    """Solve thresholds on replayed questions.

    The solution is the cheapest of the pairs that these questions cannot tell from the best, so it
    may be worse on them than the thresholds in use. Those stay if they keep the bounds and their
    objective is not lower.

    Args:
        elsewhere: Whether the thresholds must also hold for questions unlike these.

    Raises:
        FitError: No thresholds keep the bounds.
    """
    current, outcomes = tuning.model.policy.thresholds, tuning.outcomes
    solution, before = solve(outcomes, goal, cautious=elsewhere), outcome(outcomes, current)
    stays = keeps(before, goal) and before.objective(goal) >= solution.outcome.objective(goal)
    if stays:
        solution = replace(solution, thresholds=current, outcome=before)
    thresholds = replace(solution.thresholds, steps=current.steps)
    codes = np.stack([bands(outcomes.scores, pair) for pair in (current, thresholds)])
    old, new = outcomes.quality[np.arange(len(outcomes)), codes]
    changed, gain = int((codes[0] != codes[1]).sum()), mean_interval(new - old)
    return Retuned(replace(solution, thresholds=thresholds), before, stays, changed, gain)


def as_markdown(tuning: Tuning, retuned: Retuned) -> str:
    """Old and new thresholds, and outcomes of fixed routes."""
    policy, gain = tuning.model.policy, retuned.gain
    order = routes(policy.simple)
    pairs = policy.thresholds, retuned.solution.thresholds
    results = retuned.before, retuned.solution.outcome
    rows = [
        ("low", *(f"{pair.low:.3f}" for pair in pairs)),
        ("high", *(f"{pair.high:.3f}" for pair in pairs)),
        (QUALITY, *(f"{one.quality:.4f}" for one in results)),
        ("mean ms", *(f"{one.mean_ms:.1f}" for one in results)),
        *(
            (f"share of {route}", *(f"{one.shares[code]:.1%}" for one in results))
            for code, route in enumerate(order)
        ),
    ]
    always = (
        f"{name} {QUALITY} {outcome.quality:.4f}, {outcome.mean_ms:.1f} ms"
        for name, outcome in tuning.fixed.items()
    )
    blocks = [
        f"**{escape(tuning.model.name)} on {len(tuning.evaluation_set)} questions**",
        table(("", "now", "proposed"), rows),
        f"{retuned.changed} questions change route. Change in {QUALITY}: {gain.mean:+.4f} "
        f"[{gain.low:+.4f} {gain.high:+.4f}].",
        f"Always taking one route: {'; '.join(always)}.",
    ]
    if retuned.stays:
        blocks.append("Those in use are as good on these questions, so they stay.")
    return "\n\n".join(blocks)


def save_retuned(path: Path, tuning: Tuning, retuned: Retuned, goal: ThresholdObjective) -> None:
    """Write solved thresholds."""
    gain = retuned.gain
    notes = {
        "max_mean_ms": goal.max_mean_ms,
        "max_graph_share": goal.max_graph_share,
        "stays as it was": retuned.stays,
        "questions that change route": retuned.changed,
        "interval of the change in quality": [gain.low, gain.high],
    }
    tuning.save(path, retuned.solution.thresholds, notes)
