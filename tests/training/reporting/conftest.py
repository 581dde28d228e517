"""A small training run over questions made by hand, and what its test split says."""

from collections.abc import Callable

import numpy as np
import pytest

from router.types import Route
from training.data.evaluation_set import EvaluationSet
from training.data.replay import Replay, Replayed, TrainingReplay
from training.evaluation.held_out import HeldOutOutcomes, RouterScores, judge
from training.labels import compared, disagreements, labels_of
from training.pipeline import Choices, fit
from training.reporting.contents import RouterReport
from training.run import HeldOutEvaluation, Learned

D, L, G = Route.DENSE, Route.LEXICAL, Route.GRAPH
FOUND = {1: {D: "bcdefa", L: "bcdefa", G: "ab"}, 0: {D: "ab", L: "ba", G: "bcdefa"}}
AGREE = {D: "ab", L: "ab", G: "ba"}
WIDTH = 6


class World:
    """Questions whose first two features tell which arm they need, but for noise."""

    def __init__(
        self, replayed: Callable[..., Replayed], replay_of: Callable[..., TrainingReplay]
    ) -> None:
        self._replayed = replayed
        self._replay_of = replay_of

    def material(self, sizes: dict[str, int], *splits: str, seed: int = 0) -> EvaluationSet:
        """So many questions of each dataset, in each split."""
        draw = np.random.default_rng(seed)
        replays: list[Replay] = []
        features = []
        for split in splits:
            for dataset, count in sizes.items():
                x = draw.normal(size=(count, WIDTH))
                label = (x[:, 0] - x[:, 1] + draw.normal(size=count) > 0).astype(int)
                agree = draw.random(count) < 0.3
                questions = [
                    self._replayed(
                        f"{dataset}-{split}-{at}",
                        "a",
                        AGREE if agree[at] else FOUND[label[at]],
                        answered="a",
                        group=dataset,
                    )
                    for at in range(count)
                ]
                made = self._replay_of(*questions, dataset=dataset)
                # Only the final evaluation may hold a test split, so it is no TrainingReplay.
                replays.append(Replay(dataset, split, made.key, made.questions))
                features.append(x)
        return EvaluationSet(tuple(replays), np.concatenate(features))


@pytest.fixture(scope="session")
def world(replayed: Callable[..., Replayed], replay_of: Callable[..., TrainingReplay]) -> World:
    return World(replayed, replay_of)


@pytest.fixture(scope="session")
def learned(world: World) -> Learned:
    choices = Choices(kind="linear", simple=D)
    material = world.material({"one": 90, "other": 60}, "train", "dev")
    replays = [TrainingReplay(r.dataset, r.split, r.key, r.questions) for r in material.replays]
    labels = labels_of(disagreements(replays, D, choices.success, choices.fusion), len(material))
    dev = np.repeat([r.split == "dev" for r in replays], [len(r) for r in replays])
    names = tuple(f"f{column}" for column in range(WIDTH))
    fitted = fit(material, labels, dev, names=names, choices=choices)
    return Learned(material, dev, labels, (), fitted)


@pytest.fixture(scope="session")
def verdict(world: World, learned: Learned) -> HeldOutEvaluation:
    fitted = learned.fitted
    fusion, success = fitted.choices.fusion, fitted.choices.success
    material = world.material({"one": 40, "other": 20}, "test", seed=1)

    def judged(asked: EvaluationSet) -> HeldOutOutcomes:
        return judge(
            asked,
            RouterScores(fitted.scorer.scores(asked.features), fitted.policy),
            compared(asked, D, success, fusion),
            fusion=fusion,
            baselines={},
        )

    other = material.only(material.groups == "other")
    return HeldOutEvaluation(
        material=material,
        judged=judged(material),
        transfer={"other": judged(other)},
        untried={"one": "On all disagreements the same arm wins."},
        duplicates=[("Who is <Ada>?", "Who was <Ada>?")],
    )


@pytest.fixture(scope="session")
def report(learned: Learned, verdict: HeldOutEvaluation) -> RouterReport:
    return report_of(learned, verdict)


@pytest.fixture(scope="session")
def unjudged(learned: Learned) -> RouterReport:
    return report_of(learned, None)


def report_of(learned: Learned, verdict: HeldOutEvaluation | None) -> RouterReport:
    return RouterReport.of(
        learned,
        verdict,
        title="A <small> router",
        command="wye train --questions one --questions other",
        seconds={"training": 1.25},
        versions={"wye": "0.1.0"},
    )
