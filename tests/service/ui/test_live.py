from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.webdriver.common.keys import Keys

from router.manifest import policy_from_json
from router.policy import Thresholds

if TYPE_CHECKING:
    from tests.service.conftest import Library
    from tests.service.ui.conftest import Page

Visit = Callable[..., "Page"]

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


def test_logged_questions_are_listed_as_text(
    visit: Visit, library: "Library", tmp_path: Path
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
    saved = page.downloads / "thresholds.json"
    page.wait(saved.exists)
    policy = policy_from_json(saved.read_bytes(), "thresholds.json")
    assert policy.thresholds.low == Thresholds(0.4, 0.7).low
    assert abs(policy.thresholds.high - 0.575) < 1e-9
    page.one("#tab-ask").click()
    page.ask(FUSION)
    assert page.text("#path") == "fusion"


def tried(page: "Page") -> dict[str, tuple[str, ...]]:
    """Route -> its share as it is, and as tried; read at once, as rows are drawn anew."""
    read = "return [...document.querySelectorAll('.shares tbody tr')].map((r) => r.innerText)"
    cells = [row.split() for row in page.run(read)]
    return {cell[0]: (" ".join(cell[1:3]), " ".join(cell[3:5])) for cell in cells}
