import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.training.made import KEY, replay_of, replayed, write_replay
from wye.router.types import Route
from wye.training.errors import ReplayError, SplitError
from wye.training.measures import MEASURES
from wye.training.replay import (
    TRAINING_SPLITS,
    Replay,
    Replayed,
    ReplayKey,
    TrainingReplay,
    file_name,
    read_key,
    read_replay,
    read_training,
    write_rows,
)

MakeReplay = Callable[..., TrainingReplay]
LEARNING = ("wye.training.fit.router", "wye.training.labels")
"""Modules that fit or tune something on replays."""


@pytest.fixture
def questions() -> list[Replayed]:
    found = {Route.DENSE: "abc", Route.LEXICAL: "", Route.GRAPH: "ba"}
    return [
        replayed("q1", "a", found, group="one", titles=2),
        replayed("q2", "cz", {**found, Route.STEPS: "zc"}, group="two"),
    ]


def test_a_further_arm_is_kept_where_it_was_asked(tmp_path: Path) -> None:
    found = {Route.DENSE: "abc", Route.GRAPH: "ba", Route.CLUE: "cb"}
    asked = [replayed("q1", "a", found), replayed("q2", "c", found)]
    path = write_replay(tmp_path, asked, "dev")
    replay = read_training(path)
    assert [one.results.rankings for one in replay.questions] == [
        one.results.rankings for one in asked
    ]
    assert Route.CLUE in replay.questions[0].results.rankings


def test_what_is_written_is_read(tmp_path: Path, questions: list[Replayed]) -> None:
    path = write_replay(tmp_path, questions, "dev")
    found = read_training(path)
    assert (found.dataset, found.split, len(found)) == ("here", "dev", 2)
    assert found.key == read_key(path)
    for before, after in zip(questions, found.questions, strict=True):
        assert after.question == before.question
        assert after.gold == before.gold
        assert after.seconds == before.seconds
        assert after.steps == before.steps
        assert after.results.seeds == before.results.seeds
        assert after.results.rankings == before.results.rankings
        assert after.results.query.mentions == before.results.query.mentions
        assert np.array_equal(after.results.query.vector, before.results.query.vector)


def test_measures_come_from_the_file_alone(questions: list[Replayed]) -> None:
    replay = replay_of(*questions)
    values = replay.measure(replay.rankings(Route.DENSE))
    by_name = dict(zip(MEASURES, values.T.tolist(), strict=True))
    assert by_name["Success@1"] == [1.0, 0.0]
    assert by_name["R@5"] == [1.0, 0.5]
    assert replay.groups.tolist() == ["one", "two"]


def test_a_test_split_is_read_only_where_it_is_named(
    tmp_path: Path, questions: list[Replayed]
) -> None:
    path = write_replay(tmp_path, questions, "test")
    with pytest.raises(SplitError, match="is the replay of split 'test'"):
        read_training(path)
    with pytest.raises(SplitError, match="only dev, train may be read here"):
        read_replay(path, TRAINING_SPLITS)
    # What the file says of itself counts, not its name.
    renamed = path.with_name(file_name("here", "train"))
    path.rename(renamed)
    with pytest.raises(SplitError, match="is the replay of split 'test'"):
        read_training(renamed)
    found = read_replay(renamed, {"test"})
    assert type(found) is Replay
    with pytest.raises(SplitError, match="for the final evaluation only"):
        TrainingReplay(found.dataset, found.split, found.key, found.questions)


def test_what_learns_takes_no_replay_but_one_to_learn_from() -> None:
    assert "test" not in TRAINING_SPLITS
    for name in LEARNING:
        module = import_module(name)
        tree = ast.parse(inspect.getsource(module))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        assert not names & {"read_replay", "Replay"}, name


def test_files_that_are_no_replay(tmp_path: Path, questions: list[Replayed]) -> None:
    with pytest.raises(ReplayError, match="cannot be read as a replay"):
        read_training(tmp_path / "missing.jsonl.gz")
    assert read_key(tmp_path / "missing.jsonl.gz") is None
    path = write_replay(tmp_path, questions, "train")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReplayError, match="delete it so that it is made again"):
        read_training(path)
    key = ReplayKey("0", "i", 1, "s", "q", 9)
    write_rows(path, questions, dataset="here", split="train", key=key)
    with pytest.raises(ReplayError, match="a replay of schema 0"):
        read_training(path)


def test_the_version_is_told_and_not_compared() -> None:
    assert replace(KEY, version=KEY.version + 1) == KEY
    assert replace(KEY, index="other passages") != KEY
