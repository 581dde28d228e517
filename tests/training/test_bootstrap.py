from dataclasses import astuple

import numpy as np
import pytest

from wye.training.errors import EvaluationError
from wye.training.measures import Interval, compare, mean_interval, resampled_means


def test_agrees_with_drawing_one_by_one() -> None:
    values = np.random.default_rng(1).random((7, 3))
    generator = np.random.default_rng(5)
    drawn = generator.integers(7, size=(40, 7))
    slow = np.array([values[rows].mean(axis=0) for rows in drawn])
    assert np.allclose(resampled_means(values, resamples=40, seed=5), slow)


def test_blocks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).random((9, 2))
    whole = resampled_means(values, resamples=50, seed=3)
    monkeypatch.setattr("wye.training.measures._CELLS", 20)
    assert np.array_equal(resampled_means(values, resamples=50, seed=3), whole)


def test_no_question_has_no_mean() -> None:
    with pytest.raises(EvaluationError, match="no question"):
        resampled_means(np.zeros((0, 2)))


MEASURES = ("one", "other")


def values(seed: int, n: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2))


def test_each_interval_is_that_of_its_column_mean_interval() -> None:
    systems = {name: values(at) for at, name in enumerate("abc")}
    means, differences = compare(systems, [("b", "a"), ("a", "c")], MEASURES)
    assert list(means) == ["a", "b", "c"]
    assert list(differences) == [("b", "a"), ("a", "c")]
    for at, measure in enumerate(MEASURES):
        for name, own in systems.items():
            expected = mean_interval(own[:, at])
            assert astuple(means[name][measure]) == pytest.approx(astuple(expected), abs=1e-12)
        for (one, other), cells in differences.items():
            expected = mean_interval(systems[one][:, at] - systems[other][:, at])
            assert astuple(cells[measure]) == pytest.approx(astuple(expected), abs=1e-12)


def test_equal_systems_are_no_different_to_the_last_bit() -> None:
    found = compare({"a": values(1), "twin": values(1)}, [("a", "twin")], MEASURES)[1]
    assert [*found["a", "twin"].values()] == [Interval(0.0, 0.0, 0.0)] * 2
