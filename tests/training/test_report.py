"""What is written of a training run."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import spearmanr

from wye.training.fit.router import Fitted
from wye.training.markdown import gain_spread, spread
from wye.training.measures import Interval
from wye.training.report import Report, card, complexity, verdict, write_report

MADE = "9f2c", "wye train --questions one --questions other"


@pytest.fixture(scope="module")
def written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, report)
    return folder


def test_questions_are_counted_by_replay_dataset_and_split(
    report: Report, unjudged: Report, fitted: Fitted
) -> None:
    assert report.evaluation is not None
    splits = {name: (rows["train"], rows["dev"]) for name, rows in report.cross_fitted.data.items()}
    assert splits == {"one": (90, 90), "other": (60, 60)}
    tested = {name: rows["test"] for name, rows in report.evaluation.data.items()}
    assert tested == {"one": 40, "other": 20}
    assert report.cross_fitted.data == unjudged.cross_fitted.data
    folds = report.cross_fitted.data.values()
    sums = [sum(rows[arm] for rows in folds) for arm in ("simple", "graph")]
    assert sums == [(fitted.disagreement.better == label).sum() for label in (0, 1)]


@pytest.mark.parametrize(
    ("gained", "says"),
    [
        (Interval(0.02, 0.01, 0.03), "Better than always fusion: nDCG@10 +.020 [+.010 +.030]* on"),
        (Interval(0.0, -0.01, 0.01), "Not better than always fusion: nDCG@10 +.000 [-.010 +.010] "),
        (Interval(-0.03, -0.04, -0.02), "Worse than always fusion: nDCG@10 -.030 [-.040 -.020]*"),
    ],
)
def test_a_verdict_is_about_what_is_simpler(report: Report, gained: Interval, says: str) -> None:
    assert report.evaluation is not None
    known = {**report.evaluation.differences}
    known["always fusion"] = {**known["always fusion"], "nDCG@10": gained}
    found = verdict(report.fitted, replace(report.evaluation, differences=known))
    assert found[1].startswith(says)
    assert found[0] == (gained.low > 0)
    assert ("Do not use this router; use fusion instead." in found[1]) != found[0]


def test_a_router_that_always_says_the_same_is_told(report: Report) -> None:
    assert report.evaluation is not None
    shares = {**report.evaluation.shares, "auto": (0.0, 0.0, 1.0, 0.0)}
    found = verdict(report.fitted, replace(report.evaluation, shares=shares))
    assert "It sends every question to graph, which needs no router." in found[1]


def test_the_same_report_is_the_same_bytes_and_no_setting_stays_changed(
    written: Path, report: Report, tmp_path: Path
) -> None:
    before = dict(mpl.rcParams)
    write_report(tmp_path, report)
    assert dict(mpl.rcParams) == before
    names = sorted(path.name for path in written.iterdir())
    assert names == ["front.svg", "metrics.json", "reliability.svg"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name
    for path in written.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert not re.search("<dc:date>|Matplotlib", text)


def test_metrics_are_the_numbers_and_quote_no_question(
    written: Path, report: Report, unjudged: Report, tmp_path: Path
) -> None:
    found = json.loads((written / "metrics.json").read_text(encoding="utf-8"))
    assert report.evaluation is not None
    expected = asdict(report.evaluation.means["auto"]["nDCG@10"])
    assert found["evaluation"]["means"]["auto"]["nDCG@10"] == pytest.approx(expected, abs=1e-6)
    assert "Ada" not in (text := json.dumps(found))
    assert "question one" not in text
    write_report(tmp_path, unjudged)
    assert json.loads((tmp_path / "metrics.json").read_text("utf-8"))["evaluation"] is None
    unread = card("mine", *MADE, unjudged)
    assert ("was not evaluated" in unread, "oracle" in unread) == (True, False)


def test_the_card_has_figures_with_their_command(report: Report) -> None:
    text = card("mine", *MADE, report)
    assert text.startswith("# Router: mine\n")
    assert len(text.splitlines()) <= 60
    assert report.evaluation is not None
    for name, cells in report.evaluation.means.items():
        assert f"| {name} | {spread(cells['nDCG@10'])} | {spread(cells['R@5'])} |" in text
    assert "\n    wye train --questions one --questions other\n" in text
    assert "schema `9f2c`" in text
    assert "\n| one | 90 | 90 | 40 | " in text
    assert re.findall(r"!\[[^\]]+\]\((\S+)\)", text) == ["front.svg", "reliability.svg"]
    for row in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in row.splitlines()}) == 1


def test_other_datasets_are_told(report: Report) -> None:
    rows = [line for line in card("mine", *MADE, report).splitlines() if line.startswith("| o")]
    for row, (name, summary) in zip(rows[-2:], report.left_out.items(), strict=True):
        learned = report.cross_fitted.data[name]
        numbers = f"{learned['simple']} | {learned['graph']} | {gain_spread(summary.less_best)} |"
        assert row.startswith(f"| {name} | ")
        assert row.endswith(numbers)


def test_complexity_is_the_rank_correlation_with_hops(fitted: Fitted) -> None:
    """Datasets weigh the same: what a large one says is not all."""
    questions = fitted.questions
    draw = np.random.default_rng(0)
    hops = {"one": draw.integers(1, 4, 180), "other": np.full(120, 2)}
    replays = []
    for replay in questions.replays:
        numbers = iter(hops[replay.dataset][: len(replay)].tolist())
        rows = (
            replace(row, question=replace(row.question, hops=next(numbers)))
            for row in replay.questions
        )
        replays.append(replace(replay, questions=tuple(rows)))
    known = replace(questions, replays=tuple(replays))
    numbers = np.array([row.question.hops for row in known.questions])
    scores = numbers + draw.normal(size=300)
    found = complexity(known, scores)
    assert [*found] == ["all", "one"]
    rows = known.origins == "one"
    assert found["one"] == pytest.approx(spearmanr(scores[rows], numbers[rows])[0])
    counts = np.where(rows, 2, 3)  # 180 and 120 questions
    repeated = np.repeat(np.arange(300), counts)
    expected = spearmanr(scores[repeated], numbers[repeated])[0]
    assert found["all"] == pytest.approx(expected)
    assert complexity(questions, scores) == {}
