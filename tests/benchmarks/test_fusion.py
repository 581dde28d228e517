"""The fusion benchmark starts, and prints every form in every table."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fusion
from benchmarks.__main__ import main
from benchmarks.fusion import fit_listwise, fuse_listwise
from router.types import Route
from training.data.replay import (
    SCHEMA,
    Replayed,
    TrainingReplay,
    file_name,
    read_training,
    write_rows,
)
from training.errors import FitError

MakeQuestion = Callable[..., Replayed]
MakeReplay = Callable[..., TrainingReplay]


def questions(make: MakeQuestion, count: int, seed: int) -> list[Replayed]:
    """Two datasets; in each the graph is right about titles that stand over one passage."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        named = int(generator.integers(2))
        right = Route.GRAPH if named else Route.DENSE
        wrong = Route.DENSE if named else Route.GRAPH
        vector = generator.normal(size=4) + 2 * named
        lists = {right: "abc", wrong: "cba", Route.LEXICAL: "bac"}
        group = "two" if number % 2 else "one"
        titles = 1 if named else 9
        found.append(make(f"q{number}", "a", lists, group=group, vector=vector, titles=titles))
    return found


@pytest.fixture
def folder(tmp_path: Path, replayed: MakeQuestion, replay_of: MakeReplay) -> Path:
    key = replace(replay_of().key, schema=SCHEMA)
    for seed, split in enumerate(("train", "dev")):
        rows = questions(replayed, 80, seed)
        write_rows(tmp_path / file_name("both", split), rows, dataset="both", split=split, key=key)
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


def test_the_graph_weight_learns_here_what_it_is_for(folder: Path, replayed: MakeQuestion) -> None:
    fit, asked = questions(replayed, 80, 0), questions(replayed, 80, 1)
    found = fusion.fitted_adaptive(fit)(asked)
    assert [ranking.hits[0].id for ranking in found] == ["a"] * 80


def test_a_test_split_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (folder / file_name("both", "dev")).rename(folder / "kept")
    assert rows.is_file()
    write_rows(
        folder / file_name("both", "dev"),
        [],
        dataset="both",
        split="test",
        key=read_training(folder / file_name("both", "train")).key,
    )
    assert main(["fusion", str(folder), "--fit", "both"]) == 2
    assert "test" in capsys.readouterr().err


def test_the_arm_that_is_right_gets_the_weight(replayed: MakeQuestion) -> None:
    asked = [
        replayed(f"q{n}", "a", {Route.DENSE: "cba", Route.LEXICAL: "cab", Route.GRAPH: "abc"})
        for n in range(5)
    ]
    weights = fit_listwise(asked)
    assert weights.shape == (6,)
    assert (weights >= 0).all()
    assert weights[4:].sum() > weights[:4].sum()
    found = fuse_listwise(asked[0].results, weights, 2)
    assert found.hits[0].id == "a"
    assert len(found.hits) == 2


def test_the_loss_is_least_where_it_stops(replayed: MakeQuestion) -> None:
    """Against a slow softmax over candidates, moved in every direction."""
    asked = [
        replayed("q1", "a", {Route.DENSE: "ba", Route.LEXICAL: "", Route.GRAPH: "ab"}),
        replayed("q2", "bc", {Route.DENSE: "bac", Route.LEXICAL: "c", Route.GRAPH: "ab"}),
        replayed("q3", "z", {Route.DENSE: "ba", Route.LEXICAL: "b", Route.GRAPH: "ab"}),
    ]
    weights = fit_listwise(asked)

    def loss(trial: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        total, counted = 0.0, 0
        for one in asked:
            found = fuse_listwise(one.results, trial, 100)
            scores = {hit.id: hit.score for hit in found.hits}
            gold = [id_ for id_ in scores if id_ in one.gold]
            if gold:
                counted += 1
                everything = sum(np.exp(score) for score in scores.values())
                total -= sum(np.log(np.exp(scores[g]) / everything) for g in gold) / len(gold)
        return float(total / counted + 1e-3 * trial @ trial)

    least = loss(weights)
    for place in range(6):
        for step in (-0.05, 0.05):
            moved = weights.copy()
            moved[place] = max(moved[place] + step, 0)
            assert loss(moved) >= least - 1e-9


def test_equal_scores_are_ordered_by_id(replayed: MakeQuestion) -> None:
    one = replayed("q", "a", {Route.DENSE: "ba", Route.LEXICAL: "ab", Route.GRAPH: ""})
    found = fuse_listwise(one.results, np.zeros(6), 9)
    assert [hit.id for hit in found.hits] == ["a", "b"]


def test_nothing_relevant_was_found(replayed: MakeQuestion) -> None:
    with pytest.raises(FitError, match="No arm found a relevant passage"):
        fit_listwise([replayed("q", "z", {Route.DENSE: "a", Route.LEXICAL: "", Route.GRAPH: "b"})])
