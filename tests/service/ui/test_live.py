from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.service.arms.fakes import Remote, arms_file, table
from tests.service.fakes import Library
from wye.router.errors import ModelFileError
from wye.router.types import Thresholds

if TYPE_CHECKING:
    from tests.service.ui.conftest import Page

Visit = Callable[..., "Page"]

SIMPLE = "What river?"
COSTLY = "In which of the towns by the river Neretva is it?"
FUSION = "Which river does the bridge cross?"
GRAPH = "Into which sea does the river under the bridge flow?"


def test_traffic_is_shown_and_questions_only_if_logged(page: "Page") -> None:
    page.ask(GRAPH)
    page.click("#tab-live")
    page.wait(lambda: page.all("#routes tbody tr"))
    assert page.text("#routes tbody").startswith("graph100 %")
    assert page.text(".tiles strong") == "1"
    assert "WYE_SERVE__REQUEST_LOG" in page.text("#recent")
    assert page.complaints == []


def test_what_remote_arms_cost_is_shown(
    visit: Visit, library: Library, remote: Remote, tmp_path: Path
) -> None:
    parts = {"arms": arms_file(tmp_path, table(remote.url))}
    page = visit(library, parts=parts, max_cost_per_day=0.5)
    page.ask(COSTLY)
    page.ask(SIMPLE)
    page.click("#tab-live")
    page.wait(lambda: page.all("#routes tbody tr"))
    page.wait(lambda: page.text(".tiles strong") == "2")
    names, values = ([one.text for one in page.all(f".tiles {tag}")] for tag in ("span", "strong"))
    figures = dict(zip(names, values, strict=True))
    assert (figures["spent on remote arms"], figures["saved by the router"]) == ("0.02", "0.02")
    assert figures["spent today, of 0.5"] == "0.02"
    assert page.complaints == []


def test_logged_questions_are_listed_as_text(
    visit: Visit, library: Library, tmp_path: Path
) -> None:
    page = visit(library, request_log=tmp_path / "log.jsonl")
    page.ask("<b>What</b> river?")
    page.open("/#live")
    page.wait(lambda: page.all("#questions li"))
    assert "<b>What</b> river?" in page.text("#questions li")


def test_each_collection_has_its_own_router(visit: Visit, library: Library, log: Path) -> None:
    bold = Library()
    bold.thresholds = Thresholds(0.0, 0.1)
    page = visit(library, beside={"bold": bold}, refresh_seconds=0.05, request_log=log)
    page.run("document.getElementById('collection').value = 'bold'")
    page.ask(FUSION)
    assert page.text("#path") == "graph"
    page.click("#tab-live")
    page.wait(lambda: page.all("#routers tbody tr"))
    assert "demowords/v1, 0.400 and 0.700" in page.text("#routers")
    assert "boldwords/v1, 0.000 and 0.100" in page.text("#routers")
    assert "bold" in page.text("#questions li:first-child")
    library.with_thresholds = Thresholds(0.5, 0.9)
    page.wait(lambda: "0.500 and 0.900" in page.text("#routers"))
    assert page.complaints == []


def test_thresholds_that_cannot_be_used_are_seen(visit: Visit, library: Library) -> None:
    page = visit(library, refresh_seconds=0.05)
    library.with_thresholds = ModelFileError("<b>thresholds.json</b> is not JSON.")
    page.click("#tab-live")
    page.wait(lambda: page.all("#routers .note"))
    assert page.text("#routers .note") == "<b>thresholds.json</b> is not JSON."
