import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from wye.backends.types import Float64, Int64
from wye.training.errors import FitError
from wye.training.fit.calibration import calibrate, fit_curves, losses, reliability


def sample(n: int, temperature: float, bias: float) -> tuple[Float64, Int64]:
    draw = np.random.default_rng(0)
    logits = draw.normal(scale=3, size=n)
    chance = 1 / (1 + np.exp(-(logits / temperature + bias)))
    return logits, (draw.random(n) < chance).astype(np.int64)


def slow_error(scores: list[float], labels: list[int], bins: int) -> float:
    """By score, a bin gets every n-th part of the questions; equal scores are in the same one."""
    bin_of: dict[float, int] = {}
    for place, score in enumerate(sorted(scores)):
        bin_of.setdefault(score, min(int(place * bins / len(scores)), bins - 1))
    error = 0.0
    for one in set(bin_of.values()):
        rows = [row for row, score in enumerate(scores) if bin_of[score] == one]
        error += abs(sum(labels[row] - scores[row] for row in rows))
    return error / len(scores)


def test_the_loss_by_hand() -> None:
    found = losses(np.array([0.0, 2.0, 2.0]), np.array([1, 1, 0]))
    expected = [math.log(2), math.log(1 + math.exp(-2)), math.log(1 + math.exp(2))]
    assert found.tolist() == pytest.approx(expected)
    assert losses(np.zeros(1), np.array([0.5]))[0] == pytest.approx(math.log(2))
    assert losses(np.array([1e4, -1e4]), np.array([0, 0])).tolist() == [1e4, 0]


def test_temperature_and_bias_are_the_minimum_of_the_loss() -> None:
    logits, labels = sample(300, 0.4, 0.3)
    found = calibrate(logits, labels)

    def loss(moved: Float64) -> float:
        return float(losses(logits / moved[0] + moved[1], labels).mean())

    slow = minimize(loss, np.ones(2), method="Nelder-Mead")
    assert found == pytest.approx(tuple(slow.x), rel=1e-2)


def test_scores_without_a_best_temperature_get_the_nearest_one() -> None:
    labels = np.array([0, 1])
    assert calibrate(np.array([-1.0, 1.0]), labels)[0] == pytest.approx(0.05)
    assert calibrate(np.array([1.0, -1.0]), labels)[0] == pytest.approx(20)


@given(
    st.lists(st.tuples(st.floats(-6, 6), st.integers(0, 1)), min_size=1, max_size=40),
    st.integers(1, 15),
)
def test_the_error_is_that_of_its_definition(rows: list[tuple[float, int]], bins: int) -> None:
    logits, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = reliability(logits, labels, bins)
    scores = (1 / (1 + np.exp(-logits))).tolist()
    assert found.ece == pytest.approx(slow_error(scores, labels.tolist(), bins), abs=1e-9)
    assert found.count.sum() == len(rows)
    assert len(found.count) <= bins
    assert (np.diff(found.score) > 0).all()
    assert float(found.outcome @ found.count) == pytest.approx(labels.sum())


@given(
    st.lists(st.tuples(st.floats(-6, 6), st.integers(0, 1), st.integers(1, 4)), min_size=1),
    st.integers(1, 15),
)
def test_a_row_of_weight_three_is_three_rows(rows: list[tuple[float, int, int]], bins: int) -> None:
    logits, labels, times = (np.array(column) for column in zip(*rows, strict=True))
    weighted = reliability(logits, labels, bins, times.astype(float))
    repeated = reliability(logits.repeat(times), labels.repeat(times), bins)
    assert weighted.ece == pytest.approx(repeated.ece, abs=1e-9)
    assert weighted.count == pytest.approx(repeated.count)


def test_no_question_calibrates_nothing() -> None:
    empty = np.zeros(0), np.zeros(0, np.int64)
    with pytest.raises(FitError, match="no question to calibrate on"):
        calibrate(*empty)


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


def test_weights_of_a_curve_are_counts() -> None:
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
