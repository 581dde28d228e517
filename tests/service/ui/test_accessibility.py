"""axe-core, sizes of targets, and phones: every view, wide and narrow, light and dark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe

from tests.service.fakes import Endpoint, Library
from tests.service.ui.conftest import FUSION, GRAPH, Page, Visit
from wye.service.settings import GeneratorSettings

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}

# Links in running text may be smaller (WCAG 2.2, 2.5.8), and what only a screen reader sees.
SMALL = """
return [...document.querySelectorAll("button, a, summary, select, input, textarea, [role=tab]")]
  .filter((one) => one.checkVisibility() && !one.matches(".skip, p a"))
  .map((one) => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.width < 24 || box.height < 24))
  .map(([html, box]) => `${html} ${box.width} x ${box.height}`);
"""


def ask(page: Page) -> None:
    page.ask(FUSION)


def unfold(page: Page) -> None:
    page.ask(FUSION)
    page.unfold()


def compare(page: Page) -> None:
    page.compare(GRAPH)


def documents(page: Page) -> None:
    page.click("#tab-documents")
    page.wait(lambda: page.all("[data-document]"))


def delete(page: Page) -> None:
    documents(page)
    page.click("[data-document] button")


def refused(page: Page) -> None:
    page.filter("{nonsense")
    page.ask(GRAPH)


def start(page: Page) -> None:
    page.wait(lambda: page.all("#examples button"))


def steps(page: Page) -> None:
    page.ask(GRAPH, route="steps")
    page.unfold()


VIEWS = [start, ask, unfold, steps, compare, documents, delete, refused]


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("go", VIEWS)
def test_axe_finds_nothing_and_nothing_is_too_small_or_too_wide(
    visit: Visit, library: Library, log: Path, go: Callable[[Page], None], width: int
) -> None:
    page = visit(library, request_log=log)
    page.resize(width, 900)
    go(page)
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        report: dict[str, Any] = Axe().run(page.browser, options=RULES)
        wrong = [
            f"{scheme}: {fault['id']}: {node['html'][:120]} {node['failureSummary']}"
            for fault in report["violations"]
            for node in fault["nodes"]
        ]
        assert wrong == []
    assert page.run(SMALL) == []
    assert not page.is_too_wide


def test_what_streams_is_not_dimmed_but_what_was_before_is(
    visit: Visit, library: Library, endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    page = visit(library, parts={"generator": with_model})
    page.ask(GRAPH)
    endpoint.script = ["stall"]
    field = page.one("#question")
    field.clear()
    field.send_keys(FUSION, "\n")
    page.wait(lambda: page.text("#path") == "fusion")
    page.wait(lambda: page.text("#answer") != "")
    assert page.one("#result").get_attribute("aria-busy") == "true"
    assert page.run("return getComputedStyle(document.querySelector('#result')).opacity") == "1"
    endpoint.release.set()
    page.settle()
