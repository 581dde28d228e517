"""How far a question's graph list is to be trusted, from signals that mean the same everywhere.

A walk from a title that stands over one passage finds it, and its mass falls off steeply; a walk
from words that many passages share spreads, and cannot tell these passages apart. That is so
whatever the corpus is about and however its questions are spelt, so what is fitted on some
datasets holds on others, where a score of the question's words does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from backends.types import Float64
from router.errors import SettingsError
from router.query_performance import signals
from router.types import ArmResults

TRUST_SIGNALS: tuple[str, ...] = ("seed_title_uniqueness", "graph_margin_5")
"""What a `GraphWeightModel` weighs, in order; more of either never speaks against the graph."""
MOST_LOGIT = 10.0
"""Of a score near 0 or 1: the scorer's certainty is not taken at its word beyond this."""


@dataclass(frozen=True, slots=True)
class GraphWeightModel:
    """A logistic model of whether the graph's list is the better one, with few numbers to know.

    `training.fit.graph_weight` fits it. The defaults lie on the plateau around what it finds for
    the train
    and dev questions of 2wiki, popqa and nq over one corpus; `benchmarks.fusion` prints both.

    Attributes:
        bias: Logit of a question without a title among its seeds whose walk tells nothing apart.
        seed_title_uniqueness: Of a seed's value over the passages that have it for a title, best.
        graph_margin_5: Of the logarithm of the first passage's mass over the fifth's.
        score: Of the logit of the router's score s; 0 leaves s to the choice of routes.
    """

    bias: float = -4.5
    seed_title_uniqueness: float = 3.0
    graph_margin_5: float = 1.1
    score: float = 0.0

    def __post_init__(self) -> None:
        numbers = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        bad = [name for name, value in numbers.items() if not np.isfinite(value)]
        bad += [name for name in (*TRUST_SIGNALS, "score") if numbers[name] < 0]
        if bad:
            variable = f"WYE_FUSION__TRUST__{bad[0].upper()}"
            raise SettingsError(
                f"{variable} is {numbers[bad[0]]}; use a finite number, 0 or more for a weight."
            )


def trust(
    evidence: Sequence[ArmResults], weights: GraphWeightModel, scores: Sequence[float | None]
) -> Float64:
    """Trust t of each question, from 0 (the text arms alone) to 1 (the graph alone).

    Args:
        evidence: One for each question, of all arms.
        weights: Fitted.
        scores: s of each question, or None where nothing scored it, which counts as 0.5.

    Returns:
        (n,) float64.
    """
    logits = weights.bias + signals(evidence, TRUST_SIGNALS) @ np.array(
        [getattr(weights, name) for name in TRUST_SIGNALS]
    )
    if weights.score:
        known = np.array([0.5 if score is None else score for score in scores])
        logits = logits + weights.score * bounded_logit(known)
    return logistic(logits)


def bounded_logit(scores: Float64) -> Float64:
    """ln(s / (1 - s)) within ± `MOST_LOGIT`."""
    least = 1 / (1 + np.exp(MOST_LOGIT))
    inside = np.clip(scores, least, 1 - least)
    result: Float64 = np.log(inside / (1 - inside))
    return result


def logistic(logits: Float64) -> Float64:
    """1 / (1 + exp(-x)), without overflow."""
    result: Float64 = 0.5 * (1 + np.tanh(logits / 2))
    return result
