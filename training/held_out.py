"""The final evaluation: a router beside every rival, on questions that it did not learn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from wye.backends.types import Float64, Int64, Mask
from wye.router.fusion import FusionSettings
from wye.router.policy import Policy, routes
from wye.router.types import Route
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.fit.calibration import Reliability, reliability
from wye.training.labels import Disagreement
from wye.training.measures import MEASURES, Interval, compare, mean_interval

AUTO, ORACLE = "auto", "oracle"
QUALITY = "nDCG@10"
"""The measure that the oracle maximises, and that reports show first."""
MEASURED = (QUALITY, "R@5", "Success@1")
"""The measures of the card, and of datasets that were not trained on."""
ALWAYS = (*SIMPLE_ROUTES, Route.GRAPH, Route.FUSION, Route.STEPS)
FIXED = (Route.HYBRID, Route.FUSION, Route.STEPS)
"""The routes to compare with on such a dataset; steps are fusion for a question without a plan."""

Shares = tuple[float, float, float, float]
"""Shares of the simple, the fusion and the graph route, and of steps."""


@dataclass(frozen=True, slots=True)
class SystemOutcomes:
    """One system's outcome for every question.

    Attributes:
        values: (n, m) every measure, columns as in `MEASURES`.
        latency_ms: (n,) time of the stages that it runs.
    """

    values: Float64
    latency_ms: Float64
    shares: Shares


@dataclass(frozen=True, slots=True)
class Away:
    """A router's result on a dataset that gave none of its scores.

    Attributes:
        dataset: The replay's dataset, or "dataset in union" for one dataset of a union.
        means: Measure of `MEASURED` -> mean.
        fixed: Route of `FIXED` -> mean quality.
        less_best: Paired difference in quality from the best of these.
    """

    dataset: str
    questions: int
    means: Mapping[str, float]
    fixed: Mapping[str, float]
    less_best: Interval
    shares: Shares


@dataclass(frozen=True)
class HeldOutEvaluation:
    """The results on the test splits.

    Attributes:
        questions: Test questions of the sources that the router was trained on.
        systems: Name -> outcomes on them.
        codes: (n,) codes of the routes that auto takes.
        scores: (n,) the router's scores.
        labels: (n,) labels, by the success that the router learned.
        better: (n,) as in `wye.training.labels.Disagreement`.
    """

    questions: EvaluationSet
    systems: Mapping[str, SystemOutcomes]
    codes: Int64
    scores: Float64
    labels: Float64
    better: Int64


def run_systems(
    questions: EvaluationSet,
    scores: Float64,
    policy: Policy,
    disagreement: Disagreement,
    *,
    fusion: FusionSettings,
) -> HeldOutEvaluation:
    """Compute every system's outcomes.

    Args:
        scores: (n,) the router's scores.
        disagreement: The questions' labels.
    """
    thresholds = policy.thresholds

    # Some questions are parsed to see whether they have a plan.
    parsed = questions.parsed(scores, thresholds.steps) if thresholds.steps else None
    own = [
        _always(questions, route, fusion, scores, parsed=parsed)
        for route in (*routes(policy.simple), Route.STEPS)
    ]
    codes = questions.codes(scores, thresholds)
    systems = {
        f"always {route}": _always(questions, route, fusion, routed=False) for route in ALWAYS
    }
    for point, pair in policy.points.items():
        if pair != thresholds:
            systems[f"{AUTO} {point}"] = _mixed(own, questions.codes(scores, pair))
    systems[AUTO] = _mixed(own, codes)
    quality = np.stack([path.values[:, MEASURES.index(QUALITY)] for path in own], axis=1)
    systems[ORACLE] = _mixed(own, quality.argmax(axis=1))
    labels, better = disagreement.labels, disagreement.better
    return HeldOutEvaluation(questions, systems, codes, scores, labels, better)


def _always(
    questions: EvaluationSet,
    route: Route,
    fusion: FusionSettings,
    scores: Float64 | None = None,
    *,
    routed: bool = True,
    parsed: Mask | None = None,
) -> SystemOutcomes:
    """One route for every question; arguments as for `EvaluationSet`'s methods."""
    code = {Route.FUSION: 1, Route.GRAPH: 2, Route.STEPS: 3}.get(route, 0)
    latency_ms = questions.latency_ms(route, routed=routed, parsed=parsed)
    shares = shares_of(np.full(len(questions), code))
    return SystemOutcomes(questions.worth(route, fusion, scores), latency_ms, shares)


def _mixed(choices: Sequence[SystemOutcomes], codes: Int64) -> SystemOutcomes:
    """Outcomes with each question's route chosen by its code."""
    rows = np.arange(len(codes))
    values = np.stack([choice.values for choice in choices], axis=1)
    latency = np.stack([choice.latency_ms for choice in choices], axis=1)
    return SystemOutcomes(values[rows, codes], latency[rows, codes], shares_of(codes))


def shares_of(codes: Int64) -> Shares:
    """Shares of the routes, from the (n,) codes of the routes taken."""
    simple, fused, graph, steps = (np.bincount(codes, minlength=4) / len(codes)).tolist()
    return simple, fused, graph, steps


def away(
    questions: EvaluationSet, scores: Float64, policy: Policy, fusion: FusionSettings
) -> list[Away]:
    """The result on each replay.

    Args:
        scores: (n,) scores of routers that did not learn from the question's dataset.
    """
    columns = [MEASURES.index(measure) for measure in MEASURED]
    taken = (*routes(policy.simple), Route.STEPS)
    worth = {
        route: questions.worth(route, fusion, scores)[:, columns] for route in {*taken, *FIXED}
    }
    choices = np.stack([worth[route] for route in taken], axis=1)
    codes = questions.codes(scores, policy.thresholds)
    results = []
    for origin in dict.fromkeys(questions.origins.tolist()):
        rows = np.flatnonzero(questions.origins == origin)
        datasets = {*questions.groups[rows].tolist()} - {origin}
        fixed = {str(route): float(worth[route][rows, 0].mean()) for route in FIXED}
        best = worth[Route(max(fixed, key=lambda route: fixed[route]))][rows, 0]
        values = choices[rows, codes[rows]]
        results.append(
            Away(
                dataset=f"{min(datasets)} in {origin}" if len(datasets) == 1 else origin,
                questions=len(rows),
                means=dict(zip(MEASURED, values.mean(axis=0).tolist(), strict=True)),
                fixed=fixed,
                less_best=mean_interval(values[:, 0] - best),
                shares=shares_of(codes[rows]),
            )
        )
    return results


@dataclass(frozen=True, slots=True)
class Summary:
    """The final evaluation, summarised.

    Attributes:
        disagreements: Number of questions on which one arm is better.
        differences: System -> measure -> paired difference auto - system.
        latency_ms: System -> mean milliseconds.
        shares: System -> shares of its routes.
        gap_closed: How much of the gap in quality from the best fixed route to the oracle the
            router closes; NaN if there is no gap.
        auc: AUC of the router's scores, for labels above 0; NaN if there are none.
        calibration: Calibration of the router's scores; None without labels.
    """

    questions: int
    disagreements: int
    means: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[str, Mapping[str, Interval]]
    latency_ms: Mapping[str, float]
    shares: Mapping[str, Shares]
    gap_closed: float
    auc: float
    calibration: Reliability | None


def summarise(held_out: HeldOutEvaluation) -> Summary:
    """Summarise an evaluation; all means and differences share their resamples.

    Raises:
        EvaluationError: There is no question.
    """
    systems = held_out.systems
    pairs = [(AUTO, name) for name in systems if name != AUTO]
    values = {name: run.values for name, run in systems.items()}
    means, differences = compare(values, pairs, MEASURES)
    labelled = held_out.labels >= 0
    labels, scores = held_out.labels[labelled], held_out.scores[labelled]
    quality = {name: cells[QUALITY].mean for name, cells in means.items()}
    fixed = max(quality[f"always {route}"] for route in ALWAYS)
    gap = quality[ORACLE] - fixed
    return Summary(
        questions=len(held_out.scores),
        disagreements=int((held_out.better >= 0).sum()),
        means=means,
        differences={name: cells for (_, name), cells in differences.items()},
        latency_ms={name: float(run.latency_ms.mean()) for name, run in systems.items()},
        shares={name: run.shares for name, run in systems.items()},
        gap_closed=(quality[AUTO] - fixed) / gap if gap > 0 else float("nan"),
        auc=auc(scores, labels),
        calibration=reliability(logit(scores), labels) if len(labels) else None,
    )


def auc(scores: Float64, labels: Float64) -> float:
    """Area under the ROC curve for labels above 0; NaN if all or none are."""
    positive = labels > 0
    return float(roc_auc_score(positive, scores)) if 0 < positive.sum() < len(labels) else np.nan
