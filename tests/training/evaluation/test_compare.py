from dataclasses import astuple

import numpy as np
import pytest

from wye.training.evaluation.bootstrap import Interval, interval, resampled_means
from wye.training.evaluation.compare import compare, percentiles

MEASURES = ("one", "other")


def values(seed: int, n: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2))


def alone(column: np.ndarray, seed: int) -> Interval:
    return interval(column, resampled_means(column[:, None], resamples=200, seed=seed)[:, 0])


def test_each_interval_is_that_of_its_column_alone() -> None:
    systems = {name: values(at) for at, name in enumerate("abc")}
    means, differences = compare(systems, [("b", "a"), ("a", "c")], MEASURES, resamples=200, seed=5)
    assert list(means) == ["a", "b", "c"]
    assert list(differences) == [("b", "a"), ("a", "c")]
    for at, measure in enumerate(MEASURES):
        for name, own in systems.items():
            expected = alone(own[:, at], 5)
            assert astuple(means[name][measure]) == pytest.approx(astuple(expected), abs=1e-12)
        for (one, other), cells in differences.items():
            expected = alone(systems[one][:, at] - systems[other][:, at], 5)
            assert astuple(cells[measure]) == pytest.approx(astuple(expected), abs=1e-12)


def test_equal_systems_are_no_different_to_the_last_bit() -> None:
    found = compare({"a": values(1), "twin": values(1)}, [("a", "twin")], MEASURES)[1]
    assert [*found["a", "twin"].values()] == [Interval(0.0, 0.0, 0.0)] * 2


def test_percentiles() -> None:
    assert percentiles(np.arange(101.0)) == (50, 95, 99)
