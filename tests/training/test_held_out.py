import math

import numpy as np
import pytest

from tests.training.made import D, G, L, S, replay_of, replayed
from wye.router.evidence import COLUMNS, NAMES_SIGNAL
from wye.router.policy import Policy, bands
from wye.router.types import Route, Thresholds
from wye.training.evaluation_set import EvaluationSet
from wye.training.held_out import AUTO, ORACLE, Summary, SystemOutcomes, run_systems, summarise
from wye.training.labels import Disagreement
from wye.training.measures import MEASURES

QUALITY = MEASURES.index("nDCG@10")
SCORES = np.linspace(0.02, 0.98, 40)
POLICY = Policy(Thresholds(0.3, 0.6), L)
Systems = dict[str, SystemOutcomes]


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


@pytest.fixture
def systems(evaluation_set: EvaluationSet) -> Systems:
    return run_systems(evaluation_set, SCORES, POLICY)


def summary(
    systems: Systems, questions: EvaluationSet, labels: np.ndarray | None = None
) -> Summary:
    labels = np.arange(40) % 2 if labels is None else labels
    labelled = Disagreement(labels.astype(float), np.ones(40), labels)
    return summarise(systems, questions, SCORES, labelled)


def test_nothing_beats_hindsight(systems: Systems) -> None:
    oracle = systems[ORACLE].values[:, QUALITY]
    routes = ("always lexical", "always graph", "always fusion", AUTO)
    assert all((oracle >= systems[name].values[:, QUALITY] - 1e-12).all() for name in routes)


def test_a_router_is_worth_what_routes_are(systems: Systems, evaluation_set: EvaluationSet) -> None:
    auto = systems[AUTO]
    for row, code in enumerate(bands(SCORES, POLICY.thresholds).tolist()):
        route = (L, Route.FUSION, G)[code]
        one = systems[f"always {route}"]
        assert auto.values[row].tolist() == one.values[row].tolist()
        # Always lexical reads no question, and is faster; the router has to.
        assert auto.latency_ms[row] == evaluation_set.latency_ms(route)[row]
    assert [*systems["always dense"].shares] == [1, 0, 0, 0]
    assert [*systems["always steps"].shares] == [0, 0, 0, 1]


def test_the_gap_is_that_between_the_best_fixed_route_and_the_oracle(
    systems: Systems, evaluation_set: EvaluationSet
) -> None:
    mean = {name: one.values[:, QUALITY].mean() for name, one in systems.items()}
    routes = ("dense", "lexical", "hybrid", "graph", "fusion", "steps")
    best = max((f"always {route}" for route in routes), key=lambda name: mean[name])
    fixed = mean[best]
    assert summary(systems, evaluation_set).gap_closed == pytest.approx(
        (mean[AUTO] - fixed) / (mean[ORACLE] - fixed)
    )
    no_gap = {**systems, ORACLE: systems[best]}
    assert math.isnan(summary(no_gap, evaluation_set).gap_closed)


@pytest.mark.parametrize("label", [-1, 1])
def test_disagreements_that_tell_nothing_are_no_error(
    systems: Systems, evaluation_set: EvaluationSet, label: int
) -> None:
    found = summary(systems, evaluation_set, np.full(40, label))
    assert math.isnan(found.auc)
    assert (found.calibration is None) == (label == -1)


def test_a_summary_has_every_system_measure_and_question(
    systems: Systems, evaluation_set: EvaluationSet
) -> None:
    found = summary(systems, evaluation_set)
    assert list(found.means) == list(systems)
    assert list(found.differences) == [name for name in systems if name != AUTO]
    assert found.questions == 40
    auto = systems[AUTO].values.mean(axis=0)
    for name, cells in found.means.items():
        run = systems[name]
        means = run.values.mean(axis=0)
        assert found.latency_ms[name] == pytest.approx(run.latency_ms.mean())
        assert tuple(cells) == MEASURES
        assert [cell.mean for cell in cells.values()] == pytest.approx(means.tolist())
        assert all(cell.low <= cell.mean <= cell.high for cell in cells.values())
        if name != AUTO:
            behind = [cell.mean for cell in found.differences[name].values()]
            assert behind == pytest.approx((auto - means).tolist())


def test_a_router_beside_the_best_that_always_takes_one_route() -> None:
    ranked = {D: "ab", L: "ab", G: "ba"}
    questions = [
        replayed("q1", "a", {**ranked, S: "ba"}, group="town"),
        replayed("q2", "c", {**ranked, S: "c"}, group="town"),
        replayed("q3", "a", ranked, group="town"),
    ]
    features = np.zeros((3, len(COLUMNS)))
    features[:, COLUMNS.index(NAMES_SIGNAL)] = 0.5
    asked = EvaluationSet((replay_of(*questions),), features)
    for thresholds, route, shares in (
        # The third question has no plan, and half of what it needs is at hand.
        (Thresholds(0.0, 1.0, 1.0), S, (0, 1 / 3, 0, 2 / 3)),
        (Thresholds(1.0, 1.0, 0.0), D, (1, 0, 0, 0)),
    ):
        policy, scores = Policy(thresholds, D), np.full(3, 0.2)
        labelled = Disagreement(np.ones(3), np.ones(3), np.ones(3, np.int64))
        found = summarise(run_systems(asked, scores, policy), asked, scores, labelled)
        assert found.shares[AUTO] == pytest.approx(shares)
        mean = {name: cells["nDCG@10"].mean for name, cells in found.means.items()}
        assert mean[AUTO] == pytest.approx(asked.values_of(route).mean(axis=0)[QUALITY])
        best = max(value for name, value in mean.items() if name.startswith("always"))
        assert found.less_best.mean == pytest.approx(mean[AUTO] - best)
