import numpy as np
import pytest

from tests.training.made import replay_of, replayed
from wye.router.fusion import FusionSettings
from wye.router.types import Route
from wye.training.errors import FitError
from wye.training.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from wye.training.labels import (
    BETTER,
    ENOUGH,
    HELPS,
    LEAST_STAKE,
    SUCCESSES,
    compared,
    disagreement_of,
    disagreements,
)
from wye.training.measures import MEASURES
from wye.training.replay import Replayed, TrainingReplay

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH
FUSION = FusionSettings()


@pytest.fixture
def replays() -> list[TrainingReplay]:
    """Questions with one to three relevant passages, found in places drawn at random."""
    draw = np.random.default_rng(0)

    def found() -> str:
        return "".join(draw.permutation(list("abcdefghij"))[: draw.integers(0, 10)])

    def question(at: int) -> Replayed:
        return replayed(
            f"q{at}",
            "abc"[: draw.integers(1, 4)],
            {arm: found() for arm in (D, L, G)},
        )

    return [
        replay_of(*(question(at) for at in range(60)), dataset="one"),
        replay_of(*(question(at) for at in range(40)), dataset="two", split="dev"),
    ]


@pytest.mark.parametrize("success", SUCCESSES)
@pytest.mark.parametrize("simple", SIMPLE_ROUTES)
def test_what_is_learned_is_what_is_judged(
    replays: list[TrainingReplay], success: str, simple: Route
) -> None:
    learned = disagreements(replays, simple, success, FUSION).labels
    asked = EvaluationSet(tuple(replays), np.zeros((100, 1)))
    judged = compared(asked, simple, success, FUSION).labels
    assert learned.tolist() == judged.tolist()
    assert {*learned.tolist()} == ({0, 1} if success == HELPS else {-1, 0, 1})


def test_a_question_counts_by_what_is_at_stake(replays: list[TrainingReplay]) -> None:
    asked = EvaluationSet(tuple(replays), np.zeros((100, 1)))
    text, fused = (
        asked.measured(asked.rankings(route, FUSION))[:, MEASURES.index("nDCG@10")]
        for route in (Route.HYBRID, Route.FUSION)
    )
    found = disagreements(replays, Route.HYBRID, HELPS, FUSION)
    assert found.stakes == pytest.approx(np.abs(fused - text) + LEAST_STAKE)
    assert found.labels.tolist() == (fused > text + 1e-6).astype(int).tolist()
    assert len(found) == (np.abs(fused - text) > 1e-6).sum() < 100
    assert ((found.better >= 0) <= (found.better == found.labels)).all()
    assert found.both + found.neither == 100 - len(found)
    assert {*disagreements(replays, D, BETTER, FUSION).stakes.tolist()} == {0.0, 1.0}


def test_equal_rankings_are_no_disagreement() -> None:
    same = dict.fromkeys((D, L, G), "abc")
    found = disagreements(
        [replay_of(replayed("both", "a", same), replayed("neither", "x", same))],
        Route.HYBRID,
        HELPS,
        FUSION,
    )
    assert (found.labels.tolist(), len(found), found.both, found.neither) == ([0, 0], 0, 1, 1)
    assert found.warnings[0].startswith("The arms never disagree: both succeed on 1 questions and")


def test_the_better_ranking_labels_more_than_success_does(replays: list[TrainingReplay]) -> None:
    better = disagreements(replays, D, BETTER, FUSION)
    success = disagreements(replays, D, "all-gold@5", FUSION)
    assert len(better) > len(success)


def test_a_label_is_which_arm_is_needed() -> None:
    replay = replay_of(
        replayed("graph", "a", {D: "bcdefa", G: "a"}),
        replayed("both", "a", {D: "a", G: "ba"}),
        replayed("simple", "a", {D: "a"}),
    )
    for success, labels in (("all-gold@5", [1, -1, 0]), (BETTER, [1, 0, 0])):
        assert disagreements([replay], D, success, FUSION).labels.tolist() == labels


@pytest.fixture
def replay() -> TrainingReplay:
    return replay_of(
        replayed("both", "a", {D: "abc", G: "a"}),
        replayed("graph", "ab", {D: "acdefb", G: "ab"}),
        replayed("simple", "a", {D: "a", G: "bcdef"}, group="there"),
        replayed("neither", "x", {D: "a", G: "b"}),
    )


@pytest.mark.parametrize(
    ("success", "labels"),
    [
        ("all-gold@5", [-1, 1, 0, -1]),
    ],
)
def test_success_by_name(replay: TrainingReplay, success: str, labels: list[int]) -> None:
    assert disagreements([replay], D, success, FUSION).labels.tolist() == labels


def test_as_published_datasets_count_the_same(replay: TrainingReplay) -> None:
    """Two questions of "here" and one of "there" tell the arms apart."""
    more = replay_of(replayed("graph too", "a", {D: "bcdefa", G: "a"}), split="dev")
    found = disagreements([replay, more], D, "all-gold@5", FUSION)
    assert found.labels.tolist() == [-1, 1, 0, -1, 1]
    assert found.stakes.tolist() == [0, 0.5, 1, 0, 0.5]


def test_only_what_exactly_one_arm_answers(replay: TrainingReplay) -> None:
    found = disagreements([replay, replay], D, "all-gold@5", FUSION)
    assert found.labels.tolist() == [-1, 1, 0, -1] * 2
    assert (found.both, found.neither) == (2, 2)
    assert found.warnings == (
        f"The arms disagree on only 4 questions, and a router needs about {ENOUGH}; add questions, "
        "or a dataset of another kind.",
    )
    found.require_both()


def test_enough_of_both_is_nothing_to_warn_of(replay: TrainingReplay) -> None:
    assert disagreements([replay] * ENOUGH, D, "all-gold@5", FUSION).warnings == ()


def test_one_side_alone_is_said_and_refused() -> None:
    everything = np.array([True] * 4)
    found = disagreement_of(everything, ~everything)
    assert "the simple arm is better: always taking it loses nothing" in found.warnings[-1]
    with pytest.raises(FitError, match="Add questions on which the other is better"):
        found.require_both()


def test_no_disagreement_at_all() -> None:
    successes = np.array([True, False, True, False])
    same = disagreement_of(successes, successes)
    assert len(same) == 0
    assert (
        "The arms never disagree: both succeed on 2 questions and neither on 2"
        in (same.warnings[0])
    )
    with pytest.raises(FitError, match="nothing to route"):
        same.require_both()
