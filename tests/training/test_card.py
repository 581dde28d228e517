import re
from dataclasses import replace

import pytest

from wye.training.markdown import gain_spread, spread
from wye.training.report import Report, card


def test_the_card_has_figures_with_their_command(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wye.training.report.PUBLIC", {"one": ("One", "CC0", "written")})
    text = card("mine", report)
    assert text.startswith("# Router: mine\n")
    assert len(text.splitlines()) <= 60
    assert report.evaluation is not None
    for name, cells in report.evaluation.means.items():
        assert f"| {name} | {spread(cells['nDCG@10'])} | {spread(cells['R@5'])} |" in text
    assert "\n    wye train --questions one --questions other\n" in text
    assert "schema `9f2c`" in text
    assert "\n- one: One (CC0; passages: written): 90 train, 90 dev, 40 test\n" in text
    assert "\n- other: own data (not stated; passages: not stated): 60 train, 60 dev, 20 te" in text
    assert re.findall(r"!\[[^\]]+\]\((\S+)\)", text) == ["front.svg", "reliability.svg"]
    for row in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in row.splitlines()}) == 1


def test_other_datasets_are_told_by_the_worst_and_the_best(report: Report) -> None:
    usual, *_ = [
        one
        for one in report.left_out
        if report.fitted.policy.points[one.point] == report.fitted.policy.thresholds
    ]
    less = replace(usual.less_best, mean=usual.less_best.mean - 1)
    worse = replace(usual, dataset="[worse]", less_best=less)
    text = card("mine", replace(report, left_out=(*report.left_out, worse), strangers=()))
    gains = gain_spread(less), gain_spread(usual.less_best)
    assert f"is from {gains[0]} (\\[worse\\]) to {gains[1]} (other)." in text
    assert "that nothing was learned from" not in text


def test_a_router_that_was_not_judged_says_so(unjudged: Report) -> None:
    text = card("mine", unjudged)
    assert "was not evaluated" in text
    assert "oracle" not in text
