"""From replays to a router: scorer, calibration, simple route and thresholds, on train and dev."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backends.progress import Progress
from backends.types import Float64, Int64, Mask
from featurizer.registry import FEATURE_NAMES
from router.fusion import FusionSettings
from router.policy import Policy
from router.query_performance import NAMED, STAGE_1
from router.scorer import KINDS, AttentionMlp, Linear, Scorer, Trees
from router.types import Route, Thresholds
from training.data.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from training.data.examples import Pool
from training.data.respell import respell
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
from training.thresholds.outcomes import RouteOutcomes, ThresholdObjective, outcome, scores_of
from training.thresholds.solve import POINTS, Solution, solve, solve_points, standard_errors
from training.thresholds.steps import solve_steps
from training.thresholds.sweep import CUTS

UNFAMILIAR = 0.01
"""Share of dev questions that may count as unlike all of training."""
_FEATURES = {"text": STAGE_1, "syntax": FEATURE_NAMES, "all": None}


def columns_named(features: str) -> tuple[str, ...] | None:
    """What a scorer may look at, by the name of the whole; None for all columns.

    Raises:
        FitError: There is none of that name.
    """
    if features not in _FEATURES:
        raise FitError(f"There are no features '{features}'; take one of {', '.join(_FEATURES)}.")
    return _FEATURES[features]


@dataclass(frozen=True, slots=True)
class Choices:
    """What a training run is asked to do.

    Attributes:
        success: When an arm succeeds at a question; see `training.labels`.
        quality: The measure that thresholds are solved for.
        kind: "extra-trees", "attention-mlp", "linear", or "auto" for the one that cross-fitting
            prefers.
        among: Names of the features that the scorer may look at; None for all.
        hidden: Widths of the attention-MLP's hidden layers.
        unfamiliar: See `training.fit.recipe.RouterRecipe`.
        simple: The simple route, or None for the one that thresholds make most of.
        goal: Bounds on latency and on the graph's share.
        fusion: What fusion does.
        elsewhere: Whether the thresholds have to hold for questions unlike all of these as well.
        seed: Of folds and bootstrap.
    """

    success: str = "all-gold@5"
    quality: str = "nDCG@10"
    kind: str = "auto"
    among: tuple[str, ...] | None = None
    hidden: tuple[int, ...] = (64, 64)
    unfamiliar: float = 0.0
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
        if self.kind not in ("auto", *KINDS):
            raise FitError(
                f"There is no kind of scorer '{self.kind}'; take auto, {' or '.join(KINDS)}."
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


def published(choices: Choices) -> Choices:
    """The same with EA-GraphRAG's own recipe, as far as it states it."""
    return replace(
        choices,
        success="all-gold@5",
        kind=AttentionMlp.kind,
        among=FEATURE_NAMES,
        hidden=(256, 128, 64),
        unfamiliar=0.0,
        simple=Route.DENSE,
    )


@dataclass(frozen=True)
class TrainingSet:
    """Questions that are learned from.

    Attributes:
        questions: Of train and dev, n of them.
        dev: (n,) which are of dev.
        labels: (n,) 1 where the graph is needed, 0 where the simple arm is enough, -1 else.
        warnings: What is doubtful about learning from these.
        stakes: (n,) how much each question counts; None for all the same.
    """

    questions: EvaluationSet
    dev: Mask
    labels: Int64
    warnings: tuple[str, ...] = ()
    stakes: Float64 | None = None

    def only(self, rows: Mask) -> "TrainingSet":
        """Some of the questions."""
        stakes = None if self.stakes is None else self.stakes[rows]
        return TrainingSet(
            self.questions.only(rows), self.dev[rows], self.labels[rows], stakes=stakes
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained router, with what led to every choice.

    Attributes:
        choices: That were asked for.
        training: That it learned from.
        trained: Scorer, features and calibration.
        comparison: Of the last two kinds of scorer; None where the kind was given.
        logits: (n,) of the questions, cross-fitted.
        policy: Simple route, thresholds and latencies.
        solutions: Thresholds by simple route.
        pool: The questions as the scorer learned from them.
        unseen: The same scored by routers that have not seen their dataset; None if none were
            fitted.
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
    pool: Pool
    unseen: Unseen | None = None

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
    keys = np.array([respell(text) for text in questions.texts], dtype=np.str_)
    pool = Pool(questions.features, labels, groups, keys, training.stakes)
    kinds = (
        [Linear.kind, AttentionMlp.kind, Trees.kind] if choices.kind == "auto" else [choices.kind]
    )
    recipes = [
        RouterRecipe(
            kind=kind,
            among=choices.among,
            hidden=choices.hidden,
            unfamiliar=choices.unfamiliar,
        )
        for kind in kinds
    ]
    crossfits = [crossfit(pool, names, one, seed=seed, progress=progress) for one in recipes]
    comparison, best = None, 0
    known = labels >= 0
    for other in range(1, len(kinds)):
        pair = crossfits[best][known], crossfits[other][known]
        comparison = compare(*pair, labels[known], seed=seed, kinds=(kinds[best], kinds[other]))
        best = other if comparison.clever else best
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
    points = solve_points(
        outcomes[route],
        choices.goal,
        errors=choices.errors,
        most=CUTS,
        cautious=choices.elsewhere,
    )
    scores = scores_of(logits)

    def with_steps(pair: Thresholds, by: float) -> Thresholds:
        weight = by * choices.goal.steps_weight
        steps = solve_steps(
            questions,
            scores,
            pair.low,
            weight,
            fusion=choices.fusion,
            measure=choices.quality,
        )
        return replace(pair, steps=steps)

    if NAMED in trained.scorer.names:  # without it nobody knows what is left to resolve
        points = {name: with_steps(pair, POINTS[name]) for name, pair in points.items()}
        thresholds = with_steps(solutions[route].thresholds, 1.0)
        outcomes[route] = _outcomes(
            questions, logits, unseen, route, choices, steps=thresholds.steps
        )
        taken = outcome(outcomes[route], thresholds)
        solutions[route] = replace(solutions[route], thresholds=thresholds, outcome=taken)
    policy = Policy(
        solutions[route].thresholds,
        route,
        questions.median_latency_ms(route),
        points=points,
    )
    return Fitted(
        choices,
        training,
        trained,
        comparison,
        logits,
        policy,
        solutions,
        outcomes,
        pool,
        unseen,
    )


def _outcomes(
    questions: EvaluationSet,
    logits: Float64,
    unseen: Unseen | None,
    simple: Route,
    choices: Choices,
    *,
    steps: float = 0.0,
) -> RouteOutcomes:
    """Every question as it is met at home, and once more as it is met elsewhere."""
    fusion, quality = choices.fusion, choices.quality
    home = questions.outcomes(scores_of(logits), simple, fusion, quality, steps)
    if unseen is None or not len(unseen.rows):
        return home
    rows = np.zeros(len(questions), np.bool_)
    rows[unseen.rows] = True
    scores = scores_of(unseen.logits)
    away = questions.only(rows).outcomes(scores, simple, fusion, quality, steps)
    return RouteOutcomes(
        np.concatenate([home.scores, away.scores]),
        np.concatenate([home.quality, away.quality]),
        np.concatenate([home.latency_ms, away.latency_ms]),
    )
