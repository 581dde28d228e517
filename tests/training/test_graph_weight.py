import numpy as np
import pytest

from benchmarks.graph_weight import Gains, fit_graph_weight
from router.scorer import sigmoid
from training.errors import FitError


def questions(count: int, seed: int, share: float = 0.5) -> Gains:
    """Gains that follow known weights: 3 for uniqueness, 1 for the margin, bias -3."""
    generator = np.random.default_rng(seed)
    uniqueness = generator.uniform(0, 1, count)
    margin = generator.uniform(0, 5, count)
    chance = sigmoid(-3 + 3 * uniqueness + margin)
    gains = np.where(generator.uniform(size=count) < chance, 0.4, -0.4)
    gains[generator.uniform(size=count) > share * 2] = 0.0
    return Gains(np.column_stack([uniqueness, margin]), gains)


def test_known_weights_come_back() -> None:
    found = fit_graph_weight(questions(20_000, 0), shrinkage=1e-9)
    assert found.seed_title_uniqueness == pytest.approx(3, rel=0.1)
    assert found.graph_margin_5 == pytest.approx(1, rel=0.1)


def test_it_is_the_minimum_of_the_loss() -> None:
    """Against a slow version of the loss, moved in every direction."""
    data = questions(200, 1)
    best = fit_graph_weight(data)
    told = data.gains != 0
    columns, gains = data.signals[told], data.gains[told]
    scale = columns.std(axis=0)

    def loss(bias: float, weights: list[float]) -> float:
        total = 0.0
        for side in (gains > 0, gains < 0):
            at_stake = np.abs(gains[side]).sum()
            for row, gain in zip(columns[side], gains[side], strict=True):
                logit = bias + float(row @ weights)
                likely = np.log1p(np.exp(-logit if gain > 0 else logit))
                total += abs(gain) / at_stake / 2 * likely
        return float(total + 1e-3 * sum((w * s) ** 2 for w, s in zip(weights, scale, strict=True)))

    chosen = [best.seed_title_uniqueness, best.graph_margin_5]
    least = loss(best.bias, chosen)
    for step in (-0.05, 0.05):
        assert loss(best.bias + step, chosen) > least
        assert loss(best.bias, [chosen[0] + step, chosen[1]]) > least
        assert loss(best.bias, [chosen[0], chosen[1] + step]) > least


def test_how_often_each_arm_wins_does_not_matter() -> None:
    data = questions(4_000, 2)
    few = data.gains.copy()
    few[np.flatnonzero(few > 0)[::2]] = 0.0
    one, other = fit_graph_weight(data), fit_graph_weight(Gains(data.signals, few))
    assert one.bias == pytest.approx(other.bias, abs=0.3)


def test_no_signal_is_read_against_its_meaning() -> None:
    data = questions(500, 3)
    turned = fit_graph_weight(Gains(-data.signals, data.gains))
    assert turned.seed_title_uniqueness == 0.0
    assert turned.graph_margin_5 == 0.0


@pytest.mark.parametrize("gains", [[0.0, 0.0], [0.5, 0.0], [-0.5, -0.1]])
def test_one_side_alone_teaches_nothing(gains: list[float]) -> None:
    with pytest.raises(FitError, match="needs questions of both kinds"):
        fit_graph_weight(Gains(np.ones((2, 2)), np.array(gains)))
