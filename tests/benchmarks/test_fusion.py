"""The fusion benchmark starts, and prints every form in every table."""

import math
import operator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fusion
from benchmarks.__main__ import main
from benchmarks.fusion import fit_graph_weight
from router.fusion import FusionSettings, fuse_all
from router.types import Route
from tests.training.made import replayed, write_replay
from training.data.replay import Replayed, file_name


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


@given(st.integers(0, 2**32 - 1))
def test_the_best_models_are_those_with_the_highest_mean(seed: int) -> None:
    """Against a slow version, one question and one model at a time."""
    generator = np.random.default_rng(seed)
    models = np.column_stack([generator.uniform(-4, 0, 9), generator.uniform(0, 4, (9, 3))])
    inputs, shares = generator.uniform(size=(5, 3)), generator.uniform(size=5)
    worth = generator.uniform(size=(5, len(fusion.GRAPH_WEIGHTS)))

    def mean(bias: float, *slopes: float) -> float:
        total = 0.0
        for own, values, share in zip(inputs, worth, shares, strict=True):
            weight = 1 / (1 + math.exp(-bias - sum(map(operator.mul, own, slopes))))
            nearest = min(fusion.GRAPH_WEIGHTS, key=lambda one: abs(one - weight))
            total += share * values[fusion.GRAPH_WEIGHTS.index(nearest)]
        return total

    found = fusion._best_models(models, inputs, worth, shares)
    assert found.tolist() == sorted(range(9), key=lambda model: -mean(*models[model]))


def test_every_dataset_counts_the_same() -> None:
    """Many questions for which the graph is wrong do not outvote few for which it is right."""
    right = {Route.GRAPH: "ab", Route.DENSE: "ba", Route.LEXICAL: "ba"}
    wrong = {Route.GRAPH: "ba", Route.DENSE: "ab", Route.LEXICAL: "ab"}
    few = [replayed(f"f{n}", "a", right, group="few", titles=1) for n in range(2)]
    many = [replayed(f"m{n}", "a", wrong, group="many") for n in range(20)]
    settings = FusionSettings(graph_weight=fit_graph_weight([*few, *many]))
    runs = fuse_all([one.results for one in (*few, *many)], settings, [None] * 22, 1)
    assert {ranking.hits[0].id for ranking in runs} == {"a"}


def test_a_replay_that_is_not_there_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fusion", str(folder), "--fit", "both", "--fit", "bot"]) == 2
    assert "replay-bot-train" in capsys.readouterr().err
