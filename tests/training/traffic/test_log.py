import gzip
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from router.errors import JournalError
from router.model_files import Stated
from training.errors import LogError
from training.traffic.log import read_log

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def test_decisions_are_read_across_files(
    asked: Make, write_log: Write, tmp_path: Path, hand: Stated
) -> None:
    old = write_log(asked("1", 0.3, "dense"), asked("2", 0.7, "graph", high=0.7), name="log.1")
    packed = tmp_path / "log.1.gz"
    packed.write_bytes(gzip.compress(old.read_bytes()))
    late = {"time": "2026-11-17T09:30:00.000+00:00", "index_version": 7}
    new = write_log(asked("3", 0.5, question="question 1?", **late))
    log = read_log([packed, new], hand)
    assert (log.files, log.lines, log.collection, log.model) == (2, 3, "default", "hand/v1")
    assert log.requests.scores.tolist() == [0.3, 0.7, 0.5]
    assert log.questions == 2
    assert (log.first, log.last) == (
        datetime(2026, 11, 10, 8, tzinfo=UTC),
        datetime(2026, 11, 17, 9, 30, tzinfo=UTC),
    )
    assert log.versions == (3, 7)
    assert log.thresholds == {(0.4, 0.6): 2, (0.4, 0.7): 1}
    assert log.left_out == {}


def test_what_does_not_count_is_counted(asked: Make, write_log: Write, hand: Stated) -> None:
    older = asked("9", reason="budget: fusion takes about 30 ms")
    del older["max_latency_ms"]
    path = write_log(
        asked("1"),
        asked("2", asked="dense", score=None),
        asked("3", score=None, route="dense", degraded="degraded: auto failed; dense instead"),
        asked("4", degraded="no entity of the question is known"),
        asked("5", model="other/v1"),
        asked("6", model="other/v2"),
        asked("7", collection="wiki"),
        older,
        "nonsense\n",
        asked("8", route="sideways"),
        {"kind": "note", "request_id": "x"},
        '{"kind": "retrieval", "request_id"',
    )
    log = read_log([path], hand, "default")
    assert len(log.requests) == 2
    assert log.left_out == {
        "asked of another collection: wiki (1)": 1,
        "route named by the caller": 1,
        "no decision: the router failed, was late, or had no passages": 1,
        "decided by another router: other/v1 (1), other/v2 (1)": 2,
        "a budget chose the route, and this older log does not tell it": 1,
        "line of another kind": 1,
        f"no line of a request log, the first at {path}:9": 2,
        "line without an end, as it was being written": 1,
    }


def test_the_same_question_with_another_filter_is_another(
    asked: Make, write_log: Write, hand: Stated
) -> None:
    one, other = ({"type": "eq", "key": "y", "value": value} for value in (1, 2))
    lines = [asked(str(n), question="who?", filter=f) for n, f in enumerate([None, one, other])]
    log = read_log([write_log(*lines, *lines)], hand)
    assert (len(log.requests), log.questions) == (6, 3)


def test_several_collections_have_to_be_told_apart(
    asked: Make, write_log: Write, hand: Stated
) -> None:
    path = write_log(asked("1"), asked("2", collection="wiki"), asked("3", collection="wiki"))
    with pytest.raises(LogError, match=r"default \(1\), wiki \(2\); name one with --collection"):
        read_log([path], hand)
    assert len(read_log([path], hand, "wiki").requests) == 2
    with pytest.raises(LogError, match=r"collection 'news'; there is default \(1\), wiki \(2\)"):
        read_log([path], hand, "news")


def test_a_router_that_decided_nothing(asked: Make, write_log: Write, hand: Stated) -> None:
    path = write_log(asked("1"), asked("2", asked="graph", score=None))
    with pytest.raises(
        LogError,
        match=r"None of the 2 questions .* by router new/v2 \(1 route named by the caller; "
        r"1 decided by another router: hand/v1 \(1\)\); name the router .* --router",
    ):
        read_log([path], replace(hand, name="new/v2"))


def test_logs_with_nothing_in_them(
    asked: Make, said: Make, write_log: Write, tmp_path: Path, hand: Stated
) -> None:
    with pytest.raises(LogError, match="No question was answered in"):
        read_log([write_log()], hand)
    with pytest.raises(LogError, match="No question was answered in"):
        read_log([write_log(said("1"))], hand)
    with pytest.raises(LogError, match=r"2 lines are none of a request log \(the first: .*:1\)"):
        read_log([write_log("a\n", "b\n")], hand)
    with pytest.raises(JournalError, match="cannot be read"):
        read_log([tmp_path / "missing"], hand)
    with pytest.raises(LogError, match="No request log is given"):
        read_log([], hand)
    path = write_log(asked("1"))
    with pytest.raises(LogError, match="is named 2 times"):
        read_log([path, path.parent / "." / path.name], hand)
