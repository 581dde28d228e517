from collections.abc import Callable

import numpy as np
import pytest

from router.fusion import FusionSettings
from router.types import Route
from training.data.evaluation_set import SIMPLE_ROUTES, EvaluationSet
from training.data.replay import Replayed, TrainingReplay
from training.errors import FitError
from training.labels import BETTER, CHOICES, compared, disagreements, labels_of

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH
FUSION = FusionSettings()
MakeQuestion = Callable[..., Replayed]
MakeReplay = Callable[..., TrainingReplay]


@pytest.fixture
def replays(replayed: MakeQuestion, replay_of: MakeReplay) -> list[TrainingReplay]:
    """Questions with one to three relevant passages, found in places drawn at random."""
    draw = np.random.default_rng(0)

    def found() -> str:
        return "".join(draw.permutation(list("abcdefghij"))[: draw.integers(0, 10)])

    def question(at: int) -> Replayed:
        return replayed(
            f"q{at}",
            "abc"[: draw.integers(1, 4)],
            {arm: found() for arm in (D, L, G)},
            answered="bd",
        )

    return [
        replay_of(*(question(at) for at in range(60)), dataset="one"),
        replay_of(*(question(at) for at in range(40)), dataset="two", split="dev"),
    ]


@pytest.mark.parametrize("success", CHOICES)
@pytest.mark.parametrize("simple", SIMPLE_ROUTES)
def test_what_is_learned_is_what_is_judged(
    replays: list[TrainingReplay], success: str, simple: Route
) -> None:
    learned = labels_of(disagreements(replays, simple, success, FUSION), 100)
    judged = compared(EvaluationSet(tuple(replays), np.zeros((100, 1))), simple, success, FUSION)
    assert learned.tolist() == judged.tolist()
    assert {*learned.tolist()} == {-1, 0, 1}


def test_the_better_ranking_labels_more_than_success_does(replays: list[TrainingReplay]) -> None:
    better = disagreements(replays, D, BETTER, FUSION)
    success = disagreements(replays, D, "all-gold@5", FUSION)
    assert len(better) > len(success)


def test_a_label_is_which_arm_is_needed(replayed: MakeQuestion, replay_of: MakeReplay) -> None:
    replay = replay_of(
        replayed("graph", "a", {D: "bcdefa", G: "a"}),
        replayed("both", "a", {D: "a", G: "ba"}),
        replayed("simple", "a", {D: "a"}),
    )
    for success, labels in (("all-gold@5", [1, -1, 0]), (BETTER, [1, 0, 0])):
        assert labels_of(disagreements([replay], D, success, FUSION), 3).tolist() == labels


def test_unknown_success_is_refused(replays: list[TrainingReplay]) -> None:
    with pytest.raises(FitError, match=r"There is no success 'luck'; choose among .*better-ndcg"):
        disagreements(replays, D, "luck", FUSION)
