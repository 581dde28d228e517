import gzip
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.errors import RequestLogError
from router.types import Route
from tests.training.made import HAND, logged, rated
from training.errors import LogError
from training.log_replay.reading import ROUTES, Line, read_feedback, read_log, times_of_routes

Write = Callable[..., Path]


def test_decisions_are_read_across_files(write_log: Write, tmp_path: Path) -> None:
    old = write_log(
        logged("1", 0.3, "dense", ms=10), logged("2", 0.7, "graph", high=0.7), name="log.1"
    )
    packed = tmp_path / "log.1.gz"
    packed.write_bytes(gzip.compress(old.read_bytes()))
    new = write_log(
        logged(
            "3", 0.5, question="question 1?", time="2026-11-17T09:30:00.000+00:00", index_version=7
        )
    )
    log = read_log([packed, new], HAND)
    assert (log.files, log.lines, log.collection, log.model) == (2, 3, "default", "hand/v1")
    found = log.requests
    assert found.scores.tolist() == [0.3, 0.7, 0.5]
    assert [ROUTES[code] for code in found.routes] == [Route.DENSE, Route.GRAPH, Route.FUSION]
    assert found.times_ms[range(3), found.routes] == pytest.approx([10, 20, 20])
    assert np.isnan(found.times_ms).sum() == 3 * (len(ROUTES) - 1)
    assert found.waited_ms.tolist() == [50, 50, 50]
    assert np.isnan(found.budgets).all()
    assert log.questions == 2
    assert (log.first, log.last) == (
        datetime(2026, 11, 10, 8, tzinfo=UTC),
        datetime(2026, 11, 17, 9, 30, tzinfo=UTC),
    )
    assert log.versions == (3, 7)
    assert log.thresholds == {(0.4, 0.6): 2, (0.4, 0.7): 1}
    assert log.left_out == {}


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
        '{"kind": "retrieval", "request_id"',
    )
    log = read_log([path], HAND, "default")
    assert len(log.requests) == 2
    assert log.left_out == {
        "asked of another collection: wiki (1)": 1,
        "route named by the caller": 1,
        "no decision: the router failed, was late, or had no passages": 1,
        "decided by another router: other/v1 (1), other/v2 (1)": 2,
        "line of another kind": 1,
        f"not a line of a request log, the first at {path}:8": 2,
        "incomplete line, which was still being written": 1,
    }


def test_the_same_question_with_another_filter_is_another(write_log: Write) -> None:
    one, other = ({"type": "eq", "key": "y", "value": value} for value in (1, 2))
    lines = [logged(str(n), question="who?", filter=f) for n, f in enumerate([None, one, other])]
    log = read_log([write_log(*lines, *lines)], HAND)
    assert (len(log.requests), log.questions) == (6, 3)


def test_several_collections_have_to_be_told_apart(write_log: Write) -> None:
    path = write_log(logged("1"), logged("2", collection="wiki"), logged("3", collection="wiki"))
    with pytest.raises(LogError, match=r"default \(1\), wiki \(2\); name one with --collection"):
        read_log([path], HAND)
    assert len(read_log([path], HAND, "wiki").requests) == 2
    with pytest.raises(
        LogError, match=r"collection 'news'; its collections are default \(1\), wiki \(2\)"
    ):
        read_log([path], HAND, "news")


def test_a_router_that_decided_nothing(write_log: Write) -> None:
    path = write_log(logged("1"), logged("2", asked="graph", score=None))
    with pytest.raises(
        LogError,
        match=r"None of the 2 questions .* by router new/v2 \(1 route named by the caller; "
        r"1 decided by another router: hand/v1 \(1\)\); name the router .* --router",
    ):
        read_log([path], replace(HAND, name="new/v2"))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "No question was answered in"),
        ([rated("1")], "No question was answered in"),
        (["a\n", "b\n"], r"2 lines are not from a request log \(the first: .*:1\)"),
    ],
)
def test_logs_with_nothing_in_them(write_log: Write, lines: list[object], says: str) -> None:
    with pytest.raises(LogError, match=says):
        read_log([write_log(*lines)], HAND)


def test_files_that_cannot_be_read(write_log: Write, tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match="cannot be read"):
        read_log([tmp_path / "missing"], HAND)
    with pytest.raises(LogError, match="No request log is given"):
        read_log([], HAND)
    path = write_log(logged("1"))
    with pytest.raises(LogError, match="is named 2 times"):
        read_log([path, path.parent / "." / path.name], HAND)


def test_feedback_on_the_same_question_is_put_together(write_log: Write) -> None:
    path = write_log(
        logged("1", 0.3, "dense", question="who?"),
        logged("2", 0.7, "graph", question="who?"),
        logged("3", question="who?", filter={"type": "eq"}),
        rated("2", "b", "z"),
        rated("1", "a"),
        rated("3", "a"),
    )
    feedback = read_log([path], HAND).feedback
    one, filtered = feedback.questions
    assert (one.text, one.filter, list(one.passages)) == ("who?", None, ["a", "b", "z"])
    assert one.shown == {"a", "b"}
    assert one.scores == {"hand/v1": 0.7}
    assert filtered.filter == {"type": "eq"}
    assert one.id != filtered.id
    assert (feedback.requests, feedback.left_out) == (3, {})
    assert feedback.shown == (3, 4)
    assert feedback.routes == {Route.DENSE: 1, Route.GRAPH: 1, Route.FUSION: 1}


def test_whichever_router_decided_the_passages_answer_the_question(write_log: Write) -> None:
    path = write_log(
        logged("1"), logged("2", model="old/v1"), logged("3", score=None), *map(rated, "123", "aaa")
    )
    feedback = read_log([path], HAND).feedback
    assert [one.scores for one in feedback.questions] == [{"hand/v1": 0.5}, {"old/v1": 0.5}, {}]


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
    feedback = read_log([path], HAND, "default").feedback
    assert [one.text for one in feedback.questions] == ["question 5?"]
    assert feedback.requests == 6
    assert feedback.left_out == {
        "a rating that names no passage": 1,
        "a request with several questions, of which it names none": 1,
        "a question that does not count here": 2,
        "an unknown request, or that of another key": 1,
    }


def test_what_another_key_says_of_a_request_does_not_count(write_log: Write) -> None:
    """Ids may be the client's own: two clients may have the same, and one may guess another's."""
    path = write_log(
        {**logged("1", question="who?"), "key": "ada"},
        {**logged("1", question="where?"), "key": "bob"},
        {**rated("1", "b"), "key": "bob"},
        {**rated("1", "c"), "key": "eve"},
    )
    feedback = read_log([path], HAND).feedback
    assert [(one.text, [*one.passages]) for one in feedback.questions] == [("where?", ["b"])]
    assert feedback.left_out == {"an unknown request, or that of another key": 1}


def test_feedback_that_was_written_after_the_log_was_rotated(write_log: Write) -> None:
    old = write_log(logged("1"), name="log.1")
    new = write_log(logged("2"), rated("1", "a"))
    for paths in ([old, new], [new, old]):
        feedback = read_log(paths, HAND).feedback
        assert [one.text for one in feedback.questions] == ["question 1?"]


def test_the_newest_that_was_said_about_a_request_counts_whatever_the_order_of_the_files(
    write_log: Callable[..., Path],
) -> None:
    old = write_log(logged("1"), rated("1", "a", rating="bad"), name="old.jsonl")
    newer = {**rated("1", "b", "c"), "time": "2026-11-10T09:00:01.000+00:00"}
    new = write_log(newer, rated("2"), 'nonsense "feedback"\n', '{"kind": "feedback"', name="new")
    for paths in ([old, new], [new, old]):
        found = read_feedback(paths)
        assert {*found} == {("", "1"), ("", "2")}
        assert [list(found["", id_]) for id_ in "12"] == [["b", "c"], []]


def test_passages_that_are_none_are_passed_over(write_log: Callable[..., Path]) -> None:
    odd = [{**rated("1"), "passages": ["a", 3, None]}, {**rated("2"), "passages": "a"}]
    path = write_log(*odd)
    found = read_feedback([path])
    assert [list(found["", id_]) for id_ in "12"] == [["a"], []]


def test_a_line_is_what_the_service_logged() -> None:
    line = Line.model_validate(
        logged("1", 0.7, "graph", ms=30, max_latency_ms=40, filter={"type": "eq"})
    )
    assert (line.decision.score, line.decision.model) == (0.7, "hand/v1")
    assert line.route == Route.GRAPH
    assert line.stages == pytest.approx({"parsing": 0.001, "graph": 0.029})
    assert line.max_latency_ms == 40
    assert line.time == datetime(2026, 11, 10, 8, tzinfo=UTC)


def test_what_was_not_decided_has_no_score() -> None:
    assert Line.model_validate(logged(score=None)).decision.score is None
    empty = {"route": "dense", "score": None, "thresholds": None, "reason": "degraded: empty"}
    line = Line.model_validate(logged(decision={**empty, "model": ""}))
    assert (line.decision.score, line.decision.thresholds) == (None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"route": "sideways"},
        {"question": 3},
        {"time": "yesterday"},
        {"time": None},
        {"seconds": {"parsing": 0.1}},
        {"seconds": {"total": "0.1"}},
        {"seconds": {"total": -1}},
        {"seconds": {"total": 1, "parsing": math.inf}},
        {"seconds": 3},
        {"decision": "graph"},
        {"decision": {"score": 1.5}},
        {"decision": {"score": math.nan}},
        {"decision": {"score": 0.5, "thresholds": {"low": 0.1}}},
        {"passages": None},
        {"index_version": None},
    ],
)
def test_what_the_service_does_not_write_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Line.model_validate(logged(**change))


READING = {"parsing": 0.005, "encoding": 0.004, "features": 0.001, "fetching": 0.001}
ARMS = {"dense": 0.002, "lexical": 0.003, "seeds": 0.004, "graph": 0.02, "fusing": 0.006}


def times(stages: dict[str, float], taken: Route, *, asks_corpus: bool) -> dict[Route, float]:
    """As a request that took these stages tells of each route, beside one that ran nothing."""
    ran = np.array([[stages.get(name, math.nan) for name in ARMS], [math.nan] * len(ARMS)])
    codes = np.array([ROUTES.index(taken)] * 2, np.int8)
    found = times_of_routes(
        ran, np.array([sum(stages.values()), 0]), codes, asks_corpus=asks_corpus
    )
    return {
        route: ms for route, ms in zip(ROUTES, found[0].tolist(), strict=True) if not math.isnan(ms)
    }


def test_fusion_tells_how_long_each_arm_alone_would_have_taken() -> None:
    found = times({**READING, **ARMS}, Route.FUSION, asks_corpus=False)
    assert found == pytest.approx(
        {Route.DENSE: 13, Route.LEXICAL: 14, Route.HYBRID: 22, Route.GRAPH: 40, Route.FUSION: 46}
    )


def test_what_a_router_asks_the_corpus_is_taken_whatever_it_decides() -> None:
    found = times({**READING, **ARMS}, Route.FUSION, asks_corpus=True)
    assert (found[Route.DENSE], found[Route.LEXICAL]) == pytest.approx((17, 20))
    assert found[Route.GRAPH] == pytest.approx(40)
    graph = {name: ARMS[name] for name in ("dense", "seeds", "graph")}
    found = times({**READING, **graph}, Route.GRAPH, asks_corpus=True)
    assert found == pytest.approx({Route.DENSE: 17, Route.GRAPH: 37})


def test_an_arm_alone_tells_of_itself() -> None:
    found = times({**READING, "dense": 0.002}, Route.DENSE, asks_corpus=False)
    assert found == pytest.approx({Route.DENSE: 13})
    # Where an arm was not run, as for an empty index, the route's own time is known all the same.
    assert times({"parsing": 0.005}, Route.DENSE, asks_corpus=True) == {Route.DENSE: 5}
