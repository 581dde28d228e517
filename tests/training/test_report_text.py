import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from training.evaluation.bootstrap import Interval
from training.evaluation.held_out import COLUMNS
from training.markdown import show, spread
from training.report import Report
from training.report_text import overall_markdown, verdict, write_report
from training.thresholds.outcomes import ThresholdObjective

HEADINGS = (
    "What this is",
    "Data",
    "Scorer",
    "Calibration",
    "Thresholds",
    "Final evaluation",
    "Transfer",
    "Near duplicates",
    "Reproduce",
)


@pytest.fixture(scope="module")
def written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, report)
    return folder


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
    found = verdict(replace(report, evaluation=replace(report.evaluation, differences=known)))
    assert found is not None
    assert found.says.startswith(says)
    assert found.better == (gained.low > 0)
    assert ("Do not use this router; use fusion instead." in found.says) != found.better


def test_a_router_that_always_says_the_same_is_told(report: Report, unjudged: Report) -> None:
    assert report.evaluation is not None
    shares = {**report.evaluation.shares, "auto": (0.0, 0.0, 1.0, 0.0)}
    found = verdict(replace(report, evaluation=replace(report.evaluation, shares=shares)))
    assert found is not None
    assert "It sends every question to graph, which needs no router." in found.says
    assert verdict(unjudged) is None


def test_where_fusion_is_too_slow_the_simple_route_is_the_rival(report: Report) -> None:
    goal = ThresholdObjective(max_graph_share=0.0)
    found = verdict(replace(report, choices=replace(report.choices, goal=goal)))
    assert found is not None
    assert f"than always {report.policy.simple}: " in found.says


def test_the_same_report_is_the_same_bytes(written: Path, report: Report, tmp_path: Path) -> None:
    write_report(tmp_path, report)
    names = sorted(path.name for path in written.iterdir())
    assert {"report.md", "report.html", "report.json"} < set(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_markdown_has_every_part_and_its_plots(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")
    assert [h for h in HEADINGS if f"\n## {h}\n" not in text] == []
    plots = re.findall(r"\]\(([\w-]+\.svg)\)", text)
    assert sorted(plots) == sorted(path.name for path in written.glob("*.svg"))
    for row in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in row.splitlines()}) == 1


def test_the_page_needs_nothing_beside_it(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*""", text) == []
    assert "url(http" not in text
    assert "@import" not in text
    assert "<title>A &lt;small&gt; router</title>" in text
    assert text.count("<svg") == 4
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', text):
        assert used in ids
    assert "currentColor" in text


def test_plots_are_well_formed_and_carry_no_date(written: Path) -> None:
    for path in written.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "<dc:date>" not in text
        assert "Matplotlib" not in text


def test_json_has_the_numbers_of_the_tables(written: Path, report: Report) -> None:
    found = json.loads((written / "report.json").read_text(encoding="utf-8"))
    assert report.evaluation is not None
    expected = report.evaluation.means["auto"]["nDCG@10"]
    assert found["evaluation"]["means"]["auto"]["nDCG@10"] == {
        "mean": pytest.approx(expected.mean, abs=1e-6),
        "low": pytest.approx(expected.low, abs=1e-6),
        "high": pytest.approx(expected.high, abs=1e-6),
    }
    assert list(found["parts"]) == ["one", "other"]
    assert len(found["selection"]["names"]) == len(found["importances"]) == len(report.importances)
    assert found["stability"]["impossible"] == 0
    assert found["untried"] == dict(report.untried)
    counts = found["scores"]["test"].values()
    assert sum(map(sum, counts)) == 60


def test_no_question_is_quoted(written: Path) -> None:
    for path in written.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "Ada" not in text
        assert "question one" not in text


def test_a_run_without_test_splits_says_so(unjudged: Report, tmp_path: Path) -> None:
    write_report(tmp_path, unjudged)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "was not evaluated" in text
    assert "Final evaluation" not in text
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["evaluation"] is None


def test_every_system_and_interval_is_printed(report: Report) -> None:
    written = io.StringIO()
    assert report.evaluation is not None
    text = overall_markdown(report.evaluation, narrow=True)
    show(text, Console(file=written, width=120, highlight=False))
    text = written.getvalue()
    assert max(map(len, text.splitlines())) <= 120
    for name in report.evaluation.means:
        assert f" {name} " in text
    for measure in COLUMNS:
        assert spread(report.evaluation.means["auto"][measure]) in text
    assert "the oracle" in text


def test_somebodys_names_are_no_markup(report: Report, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>|[a](javascript:x) ![b](http://b/c.svg)\n# d `e` *f*"
    assert report.evaluation is not None
    write_report(
        tmp_path,
        replace(
            report,
            title=hostile,
            data=tuple(replace(one, dataset=hostile) for one in report.data),
            parts={hostile: report.evaluation, "other": report.evaluation},
            transfer={hostile: report.evaluation},
            untried={hostile: hostile},
            command=f"wye train {hostile}",
        ),
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:img|a|script)\b", page) == []
    assert "<title>&lt;img src=x" in page
    assert page.count("<svg") == 4
    assert "<h1>&lt;img src=x onerror=alert(1)&gt;|[a](javascript:x)" in page
    assert "<em>" not in page
    plain = "&lt;img src=x onerror=alert(1)&gt;|[a](javascript:x) ![b](http://b/c.svg) # d `e` *f*"
    assert page.count(f"<td>{plain}</td>") == 7
    assert f"<h3>{plain}</h3>" in page
    assert page.count("<h1>") == 1
