"""Every contender on some questions: means, paired differences, latency, all from one bootstrap."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from router.types import Thresholds
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.held_out import AUTO, COLUMNS, HeldOutOutcomes
from training.fit.calibration import Reliability, reliability
from training.reporting.contents import Percentiles, percentiles
from training.thresholds.outcomes import taken

Shares = tuple[float, float, float]
"""Of the simple, fusion and graph route."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The final evaluation over some questions.

    Attributes:
        questions: How many.
        disagreements: On how many of them exactly one arm succeeds.
        means: Contender -> measure -> mean.
        differences: Contender -> measure -> paired difference auto - contender.
        latency_ms: By contender.
        shares: By contender; of the router alone where only some questions are looked at.
        gap_closed: Measure -> share of the way from the better fixed arm to the oracle; NaN where
            there is none.
        auc: Of the router's scores on the disagreements; NaN where these are one-sided.
        calibration: Of the router's scores on the disagreements; None where there are none.
    """

    questions: int
    disagreements: int
    means: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[str, Mapping[str, Interval]]
    latency_ms: Mapping[str, Percentiles]
    shares: Mapping[str, Shares]
    gap_closed: Mapping[str, float]
    auc: float
    calibration: Reliability | None


def summarise(
    judged: HeldOutOutcomes,
    rows: NDArray[np.bool_] | None = None,
    thresholds: Thresholds | None = None,
    *,
    seed: int = 0,
) -> Summary:
    """Sum up an evaluation.

    All means and differences come from the same resamples, drawn once: the figures are those of
    `HeldOutOutcomes.mean` and `HeldOutOutcomes.difference`, in a fraction of their time.

    Args:
        judged: Every contender.
        rows: (n,) which questions; None for all.
        thresholds: Of the router, for its shares on some questions; None to leave these out.
        seed: Of the bootstrap.

    Raises:
        EvaluationError: No question is left.
    """
    chosen = np.ones(len(judged.scores), np.bool_) if rows is None else rows
    names = list(judged.contenders)
    values = {name: judged.contenders[name].values[chosen] for name in names}
    # Differences are resampled themselves: those of equal contenders are 0 to the last bit.
    behind = {name: values[AUTO] - values[name] for name in names if name != AUTO}
    columns = np.concatenate([*values.values(), *behind.values()], axis=1)
    means = resampled_means(columns, seed=seed)
    found = [interval(columns[:, at], means[:, at]) for at in range(columns.shape[1])]
    cells = [
        dict(zip(COLUMNS, found[start : start + len(COLUMNS)], strict=True))
        for start in range(0, len(found), len(COLUMNS))
    ]
    known = chosen & (judged.labels >= 0)
    labels, scores = judged.labels[known], judged.scores[known]
    logits = np.log(scores) - np.log1p(-scores)
    both = len(np.unique(labels)) == 2
    return Summary(
        questions=len(columns),
        disagreements=len(labels),
        means=dict(zip(names, cells[: len(names)], strict=True)),
        differences=dict(zip(behind, cells[len(names) :], strict=True)),
        latency_ms={
            name: percentiles(judged.contenders[name].latency_ms[chosen]) for name in names
        },
        shares=_shares(judged, chosen, thresholds),
        gap_closed={measure: judged.gap_closed(AUTO, measure, chosen) for measure in COLUMNS},
        auc=float(roc_auc_score(labels, logits)) if both else float("nan"),
        calibration=reliability(logits, labels) if len(labels) else None,
    )


def _shares(
    judged: HeldOutOutcomes, chosen: NDArray[np.bool_], thresholds: Thresholds | None
) -> dict[str, Shares]:
    if chosen.all():
        return {name: one.shares for name, one in judged.contenders.items()}
    if thresholds is None:
        return {}
    codes = taken(judged.scores[chosen], thresholds)
    simple, fusion, graph = (np.bincount(codes, minlength=3) / len(codes)).tolist()
    return {AUTO: (simple, fusion, graph)}


def parts(judged: HeldOutOutcomes) -> dict[str, NDArray[np.bool_]]:
    """Which questions are of each replay, and of each dataset within it, where these differ."""
    found: dict[str, NDArray[np.bool_]] = {}
    for origin in dict.fromkeys(judged.origins.tolist()):
        of_origin = judged.origins == origin
        datasets = list(dict.fromkeys(judged.groups[of_origin].tolist()))
        found[origin] = of_origin
        if datasets != [origin]:
            for dataset in datasets:
                found[f"{origin}: {dataset}"] = of_origin & (judged.groups == dataset)
    return found
