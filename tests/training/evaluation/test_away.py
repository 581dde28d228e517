import numpy as np
import pytest

from tests.training.made import replay_of, replayed
from wye.router.evidence import COLUMNS, NAMES_SIGNAL
from wye.router.fusion import FusionSettings
from wye.router.policy import Policy
from wye.router.types import Route, Thresholds
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.evaluation.away import FIXED, MEASURED, away

D, L, G, S = Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.STEPS
FUSION = FusionSettings()


def test_each_point_beside_the_best_that_always_takes_one_route() -> None:
    found = {D: "ab", L: "ab", G: "ba"}
    questions = [
        replayed("q1", "a", {**found, S: "ba"}, group="town"),
        replayed("q2", "c", {**found, S: "c"}, group="town"),
        replayed("q3", "a", found, group="town"),
    ]
    features = np.zeros((3, len(COLUMNS)))
    features[:, COLUMNS.index(NAMES_SIGNAL)] = 0.5
    asked = EvaluationSet((replay_of(*questions),), features)
    points = {"quality": Thresholds(0.0, 1.0, 1.0), "fast": Thresholds(1.0, 1.0, 0.0)}
    policy = Policy(Thresholds(0.0, 1.0, 1.0), D, points=points)
    rows = list(away(asked, np.array([0.2, 0.2, 0.2]), policy, FUSION))
    assert [row.point for row in rows] == ["quality", "fast"]
    assert {row.dataset for row in rows} == {"town in here"}
    quality, fast = rows
    assert quality.shares == pytest.approx((0, 1 / 3, 0, 2 / 3))
    assert fast.shares == (1.0, 0.0, 0.0, 0.0)
    for row, route in ((quality, S), (fast, D)):
        values = asked.worth(route, FUSION).mean(axis=0)
        assert [*row.means] == [*MEASURED]
        assert row.means["nDCG@10"] == pytest.approx(row.fixed.get(str(route), values[4]))
        best = max(row.fixed.values())
        assert row.less_best.mean == pytest.approx(row.means["nDCG@10"] - best)
        assert [*row.fixed] == [*map(str, FIXED)]
    assert quality.less_best.mean == 0
