"""Sums of curves: what is fitted rises with the evidence and says how often things come true."""

import numpy as np
import pytest

from wye.training.errors import FitError
from wye.training.fit.calibration import fit_curves

NAMES = ("one", "other")


def test_probabilities_are_those_that_outcomes_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    evidence = rng.uniform(-1, 1, (20_000, 2))
    chances = 1 / (1 + np.exp(-3 * evidence[:, 0]))
    outcomes = (rng.uniform(size=len(chances)) < chances).astype(float)
    found = fit_curves(evidence, outcomes, np.ones(len(outcomes)), NAMES)
    assert np.abs(found(evidence) - chances).mean() < 0.02
    assert np.ptp(found.curves["other"].values) < 0.2


def test_a_curve_never_falls_even_where_the_outcomes_do() -> None:
    evidence = np.linspace(0, 1, 400)[:, None]
    found = fit_curves(evidence, (evidence[:, 0] < 0.5).astype(float), np.ones(400), ("one",))
    assert np.ptp(found(evidence)) == 0
    assert found(evidence)[0] == pytest.approx(0.5, abs=0.01)


def test_unknown_evidence_says_nothing() -> None:
    rng = np.random.default_rng(1)
    evidence = rng.uniform(0, 1, (4000, 1))
    outcomes = (rng.uniform(size=4000) < evidence[:, 0]).astype(float)
    evidence[::2] = np.nan
    found = fit_curves(evidence, outcomes, np.ones(4000), ("one",))
    assert found(np.array([[np.nan]]))[0] == pytest.approx(0.5, abs=0.05)
    assert found(np.array([[0.95]]))[0] > 0.8
    nothing = fit_curves(np.full((4, 1), np.nan), np.array([0.0, 1, 1, 1]), np.ones(4), ("one",))
    assert nothing(np.array([[np.nan]]))[0] == pytest.approx(0.75, abs=0.01)


def test_weights_are_counts() -> None:
    evidence, outcomes = np.array([[0.0], [1.0], [1.0]]), np.array([0.0, 1.0, 0.0])
    weighted = fit_curves(evidence, outcomes, np.array([1.0, 3.0, 1.0]), ("one",))
    repeated = fit_curves(
        evidence[[0, 1, 1, 1, 2]], outcomes[[0, 1, 1, 1, 2]], np.ones(5), ("one",)
    )
    where = np.array([[0.0], [0.5], [1.0]])
    np.testing.assert_allclose(weighted(where), repeated(where), atol=0.05)


def test_nothing_is_fitted_to_one_outcome() -> None:
    with pytest.raises(FitError, match="All outcomes are the same"):
        fit_curves(np.zeros((3, 1)), np.ones(3), np.ones(3), ("one",))
