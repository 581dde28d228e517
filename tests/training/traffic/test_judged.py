from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.model_files import Stated
from training.data.dataset import Question
from training.errors import LogError
from training.traffic.judged import NEEDED, judged, require_enough
from training.traffic.log import read_log

Make = Callable[..., dict[str, Any]]


def test_what_was_marked_is_what_is_relevant(
    asked: Make, said: Make, write_log: Callable[..., Path], hand: Stated
) -> None:
    only = {"type": "eq", "key": "y", "value": 1}
    path = write_log(
        asked("1"), asked("2", filter=only), asked("3"), asked("4"),
        said("1", "a", "gone"), said("2", "b"), said("3", "gone"),
    )  # fmt: skip
    log = read_log([path], hand)
    found = judged(log, {"a", "b"})
    first, second = found.dataset.questions
    assert (first.text, second.text) == ("question 1?", "question 2?")
    assert isinstance(first, Question)
    assert found.dataset.judgements == {first.id: {"a": 1}, second.id: {"b": 1}}
    assert found.dataset.filters == {second.id: only}
    assert (found.dataset.name, found.dataset.split) == ("log-default", "dev")
    assert found.vanished == 1


def test_too_few_are_refused() -> None:
    require_enough(NEEDED, "questions are judged")
    with pytest.raises(LogError, match=rf"^{NEEDED - 1} questions are judged, and thresholds need"):
        require_enough(NEEDED - 1, "questions are judged")
