import gzip
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.made import HAND, logged, rated
from wye.router.errors import RequestLogError
from wye.router.types import Route
from wye.training.errors import LogError
from wye.training.log_replay import LINE, DecisionLog, Retrieval, read_log

Write = Callable[..., Path]


def test_decisions_are_read_across_files(write_log: Write, tmp_path: Path) -> None:
    old = write_log(
        logged("1", 0.3, "dense", ms=10), logged("2", 0.7, "graph", high=0.7), name="log.1"
    )
    packed = tmp_path / "log.1.gz"
    packed.write_bytes(gzip.compress(old.read_bytes()))
    new = write_log(logged("3", 0.5, question="question 1?", time="2026-11-17T09:30:00.000+00:00"))
    log = read_log([packed, new], HAND)
    assert (log.collection, log.router) == ("default", HAND)
    assert log.scores.tolist() == [0.3, 0.7, 0.5]
    nan = math.nan
    expected = [[10, nan, nan], [nan, nan, 20], [nan, 20, 20]]
    assert log.times_ms == pytest.approx(np.array(expected), nan_ok=True)
    assert (log.marked, log.exclusions) == ({}, {})


def test_what_does_not_count_is_counted(write_log: Write) -> None:
    path = write_log(
        logged("1"),
        logged("2", asked="dense", score=None),
        logged("3", score=None, route="dense", degraded="degraded: auto failed; dense instead"),
        logged("4", degraded="no entity of the question is known"),
        logged("5", model="other/v1"),
        logged("6", model="other/v2"),
        logged("7", collection="wiki"),
        "nonsense\n",
        logged("8", route="sideways"),
        {"kind": "note", "request_id": "x"},
        logged("9", max_latency_ms=20.0),
        logged("10", route="steps"),
        "\n",
        '{"kind": "retrieval", "request_id"',
    )
    log = read_log([path], HAND, "default")
    assert len(log) == 2
    assert log.exclusions == {
        "asked of another collection": 1,
        "route named by the caller": 1,
        "no decision: the router failed, was late, or had no passages": 1,
        "decided by another router: other/v1": 1,
        "decided by another router: other/v2": 1,
        "max_latency_ms may overrule thresholds": 1,
        "went in steps, which have a threshold of their own": 1,
        f"no whole line of a request log, in {path}": 4,
    }


def test_several_collections_have_to_be_told_apart(write_log: Write) -> None:
    path = write_log(logged("1"), logged("2", collection="wiki"), logged("3", collection="wiki"))
    says = r"default \(1\), wiki \(2\); name one with --collection"
    with pytest.raises(LogError, match=says):
        read_log([path], HAND)
    assert len(read_log([path], HAND, "wiki")) == 2
    with pytest.raises(LogError, match=says):
        read_log([path], HAND, "news")


def test_a_router_that_decided_nothing(write_log: Write) -> None:
    path = write_log(logged("1"), logged("2", asked="graph", score=None))
    with pytest.raises(
        LogError,
        match=r"None of the 2 questions .* by router new/v2 \(decided by another router: hand/v1 "
        r"\(1\), route named by the caller \(1\)\); name the router .* --router",
    ):
        read_log([path], replace(HAND, name="new/v2"))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], r"No question was answered in the log \(it is empty\)"),
        ([rated("1")], "No question was answered in the log"),
        (["a\n", "b\n"], r"no whole line of a request log, in .*log.jsonl \(2\)"),
    ],
)
def test_logs_with_nothing_in_them(write_log: Write, lines: list[object], says: str) -> None:
    with pytest.raises(LogError, match=says):
        read_log([write_log(*lines)], HAND)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match="cannot be read"):
        read_log([tmp_path / "missing"], HAND)


def test_a_file_that_is_named_twice_is_read_once(write_log: Write) -> None:
    path = write_log(logged("1"))
    assert len(read_log([path, path.parent / "." / path.name], HAND)) == 1


def marked(log: DecisionLog) -> list[tuple[str, object, set[str]]]:
    return [(one.question, one.filter, passages) for one, passages in log.marked.values()]


def test_feedback_on_the_same_question_is_put_together(write_log: Write) -> None:
    path = write_log(
        logged("1", 0.3, "dense", question="who?"),
        logged("2", 0.7, "graph", question="who?"),
        logged("3", question="who?", filter={"type": "eq"}),
        rated("2", "b", "z"),
        rated("1", "a"),
        rated("3", "a"),
    )
    log = read_log([path], HAND)
    assert marked(log) == [
        ("who?", None, {"a", "b", "z"}),
        ("who?", {"type": "eq"}, {"a"}),
    ]
    assert log.exclusions == {}


def test_whichever_router_decided_the_passages_answer_the_question(write_log: Write) -> None:
    path = write_log(
        logged("1"), logged("2", model="old/v1"), logged("3", score=None), *map(rated, "123", "aaa")
    )
    log = read_log([path], HAND)
    assert [question for question, *_ in marked(log)] == [f"question {n}?" for n in "123"]


def test_feedback_that_marks_nothing_is_counted(write_log: Write) -> None:
    path = write_log(
        logged("1"),
        logged("2"),
        logged("2", question="and who?"),
        logged("3", asked="graph", score=None),
        logged("4", collection="wiki"),
        logged("5"),
        logged("5"),
        rated("1", rating="bad"),
        rated("2", "a"),
        rated("3", "a"),
        rated("4", "a"),
        rated("5", "a"),
        rated("lost", "a"),
    )
    log = read_log([path], HAND, "default")
    assert marked(log) == [("question 5?", None, {"a"})]
    assert log.exclusions == {
        "route named by the caller": 1,
        "asked of another collection": 1,
        "feedback that names no passage, or not of one question that counts": 4,
        "feedback on an unknown request, or on that of another key": 1,
    }


def test_what_another_key_says_of_a_request_does_not_count(write_log: Write) -> None:
    """Ids may be the client's own: two clients may have the same, and one may guess another's."""
    path = write_log(
        {**logged("1", question="who?"), "key": "ada"},
        {**logged("1", question="where?"), "key": "bob"},
        {**rated("1", "b"), "key": "bob"},
        {**rated("1", "c"), "key": "eve"},
    )
    log = read_log([path], HAND)
    assert marked(log) == [("where?", None, {"b"})]
    assert log.exclusions == {"feedback on an unknown request, or on that of another key": 1}


def test_feedback_that_was_written_after_the_log_was_rotated(write_log: Write) -> None:
    old = write_log(logged("1"), name="log.1")
    new = write_log(logged("2"), rated("1", "a"))
    for paths in ([old, new], [new, old]):
        assert marked(read_log(paths, HAND)) == [("question 1?", None, {"a"})]


def test_the_newest_that_was_said_about_a_request_counts_whatever_the_order_of_the_files(
    write_log: Write,
) -> None:
    old = write_log(logged("1"), rated("1", "a", rating="bad"), name="old.jsonl")
    newer = {**rated("1", "b", "c"), "time": "2026-11-10T09:00:01.000+00:00"}
    new = write_log(newer, rated("2"), 'nonsense "feedback"\n', '{"kind": "feedback"', name="new")
    for paths in ([old, new], [new, old]):
        assert marked(read_log(paths, HAND)) == [("question 1?", None, {"b", "c"})]


def line(**changes: Any) -> Retrieval:  # noqa: ANN401 - as many types as a line has
    found = LINE.validate_json(json.dumps(logged(**changes)))
    assert isinstance(found, Retrieval)
    return found


def test_what_was_not_decided_has_no_score() -> None:
    assert line(score=None).decision is None
    empty = {"route": "dense", "score": None, "thresholds": None, "reason": "degraded: empty"}
    found = line(decision={**empty, "model": ""})
    assert found.decision is not None
    assert found.decision.score is None


@pytest.mark.parametrize(
    "change",
    [
        {"route": "sideways"},
        {"question": 3},
        {"time": "yesterday"},
        {"time": None},
        {"time": "2026-11-10T08:00:00"},
        {"seconds": {"total": "0.1"}},
        {"seconds": {"total": -1}},
        {"seconds": {"total": 1, "parsing": math.inf}},
        {"seconds": 3},
        {"decision": "graph"},
        {"decision": {"score": 1.5, "model": ""}},
        {"decision": {"score": math.nan, "model": ""}},
        {"key": 3},
    ],
)
def test_what_the_service_does_not_write_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        line(**change)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"kind": "retrieval"}', '{"kind": "feedback", "request_id": 1}', "[" * 100_000],
)
def test_a_line_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        LINE.validate_json(text)


READING = {"parsing": 0.005, "encoding": 0.004, "features": 0.001, "fetching": 0.001}
ARMS = {"dense": 0.002, "lexical": 0.003, "seeds": 0.004, "graph": 0.02, "fusing": 0.006}
BESIDE = {"queue": 0.5, "total": 0.9, "explaining": 0.1}


def times(stages: dict[str, float], taken: Route) -> dict[Route, float]:
    found = line(route=taken, seconds=stages | BESIDE).times_ms([*Route])
    return {route: ms for route, ms in zip(Route, found, strict=True) if not np.isnan(ms)}


def test_fusion_tells_how_long_the_graph_alone_would_have_taken() -> None:
    found = times({**READING, **ARMS}, Route.FUSION)
    assert found == pytest.approx({Route.GRAPH: 40, Route.FUSION: 46})


def test_another_route_tells_of_itself() -> None:
    assert times({**READING, "dense": 0.002}, Route.DENSE) == pytest.approx({Route.DENSE: 13})
    graph = {name: ARMS[name] for name in ("dense", "lexical", "seeds", "graph")}
    assert times({**READING, **graph}, Route.GRAPH) == pytest.approx({Route.GRAPH: 40})
