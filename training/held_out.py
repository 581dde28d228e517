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
class LeftOut:
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


def run_systems(
    questions: EvaluationSet, scores: Float64, policy: Policy, fusion: FusionSettings
) -> dict[str, SystemOutcomes]:
    """Every system's outcomes by name: each route for all questions, the router, and the oracle.

    Args:
        scores: (n,) the router's scores.
    """
    thresholds = policy.thresholds
    # Some questions are parsed to see whether they have a plan.
    parsed = questions.parsed(scores, thresholds.steps) if thresholds.steps else None
    by_code = [
        _always(questions, route, fusion, scores, parsed=parsed)
        for route in (*routes(policy.simple), Route.STEPS)
    ]
    systems = {
        f"always {route}": _always(questions, route, fusion, routed=False) for route in ALWAYS
    }
    for point, pair in policy.points.items():
        if pair != thresholds:
            systems[f"{AUTO} {point}"] = _mixed(by_code, questions.codes(scores, pair))
    systems[AUTO] = _mixed(by_code, questions.codes(scores, thresholds))
    quality = np.stack([route.values[:, MEASURES.index(QUALITY)] for route in by_code], axis=1)
    systems[ORACLE] = _mixed(by_code, quality.argmax(axis=1))
    return systems


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
    return SystemOutcomes(questions.values_of(route, fusion, scores), latency_ms, shares)


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


def left_out_results(
    questions: EvaluationSet, scores: Float64, policy: Policy, fusion: FusionSettings
) -> list[LeftOut]:
    """The result on each replay.

    Args:
        scores: (n,) scores of routers that did not learn from the question's dataset.
    """
    columns = [MEASURES.index(measure) for measure in MEASURED]
    by_code = (*routes(policy.simple), Route.STEPS)
    values_of = {
        route: questions.values_of(route, fusion, scores)[:, columns]
        for route in {*by_code, *FIXED}
    }
    choices = np.stack([values_of[route] for route in by_code], axis=1)
    codes = questions.codes(scores, policy.thresholds)
    results = []
    for origin in dict.fromkeys(questions.origins.tolist()):
        rows = np.flatnonzero(questions.origins == origin)
        datasets = {*questions.groups[rows].tolist()} - {origin}
        fixed = {str(route): float(values_of[route][rows, 0].mean()) for route in FIXED}
        best = values_of[Route(max(fixed, key=lambda route: fixed[route]))][rows, 0]
        values = choices[rows, codes[rows]]
        results.append(
            LeftOut(
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
class QuestionCounts:
    """Questions of one dataset in one split of one replay.

    Attributes:
        origin: Name of the replay: the dataset itself, its copy, or a union that contains it.
        simple: Number of questions on which the simple arm is better.
        graph: Number on which the graph is.
    """

    origin: str
    dataset: str
    split: str
    questions: int
    simple: int
    graph: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The results on the test splits.

    Attributes:
        disagreements: Number of questions on which one arm is better.
        differences: System -> measure -> paired difference auto - system.
        latency_ms: System -> mean milliseconds.
        shares: System -> shares of its routes.
        gap_closed: How much of the gap in quality from the best fixed route to the oracle the
            router closes; NaN if there is no gap.
        auc: AUC of the router's scores, for labels above 0; NaN if there are none.
        calibration: Calibration of the router's scores; None without labels.
        data: Numbers of questions.
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
    data: tuple[QuestionCounts, ...]


def summarise(
    systems: Mapping[str, SystemOutcomes],
    questions: EvaluationSet,
    scores: Float64,
    disagreement: Disagreement,
) -> Summary:
    """Summarise outcomes; all means and differences share their resamples.

    Args:
        scores: (n,) the router's scores.
        disagreement: The questions' labels, by the success that the router learned.

    Raises:
        EvaluationError: There is no question.
    """
    pairs = [(AUTO, name) for name in systems if name != AUTO]
    values = {name: run.values for name, run in systems.items()}
    means, differences = compare(values, pairs, MEASURES)
    labelled = disagreement.labels >= 0
    labels, labelled_scores = disagreement.labels[labelled], scores[labelled]
    quality = {name: cells[QUALITY].mean for name, cells in means.items()}
    fixed = max(quality[f"always {route}"] for route in ALWAYS)
    gap = quality[ORACLE] - fixed
    return Summary(
        questions=len(questions),
        disagreements=len(disagreement),
        means=means,
        differences={name: cells for (_, name), cells in differences.items()},
        latency_ms={name: float(run.latency_ms.mean()) for name, run in systems.items()},
        shares={name: run.shares for name, run in systems.items()},
        gap_closed=(quality[AUTO] - fixed) / gap if gap > 0 else float("nan"),
        auc=auc(labelled_scores, labels),
        calibration=reliability(logit(labelled_scores), labels) if len(labels) else None,
        data=count_questions(questions, disagreement.better),
    )


def count_questions(questions: EvaluationSet, better: Int64) -> tuple[QuestionCounts, ...]:
    """Count the questions of every replay and dataset.

    Args:
        better: (n,) as in `wye.training.labels.Disagreement`.
    """
    result, start = [], 0
    for replay in questions.replays:
        replay_better = better[start : start + len(replay)]
        start += len(replay)
        for dataset in np.unique(replay.groups).tolist():
            rows = replay.groups == dataset
            simple, graph = (int((replay_better[rows] == label).sum()) for label in (0, 1))
            counts = int(rows.sum()), simple, graph
            result.append(QuestionCounts(replay.dataset, dataset, replay.split, *counts))
    return tuple(result)


def auc(scores: Float64, labels: Float64) -> float:
    """Area under the ROC curve for labels above 0; NaN if all or none are."""
    positive = labels > 0
    return float(roc_auc_score(positive, scores)) if 0 < positive.sum() < len(labels) else np.nan
