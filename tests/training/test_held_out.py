import math
from dataclasses import replace

import numpy as np
import pytest

from tests.training.made import replay_of, replayed
from wye.router.evidence import COLUMNS, NAMES_SIGNAL
from wye.router.fusion import FusionSettings
from wye.router.policy import Policy, bands
from wye.router.types import Route, Thresholds
from wye.training.evaluation_set import EvaluationSet
from wye.training.held_out import (
    AUTO,
    FIXED,
    MEASURED,
    ORACLE,
    HeldOutEvaluation,
    RouterScores,
    away,
    run_systems,
    summarise,
)
from wye.training.labels import Disagreement
from wye.training.measures import MEASURES

D, L, G, S = Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.STEPS
FUSION = FusionSettings()
QUALITY = MEASURES.index("nDCG@10")
SCORES = np.linspace(0.02, 0.98, 40)
POLICY = Policy(Thresholds(0.3, 0.6), L)


@pytest.fixture
def evaluation_set() -> EvaluationSet:
    draw = np.random.default_rng(1)

    def found() -> str:
        return "".join(draw.permutation(list("abcdefgh"))[: draw.integers(1, 8)])

    questions = [
        replayed(f"q{at}", "ab"[: 1 + at % 2], {arm: found() for arm in (D, L, G)})
        for at in range(40)
    ]
    return EvaluationSet((replay_of(*questions),), np.zeros((40, 1)))


def outcomes_of(
    evaluation_set: EvaluationSet, labels: np.ndarray | None = None
) -> HeldOutEvaluation:
    everything = np.arange(40) % 2 if labels is None else labels
    return run_systems(
        evaluation_set,
        RouterScores(SCORES, POLICY),
        Disagreement(everything, np.ones(40), everything, 0, 0),
        fusion=FusionSettings(),
    )


def test_nothing_beats_hindsight(evaluation_set: EvaluationSet) -> None:
    found = outcomes_of(evaluation_set)
    oracle = found.systems[ORACLE].values[:, QUALITY]
    for name in ("always lexical", "always graph", "always fusion", AUTO):
        assert (oracle >= found.systems[name].values[:, QUALITY] - 1e-12).all()


def test_the_router_is_worth_what_its_routes_are(evaluation_set: EvaluationSet) -> None:
    found = outcomes_of(evaluation_set)
    auto = found.systems[AUTO]
    for row, code in enumerate(bands(SCORES, POLICY.thresholds).tolist()):
        route = (L, Route.FUSION, G)[code]
        one = found.systems[f"always {route}"]
        assert auto.values[row].tolist() == one.values[row].tolist()
        # Always lexical reads no question, and is faster; the router has to.
        assert auto.latency_ms[row] == evaluation_set.latency_ms(route)[row]
    assert [*found.systems["always dense"].shares] == [1, 0, 0, 0]
    assert [*found.systems["always steps"].shares] == [0, 0, 0, 1]


def test_the_gap_is_that_between_the_best_fixed_route_and_the_oracle(
    evaluation_set: EvaluationSet,
) -> None:
    found = outcomes_of(evaluation_set)
    mean = {name: one.values[:, QUALITY].mean() for name, one in found.systems.items()}
    routes = ("dense", "lexical", "hybrid", "graph", "fusion", "steps")
    best = max((f"always {route}" for route in routes), key=lambda name: mean[name])
    fixed = mean[best]
    assert summarise(found).gap_closed == pytest.approx(
        (mean[AUTO] - fixed) / (mean[ORACLE] - fixed)
    )
    never = replace(found, systems={**found.systems, ORACLE: found.systems[best]})
    assert math.isnan(summarise(never).gap_closed)


@pytest.mark.parametrize("label", [-1, 1])
def test_disagreements_that_tell_nothing_are_no_error(
    evaluation_set: EvaluationSet, label: int
) -> None:
    found = summarise(outcomes_of(evaluation_set, np.full(40, label)))
    assert math.isnan(found.auc)
    assert (found.calibration is None) == (label == -1)


@pytest.mark.parametrize("only", [None, "other"])
def test_a_summary_has_every_system_measure_and_question(
    held_out: HeldOutEvaluation, only: str | None
) -> None:
    outcomes = held_out
    rows = np.ones(60, bool) if only is None else outcomes.questions.groups == only
    found = summarise(outcomes, None if only is None else rows)
    assert list(found.means) == list(outcomes.systems)
    assert list(found.differences) == [name for name in outcomes.systems if name != AUTO]
    assert (found.questions, found.disagreements) == (
        rows.sum(),
        (outcomes.better[rows] >= 0).sum(),
    )
    auto = outcomes.systems[AUTO].values[rows].mean(axis=0)
    for name, cells in found.means.items():
        own = outcomes.systems[name].values[rows].mean(axis=0)
        assert tuple(cells) == MEASURES
        assert [cell.mean for cell in cells.values()] == pytest.approx(own.tolist())
        assert all(cell.low <= cell.mean <= cell.high for cell in cells.values())
        if name != AUTO:
            behind = [cell.mean for cell in found.differences[name].values()]
            assert behind == pytest.approx((auto - own).tolist())


def test_shares_of_some_questions_are_the_routers_alone(held_out: HeldOutEvaluation) -> None:
    outcomes = held_out
    assert summarise(outcomes).shares[AUTO] == outcomes.systems[AUTO].shares
    shares = summarise(outcomes, outcomes.questions.groups == "other").shares
    assert list(shares) == [AUTO]
    assert math.fsum(shares[AUTO]) == pytest.approx(1)


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
