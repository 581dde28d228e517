from collections.abc import Callable
from pathlib import Path
from typing import Any

from training.traffic.feedback import read_feedback

Make = Callable[..., dict[str, Any]]


def test_what_was_said_about_a_request_is_put_together_across_files(
    asked: Make, said: Make, write_log: Callable[..., Path]
) -> None:
    old = write_log(asked("1"), said("1", "a", rating="bad"), name="old.jsonl")
    new = write_log(
        said("1", "b", "a"), said("2"), 'nonsense "feedback"\n', '{"kind": "feedback"', name="new"
    )
    found = read_feedback([old, new])
    assert {*found} == {"1", "2"}
    assert (found["1"].good, found["1"].bad, list(found["1"].passages)) == (1, 1, ["a", "b"])
    assert (found["2"].good, list(found["2"].passages)) == (1, [])


def test_passages_that_are_none_are_passed_over(said: Make, write_log: Callable[..., Path]) -> None:
    path = write_log(said("1", passages=["a", 3, None]), said("2", passages="a"))
    found = read_feedback([path])
    assert [list(found[id_].passages) for id_ in "12"] == [["a"], []]
