from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.fusion import FusionSettings
from router.policy import Policy
from router.types import Route, Thresholds
from training.data.evaluation_set import EvaluationSet
from training.evaluation.held_out import (
    AUTO,
    COLUMNS,
    ORACLE,
    RANDOM,
    HeldOutOutcomes,
    RouterScores,
    judge,
    near_duplicates,
)
from training.thresholds.outcomes import taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from training.data.replay import Replayed, TrainingReplay

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH
QUALITY = COLUMNS.index("nDCG@10")
SCORES = np.linspace(0.02, 0.98, 40)
POLICY = Policy(Thresholds(0.3, 0.6), L)


@pytest.fixture
def material(
    replayed: "Callable[..., Replayed]", replay_of: "Callable[..., TrainingReplay]"
) -> EvaluationSet:
    draw = np.random.default_rng(1)

    def found() -> str:
        return "".join(draw.permutation(list("abcdefgh"))[: draw.integers(1, 8)])

    questions = [
        replayed(f"q{at}", "ab"[: 1 + at % 2], {arm: found() for arm in (D, L, G)}, answered="a")
        for at in range(40)
    ]
    return EvaluationSet((replay_of(*questions),), np.zeros((40, 1)))


def judged(material: EvaluationSet, labels: np.ndarray | None = None) -> HeldOutOutcomes:
    everything = np.arange(40) % 2 if labels is None else labels
    baseline = RouterScores(1 - SCORES, POLICY)
    return judge(
        material,
        RouterScores(SCORES, POLICY),
        everything,
        fusion=FusionSettings(),
        baselines={"upside-down": baseline},
    )


def test_nothing_beats_hindsight(material: EvaluationSet) -> None:
    found = judged(material)
    oracle = found.contenders[ORACLE].values[:, QUALITY]
    for name in ("always lexical", "always graph", "always fusion", AUTO, RANDOM, "upside-down"):
        assert (oracle >= found.contenders[name].values[:, QUALITY] - 1e-12).all()
    assert found.gap_closed(ORACLE, "nDCG@10") == 1


def test_chance_takes_every_route_as_often_as_the_router(material: EvaluationSet) -> None:
    found = judged(material)
    auto, random = found.contenders[AUTO], found.contenders[RANDOM]
    codes = taken(SCORES, POLICY.thresholds)
    assert random.shares == auto.shares
    assert auto.shares == tuple((np.bincount(codes, minlength=3) / 40).tolist())
    means = np.stack(
        [found.contenders[f"always {r}"].values.mean(axis=0) for r in (L, Route.FUSION, G)]
    )
    np.testing.assert_allclose(random.values.mean(axis=0), auto.shares @ means, atol=0.02)


def test_the_router_is_worth_what_its_routes_are(material: EvaluationSet) -> None:
    found = judged(material)
    auto = found.contenders[AUTO]
    for row, code in enumerate(taken(SCORES, POLICY.thresholds).tolist()):
        one = found.contenders[f"always {(L, Route.FUSION, G)[code]}"]
        assert auto.values[row].tolist() == one.values[row].tolist()
        assert auto.latency_ms[row] == one.latency_ms[row]
    assert found.contenders["always dense"].shares == (1, 0, 0)


def test_a_difference_is_paired(material: EvaluationSet) -> None:
    found = judged(material)
    rows = np.arange(40) < 10
    apart = found.difference(AUTO, "always graph", "R@5", rows)
    means = [found.mean(name, "R@5", rows).mean for name in (AUTO, "always graph")]
    assert apart.mean == pytest.approx(means[0] - means[1])
    assert apart.low <= apart.mean <= apart.high


@pytest.mark.parametrize("label", [-1, 1])
def test_disagreements_that_tell_nothing_are_no_error(material: EvaluationSet, label: int) -> None:
    found = judged(material, np.full(40, label))
    assert np.isnan(found.auc)
    assert (found.calibration is None) == (label == -1)


word = st.sampled_from(["Who", "who", "met", "ada", "Ada,", "in", "1833?", "turin", "é"])
question = st.lists(word, min_size=0, max_size=6).map(" ".join)


def bag(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.casefold()).split())


@given(st.lists(question, max_size=6), st.lists(question, max_size=6))
def test_near_duplicates_are_those_that_comparing_all_finds(
    test: list[str], learned: list[str]
) -> None:
    expected = []
    for text in dict.fromkeys(test):
        best, nearest = 0.0, None
        for other in dict.fromkeys(learned):
            both = bag(text) | bag(other)
            coefficient = len(bag(text) & bag(other)) / len(both) if both else 0.0
            if coefficient > best:
                best, nearest = coefficient, other
        if nearest is not None and best >= 0.8:
            expected.append((text, nearest))
    assert near_duplicates(test, learned) == expected
