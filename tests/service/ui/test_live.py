from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.webdriver.common.keys import Keys

from tests.service.arms.fakes import Remote, arms_file, table
from tests.service.fakes import Library
from wye.router.errors import ModelFileError
from wye.router.model_files import read_policy
from wye.router.types import Route, Thresholds
from wye.service.app import CONSOLE

if TYPE_CHECKING:
    from tests.service.ui.conftest import Page

Visit = Callable[..., "Page"]

SIMPLE = "What river?"
COSTLY = "In which of the towns by the river Neretva is it?"
FUSION = "Which river does the bridge cross?"
GRAPH = "Into which sea does the river under the bridge flow?"


def test_traffic_is_shown_and_questions_only_if_logged(page: "Page") -> None:
    page.ask(GRAPH)
    page.one("#tab-live").click()
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
    page.one("#tab-live").click()
    page.wait(lambda: page.all("#routes tbody tr"))
    page.wait(lambda: page.text(".tiles strong") == "2")
    names, values = ([one.text for one in page.all(f".tiles {tag}")] for tag in ("span", "strong"))
    told = dict(zip(names, values, strict=True))
    assert (told["spent on remote arms"], told["saved by the router"]) == ("0.02", "0.02")
    assert told["spent today, of 0.5"] == "0.02"
    assert page.complaints == []


def test_logged_questions_are_listed_as_text(
    visit: Visit, library: Library, tmp_path: Path
) -> None:
    page = visit(library, request_log=tmp_path / "log.jsonl")
    page.ask("<b>What</b> river?")
    page.open("/#live")
    page.wait(lambda: page.all("#questions li"))
    assert "<b>What</b> river?" in page.text("#questions li")


def test_thresholds_are_tried_and_saved_but_not_set(page: "Page") -> None:
    for question in (FUSION, GRAPH):
        page.ask(question)
    page.one("#tab-live").click()
    page.wait(lambda: page.all(".shares tbody tr"))
    assert tried(page) == {
        "dense": ("0 %", "0 %"),
        "fusion": ("50 %", "50 %"),
        "graph": ("50 %",) * 2,
    }
    slider = page.one("input[data-threshold=high]")
    for _ in range(25):
        slider.send_keys(Keys.ARROW_LEFT)
    assert tried(page)["graph"] == ("50 %", "100 %")
    page.one(".tryout button.primary").click()
    saved = page.downloads / "thresholds-demo.json"
    page.wait(saved.exists)
    assert "start the server with --thresholds demo=" in page.text(".tryout [role=status]")
    policy = read_policy(saved, "words/v1")
    assert policy.router == "words/v1"
    assert policy.thresholds.low == Thresholds(0.4, 0.7).low
    assert abs(policy.thresholds.high - 0.575) < 1e-9
    page.one("#tab-ask").click()
    page.ask(FUSION)
    assert page.text("#path") == "fusion"


def test_each_collection_has_its_own_thresholds_to_try(
    visit: Visit, library: Library, tmp_path: Path
) -> None:
    bold = Library()
    bold.thresholds = Thresholds(0.0, 0.1)
    log = tmp_path / "log.jsonl"
    page = visit(library, beside={"bold": bold}, refresh_seconds=0.05, request_log=log)
    page.ask(FUSION)
    page.run("document.getElementById('collection').value = 'bold'")
    page.ask(FUSION)
    assert page.text("#path") == "graph"
    page.one("#tab-live").click()
    page.wait(lambda: len(page.all(".shares tbody")) == 2)
    cards = ".tryout:nth-of-type({})"
    assert rows(page, cards.format(1)) == {"dense": "0 %", "fusion": "100 %", "graph": "0 %"}
    assert rows(page, cards.format(2)) == {"dense": "0 %", "fusion": "0 %", "graph": "100 %"}
    assert "words/v1 decides with 0.400 and 0.700" in page.text(cards.format(1))
    assert "words/v1 decides with 0.000 and 0.100" in page.text(cards.format(2))
    times = f"document.querySelector('{cards.format(2)} tfoot').innerText"
    assert "?" not in page.run(f"return {times}"), "graph has times here, dense has none"
    assert "bold" in page.text("#questions li:first-child")

    slider = page.one(f"{cards.format(2)} input[data-threshold=high]")
    slider.send_keys(Keys.ARROW_RIGHT)
    for each in (library, bold):
        each.with_thresholds = Thresholds(0.5, 0.9)
    page.wait(lambda: "with 0.500 and 0.900" in page.text(cards.format(2)))
    assert shown(page, cards.format(1)) == ["0.500", "0.900"], "nobody moved these"
    assert shown(page, cards.format(2)) == ["0.000", "0.105"]
    assert page.complaints == []


def test_thresholds_that_cannot_be_used_are_seen(visit: Visit, library: Library) -> None:
    page = visit(library, refresh_seconds=0.05)
    library.with_thresholds = ModelFileError("<b>thresholds.json</b> is not JSON.")
    page.one("#tab-live").click()
    page.wait(lambda: page.all(".tryout .note:not([hidden])"))
    assert page.text(".tryout .note") == "<b>thresholds.json</b> is not JSON."


def rows(page: "Page", card: str) -> dict[str, str]:
    """Route -> its share as it is, of one collection."""
    read = (
        f"return [...document.querySelectorAll('{card} .shares tbody tr')].map((r) => r.innerText)"
    )
    cells = [row.split() for row in page.run(read)]
    return {cell[0]: " ".join(cell[1:3]) for cell in cells}


def shown(page: "Page", card: str) -> list[str]:
    """Where the sliders of one collection stand."""
    read = f"return [...document.querySelectorAll('{card} output')].map((o) => o.textContent)"
    return [str(text) for text in page.run(read)]


def tried(page: "Page") -> dict[str, tuple[str, ...]]:
    """Route -> its share as it is, and as tried; read at once, as rows are drawn anew."""
    read = "return [...document.querySelectorAll('.shares tbody tr')].map((r) => r.innerText)"
    cells = [row.split() for row in page.run(read)]
    return {cell[0]: (" ".join(cell[1:3]), " ".join(cell[3:5])) for cell in cells}


def test_every_route_has_a_bar_of_its_colour() -> None:
    style = (CONSOLE / "css" / "figures.css").read_text(encoding="utf-8")
    assert [route for route in Route if route != Route.AUTO and f".fill.{route}" not in style] == []
