"""Quality of a router on a dataset that it was not trained on, against the best fixed route."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from wye.backends.types import Float64
from wye.router.fusion import FusionSettings
from wye.router.policy import Policy
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.evaluation.bootstrap import Interval, interval, resampled_means
from wye.training.evaluation.compare import AUTO, QUALITY, Shares, shares_of
from wye.training.evaluation.measures import MEASURES

MEASURED = (QUALITY, "R@5", "Success@1")
FIXED = (Route.HYBRID, Route.FUSION, Route.STEPS)
"""The fixed routes to compare with; steps are fusion for a question without a plan."""


@dataclass(frozen=True, slots=True)
class Away:
    """The result of one operating point on a replay that the router was not trained on.

    Attributes:
        dataset: The replay's dataset, or "dataset in union" for one dataset of a union.
        means: Measure of `MEASURED` -> mean.
        fixed: Route of `FIXED` -> mean quality.
        less_best: Paired difference in quality from the best of these.
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
    """Yield a result for each replay and each operating point."""
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
