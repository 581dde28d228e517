"""Solves the threshold of steps, from the quality that they gain and the time that they take."""

import numpy as np

from wye.backends.types import Float64
from wye.router.fusion import FusionSettings
from wye.router.policy import SURE
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.evaluation.measures import MEASURES

CANDIDATES = (0.0, 0.2, 0.35, 0.45, 0.55, 0.7, 0.85, 1.0)
"""Candidates for the threshold of steps: few, since only some hundred questions have a plan."""

LEFT_OUT = 100
"""A threshold below 1 must leave out at least this many questions with a plan, if it must hold
elsewhere too: what fewer show does not generalise."""


def solve_steps(
    questions: EvaluationSet,
    scores: Float64,
    low: float,
    weight: float,
    *,
    fusion: FusionSettings,
    measure: str,
    enough: int = 0,
) -> float:
    """The threshold of steps with the highest quality less `weight` times latency.

    Args:
        scores: (n,) scores of a router that was not trained on the questions.
        low: The low threshold. A score that is not above it, nor above `SURE`, takes no steps,
            unless the question's words nest descriptions.
        weight: Quality given up for one millisecond less.
        enough: How many questions with a plan a threshold below 1 must leave out.

    Returns:
        One of `CANDIDATES`, the highest of equal ones; 0 if steps gain nothing.
    """
    gains, longer = (
        of(Route.STEPS) - of(Route.FUSION)
        for of in (
            lambda route: questions.worth(route, fusion)[:, MEASURES.index(measure)],
            questions.latency_ms,
        )
    )
    worth = np.where(questions.unsure(scores, min(low, SURE)), gains - weight * longer, 0.0)
    best, most = 0.0, 0.0
    for threshold in CANDIDATES:
        apart = questions.apart(threshold, scores)
        if threshold < 1 and (questions.planned & ~apart).sum() < enough:
            continue
        if apart.any() and (gain := float(worth[apart].sum())) >= most and gain > 0:
            best, most = threshold, gain
    return best
