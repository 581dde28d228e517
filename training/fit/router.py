"""Fits a router on train and dev replays: scorer, calibration, simple route and thresholds."""

from dataclasses import dataclass, field, replace

import numpy as np

from wye.backends.types import Float64, Progress
from wye.featurizer.registry import FEATURE_NAMES
from wye.router.evidence import NAMES_SIGNAL, SIDES_SIGNAL
from wye.router.policy import SURE, Policy
from wye.router.scorer import Scorer
from wye.router.types import Route, Thresholds
from wye.training.data import respell
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.fit.scorers import RouterRecipe
from wye.training.fit.trainer import CrossFit, Pool, crossfit, fit_scorer, leave_datasets_out
from wye.training.labels import ALL_GOLD, HELPS, Disagreement
from wye.training.thresholds import (
    FUSION,
    GRAPH,
    MAX_LOSS,
    RouteOutcomes,
    Solution,
    ThresholdObjective,
    outcome,
    scores_of,
    solve,
)

STEPS = (0.0, 0.2, 0.35, 0.45, 0.55, 0.7, 0.85, 1.0)
"""Candidates for the threshold of steps: few, since only some hundred questions have a plan."""
LEFT_OUT = 100
"""A threshold of steps below 1 must leave out at least this many questions with a plan, if it must
hold elsewhere too: what fewer show does not generalise."""
UNFAMILIAR = 0.01  # share of the questions that count as unlike all others
LEAST_SHARE = 0.1
"""Share of the questions that each of EA-GraphRAG's three routes must have at least."""
PUBLISHED = RouterRecipe(among=FEATURE_NAMES, hidden=(256, 128, 64), pieces=0, taught=0.0)
"""EA-GraphRAG's own recipe, as far as it is published."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a training run.

    Attributes:
        goal: Weights of latency, and bounds on latency and on the graph's share.
        elsewhere: Whether the thresholds must also hold for questions unlike the training ones.
    """

    success: str = HELPS  # what counts as success on a question; see `wye.training.labels`
    recipe: RouterRecipe = field(default_factory=RouterRecipe)  # the scorer's hyper-parameters
    simple: Route | None = None  # the simple route; None for the one with the best thresholds
    goal: ThresholdObjective = field(default_factory=ThresholdObjective)
    elsewhere: bool = True


def published(choices: Choices) -> Choices:
    """The choices with `PUBLISHED`, and the label, routes and thresholds that go with it."""
    return replace(
        choices,
        success=ALL_GOLD,
        recipe=PUBLISHED,
        simple=Route.DENSE,
        goal=replace(choices.goal, latency_weight=0.0, least_share=LEAST_SHARE),
        elsewhere=False,
    )


def pool_of(questions: EvaluationSet, disagreement: Disagreement) -> Pool:
    """The questions as a scorer is trained on them."""
    keys = np.array([respell(text) for text in questions.texts], dtype=np.str_)
    labels, stakes = disagreement.labels, disagreement.stakes
    return Pool(questions.features, labels, questions.groups, stakes, keys)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained router, with the evidence for each choice.

    Attributes:
        unseen: (n,) logits of the questions by scorers that did not learn from their dataset; NaN
            where the others teach nothing. None if thresholds need not hold elsewhere.
        outcomes: Outcomes of the questions with cross-fitted scores, for the simple route that was
            taken; those with `unseen` follow.
    """

    choices: Choices
    questions: EvaluationSet  # the n questions of train and dev
    disagreement: Disagreement  # their labels
    scorer: Scorer
    crossfit: CrossFit  # their scores by scorers that did not learn from them
    unseen: Float64 | None
    policy: Policy
    solutions: dict[Route, Solution]  # simple route -> its thresholds
    outcomes: RouteOutcomes

    @property
    def solution(self) -> Solution:
        """The thresholds of the chosen simple route."""
        return self.solutions[self.policy.simple]


def fit(
    questions: EvaluationSet,
    disagreement: Disagreement,
    choices: Choices,
    progress: Progress | None = None,
) -> Fitted:
    """Train a router on all questions of train and dev.

    Calibration, simple route and thresholds are chosen on cross-fitted scores, since a scorer's own
    training scores are overconfident. So that the thresholds also hold for other kinds of
    questions, each question counts a second time, scored by a router that was trained without its
    dataset.

    Args:
        disagreement: The questions' labels.

    Raises:
        FitError: One arm always wins in a fold, or no thresholds keep the bounds.
    """
    pool, names = pool_of(questions, disagreement), questions.names
    recipe = choices.recipe
    crossfitted = crossfit(pool, names, recipe, progress)
    temperature, bias = crossfitted.temperature, crossfitted.bias
    scorer = replace(fit_scorer(pool, names, recipe), temperature=temperature, bias=bias)
    unseen = None
    if choices.elsewhere and len(np.unique(pool.groups)) > 1:
        unseen = leave_datasets_out(pool, names, recipe, crossfitted)
    scores = scores_of(crossfitted.logits)
    # Steps are decided by these signals.
    takes_steps = {NAMES_SIGNAL, SIDES_SIGNAL} <= set(scorer.names)
    goal = replace(choices.goal, max_loss=MAX_LOSS) if choices.elsewhere else choices.goal

    def stepping(thresholds: Thresholds) -> Thresholds:
        """The thresholds with the best one of steps beside them, if it can be decided."""
        if not takes_steps:
            return thresholds
        weight, enough = goal.latency_weight, LEFT_OUT if choices.elsewhere else 0
        steps = solve_steps(questions, scores, thresholds.low, weight, enough)
        return replace(thresholds, steps=steps)

    steps = stepping(Thresholds(0.0, 1.0)).steps
    outcomes = {
        route: _outcomes(questions, scores, unseen, route, steps, solving=True)
        for route in ([choices.simple] if choices.simple else SIMPLE_ROUTES)
    }
    solutions = {
        route: solve(each, goal, cautious=choices.elsewhere) for route, each in outcomes.items()
    }
    route = max(solutions, key=lambda route: solutions[route].outcome.objective(choices.goal))
    taken = outcomes[route]
    if takes_steps:
        thresholds = stepping(solutions[route].thresholds)
        taken = _outcomes(questions, scores, unseen, route, thresholds.steps)
        result = outcome(taken, thresholds)
        solutions[route] = replace(solutions[route], thresholds=thresholds, outcome=result)
    policy = Policy(solutions[route].thresholds, route)
    return Fitted(
        choices, questions, disagreement, scorer, crossfitted, unseen, policy, solutions, taken
    )


def solve_steps(
    questions: EvaluationSet, scores: Float64, low: float, weight: float, enough: int = 0
) -> float:
    """The threshold of steps with the highest quality less `weight` times latency.

    Args:
        scores: (n,) scores of a router that was not trained on the questions.
        low: The low threshold. A score that is not above it, nor above `SURE`, takes no steps,
            unless the question's words nest descriptions.
        weight: Quality given up for one millisecond less.
        enough: How many questions with a plan a threshold below 1 must leave out.

    Returns:
        One of `STEPS`, the highest of equal ones; 0 if steps gain nothing.
    """
    better = questions.quality_of(Route.STEPS) - questions.quality_of(Route.FUSION)
    longer = questions.latency_ms(Route.STEPS) - questions.latency_ms(Route.FUSION)
    gains = np.where(questions.unsure(scores, min(low, SURE)), better - weight * longer, 0.0)
    best, most = 0.0, 0.0
    for threshold in STEPS:
        in_steps = questions.takes_steps(threshold, scores)
        if threshold < 1 and (questions.planned & ~in_steps).sum() < enough:
            continue
        gain = float(gains[in_steps | questions.follows(threshold) & (scores > low)].sum())
        if in_steps.any() and gain >= most and gain > 0:
            best, most = threshold, gain
    return best


def _outcomes(
    questions: EvaluationSet,
    scores: Float64,
    unseen: Float64 | None,
    simple: Route,
    steps: float,
    *,
    solving: bool = False,
) -> RouteOutcomes:
    """Outcomes of every question, then again with scores of routers that never saw its dataset.

    For solving thresholds, the time of steps is left out, since steps have a threshold of their
    own. If thresholds must hold elsewhere, the graph alone counts as fusion: what it gained on
    familiar questions, it lost on unfamiliar kinds.
    """
    home = questions.outcomes(scores, simple, steps, timed=not solving)
    if unseen is None or np.isnan(unseen).all():
        return home
    rows = ~np.isnan(unseen)
    subset = questions.only(rows)
    unfamiliar = subset.outcomes(scores_of(unseen[rows]), simple, steps, timed=not solving)
    origins = [f"{a}={b}" for a, b in zip(subset.origins, subset.groups, strict=True)]
    _, unseen_dataset = np.unique(origins, return_inverse=True)
    both = RouteOutcomes(
        np.concatenate([home.scores, unfamiliar.scores]),
        np.concatenate([home.quality, unfamiliar.quality]),
        np.concatenate([home.latency_ms, unfamiliar.latency_ms]),
        np.concatenate([np.zeros(len(home), np.int64), unseen_dataset + 1]),
    )
    if solving:
        for values in (both.quality, both.latency_ms):
            values[:, GRAPH] = values[:, FUSION]
    return both
