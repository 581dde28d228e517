"""The fusion benchmark starts, and prints every form in every table."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fusion
from router.types import Route
from training.data.replay import (
    SCHEMA,
    Replayed,
    TrainingReplay,
    file_name,
    read_training,
    write_rows,
)
from training.errors import SplitError

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
    fusion.main([str(folder), "--fit", "both", "--dataset", "both"])
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


def test_a_test_split_cannot_be_read(folder: Path) -> None:
    rows = (folder / file_name("both", "dev")).rename(folder / "kept")
    assert rows.is_file()
    write_rows(
        folder / file_name("both", "dev"),
        [],
        dataset="both",
        split="test",
        key=read_training(folder / file_name("both", "train")).key,
    )
    with pytest.raises(SplitError):
        fusion.main([str(folder), "--fit", "both"])
