from collections.abc import Callable
from pathlib import Path
from typing import Any

from router.model_files import Stated
from router.types import Route
from training.traffic.log import read_log

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def test_feedback_on_the_same_question_is_put_together(
    asked: Make, said: Make, write_log: Write, hand: Stated
) -> None:
    path = write_log(
        asked("1", 0.3, "dense", question="who?"),
        asked("2", 0.7, "graph", question="who?"),
        asked("3", question="who?", filter={"type": "eq"}),
        said("2", "b", "z"),
        said("1", "a"),
        said("3", "a"),
    )
    marked = read_log([path], hand).marked
    one, filtered = marked.questions
    assert (one.text, one.filter, list(one.passages)) == ("who?", None, ["a", "b", "z"])
    assert one.shown == {"a", "b"}
    assert one.scores == {"hand/v1": 0.7}
    assert filtered.filter == {"type": "eq"}
    assert one.id != filtered.id
    assert (marked.requests, marked.left_out) == (3, {})
    assert marked.shown == (3, 4)
    assert marked.routes == {Route.DENSE: 1, Route.GRAPH: 1, Route.FUSION: 1}


def test_whichever_router_decided_the_passages_answer_the_question(
    asked: Make, said: Make, write_log: Write, hand: Stated
) -> None:
    path = write_log(
        asked("1"), asked("2", model="old/v1"), asked("3", score=None), *map(said, "123", "aaa")
    )
    marked = read_log([path], hand).marked
    assert [one.scores for one in marked.questions] == [{"hand/v1": 0.5}, {"old/v1": 0.5}, {}]


def test_feedback_that_marks_nothing_is_counted(
    asked: Make, said: Make, write_log: Write, hand: Stated
) -> None:
    path = write_log(
        asked("1"),
        asked("2"),
        asked("2", question="and who?"),
        asked("3", asked="graph", score=None),
        asked("4", collection="wiki"),
        asked("5"),
        asked("5"),
        said("1", rating="bad"),
        said("2", "a"),
        said("3", "a"),
        said("4", "a"),
        said("5", "a"),
        said("lost", "a"),
    )
    marked = read_log([path], hand, "default").marked
    assert [one.text for one in marked.questions] == ["question 5?"]
    assert marked.requests == 6
    assert marked.left_out == {
        "a rating that names no passage": 1,
        "a request with several questions, so that it is unclear about which": 1,
        "a question that does not count here": 2,
        "an unknown request": 1,
    }


def test_feedback_that_was_written_after_the_log_was_rotated(
    asked: Make, said: Make, write_log: Write, hand: Stated
) -> None:
    old = write_log(asked("1"), name="log.1")
    new = write_log(asked("2"), said("1", "a"))
    for paths in ([old, new], [new, old]):
        marked = read_log(paths, hand).marked
        assert [one.text for one in marked.questions] == ["question 1?"]
