"""What a router is worth on a dataset that it has not seen: beside the best fixed choice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from backends.types import Float64
from router.fusion import FusionSettings
from router.policy import Policy
from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.compare import AUTO, QUALITY, Shares, shares_of
from training.evaluation.measures import MEASURES

MEASURED = (QUALITY, "R@5", "Success@1")
FIXED = (Route.HYBRID, Route.FUSION, Route.STEPS)
"""What a router has to be as good as, each taken always; steps are fusion without a plan."""


@dataclass(frozen=True, slots=True)
class Away:
    """A replay, as an operating point of a router routes it that has not seen it.

    Attributes:
        dataset: Of the replay, or that one of it that was left out.
        means: Of `MEASURED`.
        fixed: Of `FIXED`, the mean quality.
        less_best: Quality less that of the best of these, paired.
    """

    dataset: str
    point: str
    questions: int
    means: Mapping[str, float]
    fixed: Mapping[str, float]
    less_best: Interval
    shares: Shares


def away(
    questions: EvaluationSet,
    scores: Float64,
    policy: Policy,
    fusion: FusionSettings,
    *,
    seed: int = 0,
) -> Iterator[Away]:
    """A row for each replay and each operating point."""
    columns = [MEASURES.index(measure) for measure in MEASURED]
    taken = (policy.simple, Route.FUSION, Route.GRAPH, Route.STEPS)
    worth = {
        route: questions.worth(route, fusion, scores)[:, columns] for route in {*taken, *FIXED}
    }
    choices = np.stack([worth[route] for route in taken], axis=1)
    for origin in dict.fromkeys(questions.origins.tolist()):
        rows = np.flatnonzero(questions.origins == origin)
        datasets = {*questions.groups[rows].tolist()} - {origin}
        name = f"{min(datasets)} in {origin}" if len(datasets) == 1 else origin
        fixed = {str(route): float(worth[route][rows, 0].mean()) for route in FIXED}
        best = worth[Route(max(fixed, key=lambda route: fixed[route]))][rows, 0]
        for point, thresholds in (policy.points or {AUTO: policy.thresholds}).items():
            codes = questions.codes(scores, thresholds)[rows]
            values = choices[rows, codes]
            less = values[:, 0] - best
            yield Away(
                dataset=name,
                point=point,
                questions=len(rows),
                means=dict(zip(MEASURED, values.mean(axis=0).tolist(), strict=True)),
                fixed=fixed,
                less_best=interval(less, resampled_means(less[:, None], seed=seed)[:, 0]),
                shares=shares_of(codes),
            )
