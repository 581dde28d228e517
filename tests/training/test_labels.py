import numpy as np
import pytest

from tests.training.made import D, G, L, replay_of, replayed
from wye.router.types import Route
from wye.training.errors import FitError
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.labels import ALL_GOLD, ENOUGH, HELPS, compared
from wye.training.measures import ALL_EVIDENCE, MEASURES
from wye.training.replay import Replayed, TrainingReplay


@pytest.fixture
def replays() -> list[TrainingReplay]:
    """Questions with one to three relevant passages, found in places drawn at random."""
    draw = np.random.default_rng(0)

    def found() -> str:
        return "".join(draw.permutation(list("abcdefghij"))[: draw.integers(0, 10)])

    def question(at: int) -> Replayed:
        return replayed(f"q{at}", "abc"[: draw.integers(1, 4)], {arm: found() for arm in (D, L, G)})

    return [
        replay_of(*(question(at) for at in range(60)), dataset="one"),
        replay_of(*(question(at) for at in range(40)), dataset="two", split="dev"),
    ]


def asked(*replays: TrainingReplay) -> EvaluationSet:
    return EvaluationSet(replays, np.zeros((sum(map(len, replays)), 1)))


@pytest.mark.parametrize("simple", SIMPLE_ROUTES)
def test_a_label_is_the_gain_over_text(replays: list[TrainingReplay], simple: Route) -> None:
    questions = asked(*replays)
    found = compared(questions, simple, HELPS)
    routes = (simple, Route.FUSION, Route.STEPS)
    ours, fused, steps = (questions.values_of(route) for route in routes)
    for row, label in enumerate(found.labels.tolist()):
        more = np.maximum(fused[row], steps[row])
        ranks = more[MEASURES.index("nDCG@10")] > ours[row][MEASURES.index("nDCG@10")] + 1e-6
        completes = more[MEASURES.index(ALL_EVIDENCE)] > ours[row][MEASURES.index(ALL_EVIDENCE)]
        assert label == (int(ranks) + int(completes)) / 2
    assert {*found.labels.tolist()} == {0, 0.5, 1}
    assert (found.stakes == 1).all()


def test_as_published_datasets_weigh_the_same(replays: list[TrainingReplay]) -> None:
    found = compared(asked(*replays), D, ALL_GOLD)
    assert {*found.labels.tolist()} == {-1, 0, 1}
    assert (found.stakes > 0).tolist() == (found.labels >= 0).tolist()
    groups = asked(*replays).groups
    assert [found.stakes[groups == name].sum() for name in np.unique(groups)] == pytest.approx(
        [1.0] * len(np.unique(groups))
    )


def test_equal_rankings_are_no_disagreement() -> None:
    same = dict.fromkeys((D, L, G), "abc")
    replay = replay_of(replayed("both", "a", same), replayed("neither", "x", same))
    found = compared(asked(replay), Route.HYBRID, HELPS)
    assert (found.labels.tolist(), len(found)) == ([0, 0], 0)
    assert found.warnings[0].startswith("The arms never disagree, so there is nothing to route")


def test_only_what_exactly_one_arm_answers() -> None:
    replay = replay_of(
        replayed("both", "a", {D: "abc", G: "a"}),
        replayed("graph", "ab", {D: "acdefb", G: "ab"}),
        replayed("simple", "a", {D: "a", G: "bcdef"}, group="there"),
        replayed("neither", "x", {D: "a", G: "b"}),
    )
    found = compared(asked(replay, replay), D, "all-gold@5")
    assert found.labels.tolist() == [-1, 1, 0, -1] * 2
    assert found.warnings == (
        f"The arms disagree on only 4 questions, and a router needs about {ENOUGH}; add questions, "
        "or a dataset of another kind.",
    )
    found.require_both()


def test_one_side_alone_is_said_and_refused() -> None:
    questions = asked(replay_of(replayed("simple", "a", {D: "a", G: "b"})))
    found = compared(questions, D, ALL_GOLD)
    assert "the simple arm is better: always taking it loses nothing" in found.warnings[-1]
    with pytest.raises(FitError, match="Add questions on which the other is better"):
        found.require_both()
