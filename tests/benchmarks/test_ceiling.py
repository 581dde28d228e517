"""A choice by predicted gains finds what a column tells, and gains nothing from noise."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from benchmarks.ceiling import ROUTES, chosen, predicted
from wye.backends.types import Float64

RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(300, 4))


def learner(seed: int) -> ExtraTreesRegressor:
    return ExtraTreesRegressor(20, min_samples_leaf=5, random_state=seed)


def worth_of(hybrid_is_right: Float64) -> Float64:
    """Hybrid has 1 where it is right, and steps have 1 elsewhere; the others have nothing."""
    result = np.zeros((len(hybrid_is_right), len(ROUTES)))
    result[:, 0], result[:, -1] = hybrid_is_right, 1 - hybrid_is_right
    return result


def gain(row: list[str]) -> float:
    return float(row[0].split()[0])


def test_what_a_column_tells_is_gained() -> None:
    worth = worth_of((FEATURES[:, 2] > 0).astype(np.float64))
    row = chosen(predicted(FEATURES, worth, learner, 0), worth, 0.0, 0)
    assert gain(row) > 0.4
    assert 0.4 < float(row[1]) < 0.6
    assert abs(sum(map(float, row[1:])) - 1) < 0.02


def test_noise_gains_nothing_and_a_wide_margin_keeps_steps() -> None:
    worth = worth_of((RANDOM.random(len(FEATURES)) < 0.3).astype(np.float64))
    gains = predicted(FEATURES, worth, learner, 0)
    assert gain(chosen(gains, worth, 0.0, 0)) < 0.05
    assert chosen(gains, worth, 2.0, 0) == [
        "+0.0000 [+0.0000 +0.0000]",
        "0.00",
        "0.00",
        "0.00",
        "1.00",
    ]
