import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from training.reporting.contents import RouterReport
from training.reporting.write import write_report

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
def written(report: RouterReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(folder, report)
    return folder


def test_the_same_report_is_the_same_bytes(
    written: Path, report: RouterReport, tmp_path: Path
) -> None:
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


def test_json_has_the_numbers_of_the_tables(written: Path, report: RouterReport) -> None:
    found = json.loads((written / "report.json").read_text(encoding="utf-8"))
    assert report.judged is not None
    auto = found["evaluation"]["overall"]["means"]["auto"]["nDCG@10"]
    expected = report.judged.mean("auto", "nDCG@10")
    assert auto == {
        "mean": pytest.approx(expected.mean, abs=1e-6),
        "low": pytest.approx(expected.low, abs=1e-6),
        "high": pytest.approx(expected.high, abs=1e-6),
    }
    assert list(found["evaluation"]["parts"]) == ["one", "other"]
    assert len(found["scorer"]["features"]) == len(report.importances)
    assert found["thresholds"]["stability"]["impossible"] == 0
    assert found["transfer_untried"] == dict(report.untried)
    counts = found["scores"]["test"].values()
    assert sum(map(sum, counts)) == 60


def test_no_question_is_quoted(written: Path) -> None:
    for path in written.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "Ada" not in text
        assert "question one" not in text


def test_a_run_without_test_splits_says_so(unjudged: RouterReport, tmp_path: Path) -> None:
    write_report(tmp_path, unjudged)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "has not been judged" in text
    assert "Final evaluation" not in text
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["evaluation"] is None
