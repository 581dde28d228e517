"""The fusion benchmark starts, and prints every form in every table."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import fusion
from benchmarks.__main__ import main
from benchmarks.fusion import Gains, fit_graph_weight
from router.scorer import sigmoid
from router.types import Route
from tests.training.made import replayed, write_replay
from training.data.replay import Replayed, file_name
from training.errors import FitError


def questions(count: int, seed: int) -> list[Replayed]:
    """Two datasets; in each the graph is right about titles that stand over one passage."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        named = int(generator.integers(2))
        right = Route.GRAPH if named else Route.DENSE
        wrong = Route.DENSE if named else Route.GRAPH
        vector = (generator.normal(size=4) + 2 * named).tolist()
        lists = {right: "abc", wrong: "cba", Route.LEXICAL: "bac"}
        group = "two" if number % 2 else "one"
        titles = 1 if named else 9
        found.append(replayed(f"q{number}", "a", lists, group=group, vector=vector, titles=titles))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, split in enumerate(("train", "dev")):
        write_replay(tmp_path, questions(80, seed), split, "both")
    return tmp_path


def test_every_form_is_in_every_table(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion, "RRF_KS", (5.0,))
    monkeypatch.setattr(fusion, "RRF_WEIGHTS", (0.0, 1.0))
    assert main(["fusion", str(folder), "--fit", "both", "--dataset", "both"]) == 0
    out = capsys.readouterr().out
    assert "both, dev: 80 questions" in out
    assert "each dataset fused as the others taught: 160 questions" in out
    for name in fusion.FORMS:
        assert out.count(f"\n{name} ") == 3, name
    assert "nDCG@10 one  nDCG@10 two" in out


def test_a_dataset_left_out_has_the_weight_that_is_best_for_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion, "SHARES", (0.1, 9.0))
    asked = [
        replayed("q1", "a", {Route.DENSE: "ab", Route.LEXICAL: "ba", Route.GRAPH: "ab"}, group="x"),
        replayed("q2", "a", {Route.DENSE: "ba", Route.LEXICAL: "ab", Route.GRAPH: "ab"}, group="y"),
    ]
    fusion.print_shares(asked)
    lines = capsys.readouterr().out.splitlines()[-len(fusion.SHARES) - 1 :]
    rows = [line.replace(" / ", "/").split() for line in lines]
    x, y = ([row[place] for row in rows] for place in (-3, -2))
    right, wrong = "1.000/1.000", "0.631/0.631"
    # More of BM25 is worse for one and better for the other, so each gets what is worst for it.
    assert (x, y) == ([right, wrong, wrong], [wrong, right, wrong])


def test_the_graph_weight_learns_here_what_it_is_for(folder: Path) -> None:
    fit, asked = questions(80, 0), questions(80, 1)
    found = fusion.fitted_adaptive(fit)(asked)
    assert [ranking.hits[0].id for ranking in found] == ["a"] * 80


def test_a_test_split_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_replay(folder, [], "test", "both").replace(folder / file_name("both", "dev"))
    assert main(["fusion", str(folder), "--fit", "both"]) == 2
    assert "test" in capsys.readouterr().err


def gains_of(count: int, seed: int, share: float = 0.5) -> Gains:
    """Gains that follow known weights: 3 for uniqueness, 1 for the margin, bias -3."""
    generator = np.random.default_rng(seed)
    uniqueness = generator.uniform(0, 1, count)
    margin = generator.uniform(0, 5, count)
    chance = sigmoid(-3 + 3 * uniqueness + margin)
    gains = np.where(generator.uniform(size=count) < chance, 0.4, -0.4)
    gains[generator.uniform(size=count) > share * 2] = 0.0
    return Gains(np.column_stack([uniqueness, margin]), gains)


def test_known_weights_come_back() -> None:
    found = fit_graph_weight(gains_of(20_000, 0), shrinkage=1e-9)
    assert found.seed_title_uniqueness == pytest.approx(3, rel=0.1)
    assert found.graph_margin_5 == pytest.approx(1, rel=0.1)


def test_it_is_the_minimum_of_the_loss() -> None:
    """Against a slow version of the loss, moved in every direction."""
    data = gains_of(200, 1)
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
    data = gains_of(4_000, 2)
    few = data.gains.copy()
    few[np.flatnonzero(few > 0)[::2]] = 0.0
    one, other = fit_graph_weight(data), fit_graph_weight(Gains(data.signals, few))
    assert one.bias == pytest.approx(other.bias, abs=0.3)


def test_no_signal_is_read_against_its_meaning() -> None:
    data = gains_of(500, 3)
    turned = fit_graph_weight(Gains(-data.signals, data.gains))
    assert turned.seed_title_uniqueness == 0.0
    assert turned.graph_margin_5 == 0.0


@pytest.mark.parametrize("gains", [[0.0, 0.0], [0.5, 0.0], [-0.5, -0.1]])
def test_one_side_alone_teaches_nothing(gains: list[float]) -> None:
    with pytest.raises(FitError, match="needs questions of both kinds"):
        fit_graph_weight(Gains(np.ones((2, 2)), np.array(gains)))
