"""Whether the clever scorer beats the simple one; where it does not, the simple one is kept."""

from dataclasses import dataclass

import numpy as np

from backends.types import Float64, Int64
from training.errors import FitError
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.fit.calibration import losses


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two routers on the same dev questions.

    Attributes:
        gain: How much lower the clever one's negative log likelihood is, in nats a question, with
            its paired bootstrap interval.
        error: Standard error of the gain.
        clever: Whether the clever one is to be kept.
    """

    gain: Interval
    error: float
    clever: bool


def compare(simple: Float64, clever: Float64, labels: Int64, *, seed: int = 0) -> Comparison:
    """Keep the clever router only if its gain exceeds one standard error.

    This is the one-standard-error rule: of those that the data cannot tell apart, the simplest.
    Likelihood and not AUC is compared, since thresholds and fusion weights use the score's value.

    Source: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 7.10.

    Args:
        simple: (n,) calibrated logits, usually of logistic regression.
        clever: (n,) calibrated logits, usually of the attention-MLP.
        labels: (n,) 0 or 1, of dev questions or, which decides more surely, of cross-fitted ones.
        seed: Of the bootstrap.

    Raises:
        FitError: Fewer than 2 questions.
    """
    if len(labels) < 2:
        raise FitError(f"{len(labels)} questions cannot tell two routers apart; give more.")
    gains = losses(simple, labels) - losses(clever, labels)
    error = float(gains.std(ddof=1) / np.sqrt(len(gains)))
    found = interval(gains, resampled_means(gains[:, None], seed=seed)[:, 0])
    return Comparison(found, error, found.mean > error)
