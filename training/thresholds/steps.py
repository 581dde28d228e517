"""When a question that has a plan is worth taking apart: by what steps gain, and what they take."""

import numpy as np

from backends.types import Float64
from router.fusion import FusionSettings
from router.policy import SURE
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.evaluation.measures import MEASURES

PLACES = (0.0, 0.2, 0.35, 0.45, 0.55, 0.7, 0.85, 1.0)
"""Where the threshold of steps may be: few, since some hundred questions have a plan."""

LEFT_OUT = 100
"""Questions with a plan that a place below 1 has to leave out, where it has to hold elsewhere too:
what a few say of those that need little more does not."""


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
    """The threshold of steps with the highest quality less `weight` a millisecond.

    Args:
        scores: (n,) of a router that has not seen them.
        low: The low threshold; what is neither above it nor unsure takes no steps.
        weight: Quality given up for a millisecond less.
        enough: Questions with a plan that a place below 1 has to leave out.

    Returns:
        One of `PLACES`, the highest of equal ones; 0 where steps are worth nothing.
    """
    gained, longer = (
        of(Route.STEPS) - of(Route.FUSION)
        for of in (
            lambda route: questions.worth(route, fusion)[:, MEASURES.index(measure)],
            questions.latency_ms,
        )
    )
    worth = np.where(scores > min(low, SURE), gained - weight * longer, 0.0)
    best, most = 0.0, 0.0
    for place in PLACES:
        apart = questions.apart(place)
        if place < 1 and (questions.planned & ~apart).sum() < enough:
            continue
        if apart.any() and (found := float(worth[apart].sum())) >= most and found > 0:
            best, most = place, found
    return best
