"""The numbers of a training report."""

from dataclasses import replace

import numpy as np
import pytest

from router.scorer import Linear, Scorer, Standard
from training.fit.router import Fitted
from training.report import Report, count_questions, importances, make_report


def test_questions_are_counted_by_replay_dataset_and_split(
    report: Report, unjudged: Report, fitted: Fitted
) -> None:
    assert [(one.dataset, one.split, one.questions) for one in report.data] == [
        ("one", "train", 90),
        ("other", "train", 60),
        ("one", "dev", 90),
        ("other", "dev", 60),
        ("one", "test", 40),
        ("other", "test", 20),
    ]
    assert report.data[:4] == unjudged.data
    better = fitted.training.better
    assert better is not None
    assert sum(one.graph for one in unjudged.data) == (better == 1).sum()
    assert sum(one.simple for one in unjudged.data) == (better == 0).sum()
    first = fitted.training.questions.only(np.arange(300) < 3)
    (counts,) = count_questions(first, np.array([1, -1, 0]))
    assert (counts.questions, counts.simple, counts.graph) == (3, 1, 1)


def test_what_is_learned_from_and_worth_the_same_is_no_disagreement(fitted: Fitted) -> None:
    better = np.where(np.arange(300) < 7, 1, -1)
    found = make_report(
        replace(fitted, training=replace(fitted.training, better=better)),
        None,
        title="",
        schema_id="",
        command="",
        seconds={},
        versions={},
    )
    assert sum(one.disagreements for one in found.data) == 7


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


def test_stages_are_in_milliseconds(report: Report) -> None:
    assert report.stages_ms["parsing"] == pytest.approx((10, 10, 10))
    assert report.stages_ms["graph"] == pytest.approx((2, 2, 2))
