import numpy as np
import pytest

from router.scorer import Linear, Scorer, Standard
from training.reporting.contents import RouterReport, Tally, importances, tally
from training.run import Learned


def test_questions_are_counted_by_replay_dataset_and_split(
    report: RouterReport, learned: Learned
) -> None:
    assert [(one.dataset, one.split, one.questions) for one in report.tallies] == [
        ("one", "train", 90),
        ("other", "train", 60),
        ("one", "dev", 90),
        ("other", "dev", 60),
        ("one", "test", 40),
        ("other", "test", 20),
    ]
    known = [one for one in report.tallies if one.split != "test"]
    assert sum(one.graph for one in known) == (learned.labels == 1).sum()
    assert sum(one.simple for one in known) == (learned.labels == 0).sum()


def test_a_replay_of_several_datasets_is_counted_by_dataset(learned: Learned) -> None:
    first = learned.material.only(np.arange(len(learned.material)) < 3)
    assert tally(first, np.array([1, -1, 0])) == (Tally("one", "one", "train", 3, 1, 1),)


def test_importance_is_the_mean_size_of_a_contribution() -> None:
    weights = np.array([[2.0, -1.0, 0.0]])
    scorer = Scorer(
        names=("a", "b", "c"),
        columns=np.arange(3),
        width=3,
        standard=Standard(np.zeros(3), np.ones(3), 5.0),
        members=(Linear({"head.weight": weights, "head.bias": np.array([0.3])}),),
        temperature=2.0,
    )
    features = np.array([[1.0, 1.0, 1.0], [-2.0, 0.0, 4.0]])
    assert importances(scorer, features) == pytest.approx([1.5, 0.25, 0.0], abs=1e-6)


def test_stages_are_in_milliseconds(report: RouterReport) -> None:
    assert report.stages["parsing"] == pytest.approx((10, 10, 10))
    assert report.stages["graph"] == pytest.approx((2, 2, 2))


def test_a_run_without_test_splits_is_a_report_too(unjudged: RouterReport) -> None:
    assert unjudged.judged is None
    assert {one.split for one in unjudged.tallies} == {"train", "dev"}
