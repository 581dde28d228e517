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


def solve_steps(
    questions: EvaluationSet,
    scores: Float64,
    low: float,
    weight: float,
    *,
    fusion: FusionSettings,
    measure: str,
) -> float:
    """The threshold of steps with the highest quality less `weight` a millisecond.

    Args:
        questions: Of train and dev.
        scores: (n,) of a router that has not seen them.
        low: The low threshold; what is neither above it nor unsure takes no steps.
        weight: Quality given up for a millisecond less.
        fusion: What fusion does.
        measure: One of `training.evaluation.measures.MEASURES`.

    Returns:
        One of `PLACES`, the lowest of equal ones; 0 where steps are worth nothing.
    """
    gained, longer = (
        of(Route.STEPS) - of(Route.FUSION)
        for of in (
            lambda route: questions.worth(route, fusion)[:, MEASURES.index(measure)],
            questions.latency_ms,
        )
    )
    worth = np.where(scores > min(low, SURE), gained - weight * longer, 0.0)
    sums = [float(worth[questions.apart(place)].sum()) for place in PLACES]
    return PLACES[int(np.argmax(sums))]
