"""From replays to a router: scorer, calibration, simple route and thresholds, on train and dev."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from backends.progress import Progress
from backends.types import Float64, Int64
from router.fusion import FusionSettings
from router.policy import Policy
from router.scorer import AttentionMlp, Linear, Scorer
from router.types import Route
from training.data.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from training.data.examples import Pool
from training.errors import FitError
from training.evaluation.measures import MEASURES
from training.fit.crossfit import (
    Comparison,
    Unseen,
    compare,
    crossfit,
    leave_datasets_out,
)
from training.fit.recipe import Recipe
from training.fit.trainer import Trained, train
from training.judge import JUDGED
from training.labels import CHOICES
from training.thresholds.outcomes import RouteOutcomes, ThresholdObjective, scores_of
from training.thresholds.solve import Solution, solve, standard_errors
from training.thresholds.sweep import CUTS


@dataclass(frozen=True, slots=True)
class Choices:
    """What a training run is asked to do.

    Attributes:
        success: When an arm succeeds at a question; see `training.labels`.
        quality: The measure that thresholds are solved for.
        kind: "attention-mlp", "linear", or "auto" for the one that cross-fitting prefers.
        simple: The simple route, or None for the one that thresholds make most of.
        goal: Bounds on latency and on the graph's share.
        fusion: What fusion does.
        elsewhere: Whether the thresholds have to hold for questions unlike all of these as well.
        seed: Of folds and bootstrap.
    """

    success: str = "all-gold@5"
    quality: str = "nDCG@10"
    kind: str = "auto"
    simple: Route | None = None
    goal: ThresholdObjective = field(default_factory=ThresholdObjective)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    elsewhere: bool = True
    seed: int = 0

    @property
    def errors(self) -> float:
        """See `training.thresholds.solve.standard_errors`."""
        return standard_errors(elsewhere=self.elsewhere)

    def __post_init__(self) -> None:
        if self.kind not in ("auto", AttentionMlp.kind, Linear.kind):
            raise FitError(
                f"There is no kind of scorer '{self.kind}'; take auto, {AttentionMlp.kind} "
                f"or {Linear.kind}."
            )
        known = (*CHOICES, JUDGED)
        if self.success not in known:
            raise FitError(
                f"There is no success '{self.success}'; choose among {', '.join(known)}."
            )
        if self.quality not in MEASURES:
            raise FitError(
                f"There is no measure '{self.quality}'; take one of {', '.join(MEASURES)}."
            )
        if self.simple is not None and self.simple not in SIMPLE_ROUTES:
            raise FitError(
                f"'{self.simple}' cannot be the simple route; take {', '.join(SIMPLE_ROUTES)}."
            )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained router, with what led to every choice.

    Attributes:
        choices: That were asked for.
        trained: Scorer, features and calibration.
        comparison: Of the two kinds of scorer; None where the kind was given.
        crossfits: Kind of scorer -> (n,) cross-fitted logits.
        policy: Simple route, thresholds and latencies.
        solution: Of the thresholds.
        solutions: By simple route.
        unseen: Scores of routers that have not seen a question's dataset; None where the
            thresholds need not hold elsewhere.
        outcomes: By simple route, of train and dev questions with cross-fitted scores, followed by
            those with scores of `unseen`.
        labels: (n,) of these questions: 1, 0, or -1 where the arms agree.
    """

    choices: Choices
    trained: Trained
    comparison: Comparison | None
    crossfits: dict[str, Float64]
    policy: Policy
    solution: Solution
    solutions: dict[Route, Solution]
    unseen: Unseen | None
    outcomes: dict[Route, RouteOutcomes]
    labels: Int64

    @property
    def scorer(self) -> Scorer:
        """That serves."""
        return self.trained.scorer


def fit(
    material: EvaluationSet,
    labels: Int64,
    dev: NDArray[np.bool_],
    *,
    names: Sequence[str],
    choices: Choices,
    progress: Progress | None = None,
) -> Fitted:
    """Train a router.

    The scorer learns from train and is calibrated on dev. Kind of scorer, simple route and
    thresholds are chosen on cross-fitted scores of both, since some hundred dev questions are too
    few to tell thresholds apart, and a scorer's own training scores are too sure. So that the
    thresholds hold for questions of another kind too, each question counts a second time, scored
    by a router that has not seen its dataset.

    Args:
        material: Questions of train and dev.
        labels: (n,) 1 where only the graph succeeds, 0 where only the simple arm does, -1 else.
        dev: (n,) which questions are of dev.
        names: Of the feature columns.
        choices: What to do.
        progress: Told of training.

    Raises:
        FitError: A fold in which one arm always wins, or bounds that nothing keeps.
    """
    groups = material.groups
    pool = Pool(material.features, labels, groups, np.array(material.texts, dtype=np.str_))
    kinds = [Linear.kind, AttentionMlp.kind] if choices.kind == "auto" else [choices.kind]
    crossfits = {
        kind: crossfit(pool, names, Recipe(kind=kind), seed=choices.seed, progress=progress)
        for kind in kinds
    }
    comparison, kind = None, kinds[0]
    if len(kinds) > 1:
        known = labels >= 0
        logits = [crossfits[each][known] for each in kinds]
        comparison = compare(logits[0], logits[1], labels[known], seed=choices.seed)
        kind = kinds[1] if comparison.clever else kinds[0]
    trained = train(
        pool.examples(~dev),
        pool.examples(dev),
        names,
        Recipe(kind=kind),
        progress,
    )
    unseen = None
    if choices.elsewhere and len(np.unique(groups)) > 1:
        recipe = Recipe(kind=kind)
        unseen = leave_datasets_out(pool, names, recipe, seed=choices.seed, progress=progress)
    simple = [choices.simple] if choices.simple else list(SIMPLE_ROUTES)
    outcomes = {
        route: _outcomes(material, crossfits[kind], unseen, route, choices) for route in simple
    }
    solutions = {
        route: solve(
            of_route,
            choices.goal,
            errors=choices.errors,
            most=CUTS,
            cautious=choices.elsewhere,
        )
        for route, of_route in outcomes.items()
    }
    best = max(simple, key=lambda route: solutions[route].outcome.objective(choices.goal))
    policy = Policy(solutions[best].thresholds, best, material.median_latency_ms(best))
    return Fitted(
        choices,
        trained,
        comparison,
        crossfits,
        policy,
        solutions[best],
        solutions,
        unseen,
        outcomes,
        labels,
    )


def _outcomes(
    material: EvaluationSet, known: Float64, unseen: Unseen | None, simple: Route, choices: Choices
) -> RouteOutcomes:
    """Every question as it is met at home, and once more as it is met elsewhere."""
    fusion, quality = choices.fusion, choices.quality
    home = material.outcomes(scores_of(known), simple, fusion, quality)
    if unseen is None or not len(unseen.rows):
        return home
    rows = np.zeros(len(material), np.bool_)
    rows[unseen.rows] = True
    away = material.only(rows).outcomes(scores_of(unseen.logits), simple, fusion, quality)
    return RouteOutcomes(
        np.concatenate([home.scores, away.scores]),
        np.concatenate([home.quality, away.quality]),
        np.concatenate([home.latency_ms, away.latency_ms]),
    )
