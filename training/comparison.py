"""Whether the clever scorer beats the simple one; where it does not, the simple one is kept."""

from dataclasses import dataclass

import numpy as np

from training.bootstrap import Interval, interval, resampled_means
from training.calibration import losses
from training.examples import Examples
from training.trainer import Trained


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


def compare(simple: Trained, clever: Trained, dev: Examples, *, seed: int = 0) -> Comparison:
    """Keep the clever router only if its gain exceeds one standard error.

    This is the one-standard-error rule: of those that the data cannot tell apart, the simplest.
    Likelihood and not AUC is compared, since thresholds and fusion weights use the score's value.

    Source: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 7.10.

    Args:
        simple: Usually logistic regression.
        clever: Usually the attention-MLP.
        dev: The split on which both were calibrated.
        seed: Of the bootstrap.
    """
    one, other = (
        losses(trained.scorer.logits(dev.features), dev.labels) for trained in (simple, clever)
    )
    gains = (one - other)[:, None]
    error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("inf")
    found = interval(gains[:, 0], resampled_means(gains, seed=seed)[:, 0])
    return Comparison(found, error, found.mean > error)
