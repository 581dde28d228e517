"""From replays to a router: scorer, calibration, simple route and thresholds, on train and dev."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from backends.progress import Progress
from backends.types import Float64, Int64, Mask
from router.fusion import FusionSettings
from router.policy import Policy
from router.scorer import AttentionMlp, Linear, Scorer
from router.types import Route
from training.data.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from training.data.examples import Pool
from training.errors import FitError
from training.evaluation.measures import MEASURES
from training.fit.crossfit import (
    ScorerComparison,
    Unseen,
    compare,
    crossfit,
    leave_datasets_out,
)
from training.fit.recipe import RouterRecipe
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


@dataclass(frozen=True)
class TrainingSet:
    """Questions that are learned from.

    Attributes:
        questions: Of train and dev, n of them.
        dev: (n,) which are of dev.
        labels: (n,) 1 where only the graph succeeds, 0 where only the simple arm does, -1 else.
        warnings: What is doubtful about learning from these.
    """

    questions: EvaluationSet
    dev: Mask
    labels: Int64
    warnings: tuple[str, ...] = ()

    def only(self, rows: Mask) -> "TrainingSet":
        """Some of the questions."""
        return TrainingSet(self.questions.only(rows), self.dev[rows], self.labels[rows])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained router, with what led to every choice.

    Attributes:
        choices: That were asked for.
        training: That it learned from.
        trained: Scorer, features and calibration.
        comparison: Of the two kinds of scorer; None where the kind was given.
        logits: (n,) of the questions, cross-fitted.
        policy: Simple route, thresholds and latencies.
        solutions: Thresholds by simple route.
        outcomes: By simple route, of the questions with cross-fitted scores; where the thresholds
            have to hold elsewhere, followed by those that routers scored which have not seen their
            dataset.
    """

    choices: Choices
    training: TrainingSet
    trained: Trained
    comparison: ScorerComparison | None
    logits: Float64
    policy: Policy
    solutions: dict[Route, Solution]
    outcomes: dict[Route, RouteOutcomes]

    @property
    def scorer(self) -> Scorer:
        """That serves."""
        return self.trained.scorer

    @property
    def solution(self) -> Solution:
        """The thresholds that were chosen."""
        return self.solutions[self.policy.simple]


def fit(
    training: TrainingSet,
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
        training: Questions and labels.
        names: Of the feature columns.
        choices: What to do.
        progress: Told of training.

    Raises:
        FitError: A fold in which one arm always wins, or bounds that nothing keeps.
    """
    questions, labels = training.questions, training.labels
    groups, seed = questions.groups, choices.seed
    pool = Pool(questions.features, labels, groups, np.array(questions.texts, dtype=np.str_))
    kinds = [Linear.kind, AttentionMlp.kind] if choices.kind == "auto" else [choices.kind]
    recipes = [RouterRecipe(kind=kind) for kind in kinds]
    crossfits = [crossfit(pool, names, one, seed=seed, progress=progress) for one in recipes]
    comparison, best = None, 0
    if len(kinds) > 1:
        known = labels >= 0
        simple, clever = (logits[known] for logits in crossfits)
        comparison = compare(simple, clever, labels[known], seed=seed)
        best = int(comparison.clever)
    recipe, logits = recipes[best], crossfits[best]
    dev = training.dev
    trained = train(pool.examples(~dev), pool.examples(dev), names, recipe, progress)
    unseen = None
    if choices.elsewhere and len(np.unique(groups)) > 1:
        unseen = leave_datasets_out(pool, names, recipe, seed=seed, progress=progress)
    outcomes = {
        route: _outcomes(questions, logits, unseen, route, choices)
        for route in ([choices.simple] if choices.simple else SIMPLE_ROUTES)
    }
    solutions = {
        route: solve(
            found, choices.goal, errors=choices.errors, most=CUTS, cautious=choices.elsewhere
        )
        for route, found in outcomes.items()
    }
    route = max(solutions, key=lambda route: solutions[route].outcome.objective(choices.goal))
    policy = Policy(solutions[route].thresholds, route, questions.median_latency_ms(route))
    return Fitted(choices, training, trained, comparison, logits, policy, solutions, outcomes)


def _outcomes(
    questions: EvaluationSet,
    logits: Float64,
    unseen: Unseen | None,
    simple: Route,
    choices: Choices,
) -> RouteOutcomes:
    """Every question as it is met at home, and once more as it is met elsewhere."""
    fusion, quality = choices.fusion, choices.quality
    home = questions.outcomes(scores_of(logits), simple, fusion, quality)
    if unseen is None or not len(unseen.rows):
        return home
    rows = np.zeros(len(questions), np.bool_)
    rows[unseen.rows] = True
    away = questions.only(rows).outcomes(scores_of(unseen.logits), simple, fusion, quality)
    return RouteOutcomes(
        np.concatenate([home.scores, away.scores]),
        np.concatenate([home.quality, away.quality]),
        np.concatenate([home.latency_ms, away.latency_ms]),
    )
