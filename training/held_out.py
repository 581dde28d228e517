"""The final evaluation: a router beside every rival, on questions that it did not learn from."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from wye.backends.types import Float64, Int64
from wye.router.policy import Policy, routes
from wye.router.types import Route
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.fit.calibration import Reliability, reliability
from wye.training.labels import Disagreement
from wye.training.measures import MEASURES, QUALITY, Interval, compare

AUTO, ORACLE = "auto", "oracle"
MEASURED = (QUALITY, "R@5", "Success@1")  # the measures of the card; the oracle maximises the first
ALWAYS = (*SIMPLE_ROUTES, Route.GRAPH, Route.FUSION, Route.STEPS)


@dataclass(frozen=True, slots=True)
class SystemOutcomes:
    """One system's outcome for every question."""

    values: Float64  # (n, m) every measure, columns as in `MEASURES`
    latency_ms: Float64  # (n,) time of the stages that it runs
    codes: Int64  # (n,) the routes taken: 0 simple, 1 fusion, 2 graph, 3 steps

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the simple, the fusion and the graph route, and of steps."""
        return tuple((np.bincount(self.codes, minlength=4) / len(self.codes)).tolist())


def run_systems(
    questions: EvaluationSet, scores: Float64, policy: Policy
) -> dict[str, SystemOutcomes]:
    """Every system's outcomes by name: each route, the router by its scores (n,), the oracle."""
    thresholds, rows = policy.thresholds, np.arange(len(questions))
    parsed = questions.parsed(scores, thresholds.steps)
    taken = (*routes(policy.simple), Route.STEPS)
    values = np.stack([questions.values_of(route, scores) for route in taken])
    latency_ms = np.stack([questions.latency_ms(route, parsed=parsed) for route in taken])

    def routed(codes: Int64) -> SystemOutcomes:
        return SystemOutcomes(values[codes, rows], latency_ms[codes, rows], codes)

    systems = {
        f"always {route}": SystemOutcomes(
            questions.values_of(route),
            questions.latency_ms(route, routed=False),
            np.full(len(rows), taken.index(route) if route in taken else 0),
        )
        for route in ALWAYS
    }
    systems[AUTO] = routed(questions.codes(scores, thresholds))
    systems[ORACLE] = routed(values[:, :, MEASURES.index(QUALITY)].argmax(axis=0))
    return systems


@dataclass(frozen=True, slots=True)
class Summary:
    """The results on some questions, by scores of routers that did not learn from them.

    Attributes:
        differences: System -> measure -> paired difference auto - system.
        gap_closed: How much of the gap in quality from that one to the oracle the router closes;
            NaN if there is no gap.
    """

    questions: int
    means: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[str, Mapping[str, Interval]]
    latency_ms: Mapping[str, float]  # system -> mean milliseconds
    shares: Mapping[str, tuple[float, ...]]  # system -> shares of its routes
    less_best: Interval  # paired difference in quality from the best route that is always taken
    gap_closed: float
    auc: float  # AUC of the router's scores, for labels above 0; NaN if there are none
    calibration: Reliability | None  # calibration of the router's scores; None without labels
    data: Mapping[str, Counter[str]]  # see `count_questions`


def summarise(
    systems: Mapping[str, SystemOutcomes],
    questions: EvaluationSet,
    scores: Float64,
    disagreement: Disagreement,
) -> Summary:
    """Summarise outcomes and scores (n,); all means and differences share their resamples.

    `disagreement` has labels by the success that the router learned.
    """
    pairs = [(AUTO, name) for name in systems if name != AUTO]
    values = {name: run.values for name, run in systems.items()}
    means, differences = compare(values, pairs, MEASURES)
    labelled = disagreement.labels >= 0
    labels, labelled_scores = disagreement.labels[labelled], scores[labelled]
    quality = {name: cells[QUALITY].mean for name, cells in means.items()}
    best = max((f"always {route}" for route in ALWAYS), key=lambda name: quality[name])
    gap = quality[ORACLE] - quality[best]
    return Summary(
        questions=len(questions),
        means=means,
        differences={name: cells for (_, name), cells in differences.items()},
        latency_ms={name: float(run.latency_ms.mean()) for name, run in systems.items()},
        shares={name: run.shares for name, run in systems.items()},
        less_best=differences[AUTO, best][QUALITY],
        gap_closed=(quality[AUTO] - quality[best]) / gap if gap > 0 else float("nan"),
        auc=auc(labelled_scores, labels),
        calibration=reliability(logit(labelled_scores), labels) if len(labels) else None,
        data=count_questions(questions, disagreement.better),
    )


def count_questions(questions: EvaluationSet, better: Int64) -> dict[str, Counter[str]]:
    """Dataset -> questions: by split, and on which "simple" or "graph" is `better` (n,)."""
    counts: dict[str, Counter[str]] = {}
    splits = np.repeat([r.split for r in questions.replays], [len(r) for r in questions.replays])
    for dataset, split, winner in zip(questions.groups, splits, better, strict=True):
        winners = ("simple", "graph", "neither")
        counts.setdefault(str(dataset), Counter()).update((str(split), winners[winner]))
    return counts


def auc(scores: Float64, labels: Float64) -> float:
    """Area under the ROC curve for labels above 0; NaN if all or none are."""
    positive = labels > 0
    return float(roc_auc_score(positive, scores)) if 0 < positive.sum() < len(labels) else np.nan
