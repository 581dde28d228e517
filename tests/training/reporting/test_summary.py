import math
from dataclasses import astuple, replace

import numpy as np
import pytest

from training.evaluation.bootstrap import Interval
from training.evaluation.held_out import AUTO, COLUMNS
from training.reporting.contents import RouterReport
from training.reporting.summary import parts, summarise
from training.run import HeldOutEvaluation


def near(one: Interval, other: Interval) -> bool:
    return astuple(one) == pytest.approx(astuple(other), abs=1e-12)


@pytest.mark.parametrize("only", [None, "other"])
def test_figures_are_those_of_the_evaluation(verdict: HeldOutEvaluation, only: str | None) -> None:
    judged = verdict.judged
    rows = None if only is None else judged.groups == only
    found = summarise(judged, rows)
    for name in ("always dense", "auto", "oracle"):
        for measure in ("nDCG@10", "answer-in-context@5"):
            assert near(found.means[name][measure], judged.mean(name, measure, rows))
            if name != AUTO:
                behind = judged.difference(AUTO, name, measure, rows)
                assert near(found.differences[name][measure], behind)
    assert found.gap_closed["nDCG@10"] == judged.gap_closed(AUTO, "nDCG@10", rows)


def test_every_contender_and_measure_is_there(verdict: HeldOutEvaluation) -> None:
    found = summarise(verdict.judged)
    assert list(found.means) == list(verdict.judged.contenders)
    assert all(tuple(cells) == COLUMNS for cells in found.means.values())
    assert AUTO not in found.differences
    assert found.questions == 60
    assert found.disagreements == (verdict.judged.labels >= 0).sum()
    assert found.auc == verdict.judged.auc
    assert found.calibration is not None
    assert verdict.judged.calibration is not None
    assert found.calibration.ece_mass == verdict.judged.calibration.ece_mass
    assert found.shares[AUTO] == verdict.judged.contenders[AUTO].shares


def test_shares_of_some_questions_need_thresholds(report: RouterReport) -> None:
    assert report.judged is not None
    rows = report.judged.groups == "other"
    assert summarise(report.judged, rows).shares == {}
    shares = summarise(report.judged, rows, report.fitted.policy.thresholds).shares
    assert list(shares) == [AUTO]
    assert math.fsum(shares[AUTO]) == pytest.approx(1)


def test_questions_without_disagreement_have_no_auc(verdict: HeldOutEvaluation) -> None:
    agree = verdict.judged.labels == -1
    found = summarise(verdict.judged, agree)
    assert math.isnan(found.auc)
    assert found.calibration is None


def test_parts_are_replays_and_datasets_within_them(verdict: HeldOutEvaluation) -> None:
    found = parts(verdict.judged)
    assert list(found) == ["one", "other"]
    merged = replace(verdict.judged, origins=np.full(60, "union"))
    within = parts(merged)
    assert list(within) == ["union", "union: one", "union: other"]
    assert within["union"].all()
    assert np.array_equal(within["union: other"], found["other"])


def test_equal_contenders_are_no_different(verdict: HeldOutEvaluation) -> None:
    judged = verdict.judged
    auto = judged.contenders[AUTO]
    twins = replace(judged, contenders={**judged.contenders, "twin": replace(auto, name="twin")})
    for cell in summarise(twins).differences["twin"].values():
        assert cell == Interval(0.0, 0.0, 0.0)
