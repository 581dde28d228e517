"""How the router's scores lie, and how well they match outcomes."""

from collections.abc import Mapping

import numpy as np

from backends.types import Float64, Int64
from router.scorer import to_scores
from training.fit.calibration import Reliability, reliability
from training.reporting.contents import RouterReport

CROSSFIT, TEST = "train and dev, cross-fitted", "test"
BINS = 20
OUTCOMES: Mapping[str, int] = {
    "only the simple arm succeeds": 0,
    "both or neither": -1,
    "only the graph succeeds": 1,
}


def calibrations(report: RouterReport) -> dict[str, Reliability]:
    """By the questions that were scored."""
    fitted = report.fitted
    known = fitted.labels >= 0
    logits = fitted.crossfits[fitted.trained.recipe.kind]
    found = {
        CROSSFIT: reliability(logits[known], fitted.labels[known]),
        "dev, on which it was calibrated": fitted.trained.dev,
    }
    if report.judged is not None and report.judged.calibration is not None:
        found[TEST] = report.judged.calibration
    return found


def histograms(report: RouterReport) -> dict[str, dict[str, Int64]]:
    """Questions by score, in `BINS` groups of equal width, by what was scored and outcome."""
    fitted = report.fitted
    scores = to_scores(fitted.crossfits[fitted.trained.recipe.kind])
    found = {CROSSFIT: histogram(scores, fitted.labels)}
    if report.judged is not None:
        found[TEST] = histogram(report.judged.scores, report.judged.labels)
    return found


def histogram(scores: Float64, labels: Int64) -> dict[str, Int64]:
    """(BINS,) questions by score, for each outcome."""
    return {
        outcome: np.histogram(scores[labels == label], bins=BINS, range=(0, 1))[0]
        for outcome, label in OUTCOMES.items()
    }
