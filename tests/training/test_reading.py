"""Judged success: what a reader is given, what is kept, and a training run that goes by it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.progress import Silent
from backends.types import Hit, Ranking
from router.settings import load_settings
from training.errors import FitError
from training.fit.router import Choices
from training.judge import JUDGED, JudgeSettings, Reader
from training.run import TrainingRun

if TYPE_CHECKING:
    from training.data.replay import Replay, Replayed, TrainingReplay


class Parrot:
    """Is right where the first passage says so, and counts how often it is asked."""

    identity = "parrot"

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []

    def succeeds(self, question: str, context: Sequence[str], answers: Sequence[str]) -> bool:
        self.asked.append((question, tuple(context), tuple(answers)))
        return context[0] == "text of a"


def texts(_: "Replay", ids: Sequence[str]) -> dict[str, str]:
    return {id_: f"text of {id_}" for id_ in ids}


def ranking(ids: str) -> Ranking:
    return Ranking("dense", tuple(Hit(id_, 1 / n, n) for n, id_ in enumerate(ids, start=1)))


@pytest.fixture
def replay(
    replayed: "Callable[..., Replayed]", replay_of: "Callable[..., TrainingReplay]"
) -> "TrainingReplay":
    return replay_of(replayed("q1", "a", {}), replayed("q2", "a", {}))


def reader(parrot: Parrot, kept: Path) -> Reader:
    return Reader(parrot, texts, kept, Silent)  # type: ignore[arg-type]


def test_a_reader_is_given_the_first_five_passages(
    replay: "TrainingReplay", tmp_path: Path
) -> None:
    parrot = Parrot()
    found = reader(parrot, tmp_path / "kept").succeeds([replay], [ranking("abcdefg"), ranking("b")])
    assert found.tolist() == [True, False]
    assert parrot.asked[0][1] == tuple(f"text of {id_}" for id_ in "abcde")
    assert parrot.asked[1][1] == ("text of b",)


def test_what_was_judged_is_not_asked_again_even_after_half_a_line(
    replay: "TrainingReplay", tmp_path: Path
) -> None:
    kept, rankings = tmp_path / "deep" / "kept", [ranking("ab"), ranking("ba")]
    first, second = Parrot(), Parrot()
    before = reader(first, kept).succeeds([replay], rankings)
    with kept.open("a", encoding="utf-8") as file:
        file.write('{"key": "interr')
    after = reader(second, kept).succeeds([replay], [*rankings[:1], ranking("ca")])
    assert (before[0], after[0]) == (True, True)
    assert [context for _, context, _ in second.asked] == [("text of c", "text of a")]


def test_judging_needs_a_judge(tmp_path: Path) -> None:
    choices = Choices(success=JUDGED)
    with pytest.raises(FitError, match="Give --judge-url and --judge-model"):
        TrainingRun(load_settings(), [], choices, tmp_path, Silent)
    judge = JudgeSettings("http://a/v1", "m")
    TrainingRun(load_settings(), [], choices, tmp_path, Silent, judge=judge)
