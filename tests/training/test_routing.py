import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.router.policy import bands, decide, routes
from wye.router.types import Route, Thresholds
from wye.training.errors import FitError
from wye.training.thresholds.outcomes import (
    RouteOutcomes,
    ThresholdObjective,
    of_routes,
    outcome,
)

REPLAY = RouteOutcomes(
    scores=np.array([0.1, 0.4, 0.6, 0.9]),
    quality=np.array([[1, 0, 0], [0, 1, 0], [0, 0.5, 1], [0, 0, 1]], float),
    latency_ms=np.array([[1, 9, 5], [2, 9, 5], [3, 9, 5], [4, 9, 7]], float),
)
level = st.sampled_from([0.1, 0.3, 0.5, 0.9])


@given(st.lists(level, min_size=1), level, level)
def test_routes_are_those_of_the_policy(scores: list[float], one: float, other: float) -> None:
    thresholds = Thresholds(min(one, other), max(one, other))
    order = routes(Route.LEXICAL)
    expected = [decide(s, thresholds, simple=Route.LEXICAL).route for s in scores]
    assert [order[code] for code in bands(np.array(scores), thresholds)] == expected


def test_what_thresholds_give() -> None:
    found = outcome(REPLAY, Thresholds(0.2, 0.8))
    assert found.quality == (1 + 1 + 0.5 + 1) / 4
    assert found.mean_ms == (1 + 9 + 9 + 7) / 4
    assert found.p95_ms == 9
    assert found.shares == (0.25, 0.5, 0.25)
    assert found.objective(ThresholdObjective(latency_weight=0.1)) == pytest.approx(0.875 - 0.65)


def test_an_oracle_is_an_outcome_too() -> None:
    assert of_routes(REPLAY, REPLAY.quality.argmax(axis=1)).quality == 1


def test_what_makes_no_sense_is_refused() -> None:
    three = np.zeros((1, 3))
    with pytest.raises(FitError, match="no question"):
        RouteOutcomes(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(FitError, match=r"\(1, 2\)"):
        RouteOutcomes(np.array([0.5]), np.zeros((1, 2)), three)
    for score in (0.0, 1.0, math.nan):
        with pytest.raises(FitError, match="between 0 and 1"):
            RouteOutcomes(np.array([score]), three, three)
    with pytest.raises(FitError, match="finite"):
        RouteOutcomes(np.array([0.5]), three * math.nan, three)
    with pytest.raises(FitError, match="weight of latency"):
        ThresholdObjective(latency_weight=-1)
    with pytest.raises(FitError, match="graph share"):
        ThresholdObjective(max_graph_share=1.5)
