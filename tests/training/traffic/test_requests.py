import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from router.types import Route
from training.traffic.requests import Columns, Line
from training.traffic.stages import ROUTES

Make = Callable[..., dict[str, Any]]


def test_a_line_is_what_the_service_logged(asked: Make) -> None:
    line = Line.of(asked("1", 0.7, "graph", ms=30, max_latency_ms=40, filter={"type": "eq"}))
    assert (line.score, line.model, line.thresholds) == (0.7, "hand/v1", (0.4, 0.6))
    assert ROUTES[line.route] == Route.GRAPH
    assert line.stages == pytest.approx({"parsing": 0.001, "graph": 0.029})
    assert line.waited_ms == pytest.approx(50)
    assert (line.budget, line.budget_unknown) == (40, False)
    assert line.time == datetime(2026, 11, 10, 8, tzinfo=UTC)


def test_what_was_not_decided_has_no_score(asked: Make) -> None:
    assert Line.of(asked(score=None)).score is None
    empty = {"route": "dense", "score": None, "thresholds": None, "reason": "degraded: empty"}
    line = Line.of(asked(decision={**empty, "model": ""}))
    assert (line.score, line.thresholds, line.model) == (None, None, "")


def test_a_budget_that_an_older_log_does_not_tell(asked: Make) -> None:
    older = asked(reason="budget: fusion takes about 30 ms, 20 ms are allowed")
    del older["max_latency_ms"]
    assert Line.of(older).budget_unknown
    assert math.isnan(Line.of(older).budget)
    unbounded = asked()
    del unbounded["max_latency_ms"]
    assert not Line.of(unbounded).budget_unknown


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
def test_what_the_service_does_not_write_is_refused(asked: Make, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Line.of(asked(**change))


def test_columns_keep_the_order(asked: Make) -> None:
    columns = Columns(asks_corpus=False)
    assert len(columns.done()) == len(columns) == 0
    for score, route, ms in ((0.2, "dense", 10), (0.9, "graph", 30)):
        columns.add(Line.of(asked("1", score, route, ms=ms)), score)
    found = columns.done()
    assert len(columns) == len(found) == 2
    assert found.scores.tolist() == [0.2, 0.9]
    assert [ROUTES[code] for code in found.routes] == [Route.DENSE, Route.GRAPH]
    assert found.times_ms[[0, 1], found.routes] == pytest.approx([10, 30])
    assert np.isnan(found.times_ms).sum() == 2 * (len(ROUTES) - 1)
    assert found.waited_ms.tolist() == [50, 50]
    assert np.isnan(found.budgets).all()
