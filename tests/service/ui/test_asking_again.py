"""What can be done with a question beside asking it once: compare, link, repeat, judge."""

import json
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.service.fakes import LIBRARY, Library
from tests.service.ui.conftest import GRAPH, Page, Visit
from wye.backends.types import Passage
from wye.router.types import Route

HARD = "What's \"it\" & <b>why</b> 50% + 1 'é' $HOME `id`?"


def ratings(log: Path) -> list[dict[str, object]]:
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "feedback"]


def pressed(page: Page, kind: str) -> list[str | None]:
    return [one.get_attribute("aria-pressed") for one in page.all(f"[data-feedback={kind}]")]


def test_a_judgement_is_shown_and_withdrawn(visit: Visit, library: Library, log: Path) -> None:
    page = visit(library, request_log=log)
    page.ask(GRAPH)
    page.click("[data-feedback=answers]")
    page.wait(lambda: len(ratings(log)) == 1)
    first = page.one("#passages > li").get_attribute("data-passage")
    assert (ratings(log)[0]["rating"], ratings(log)[0]["passages"]) == ("good", [first])
    page.wait(lambda: pressed(page, "answers") == ["true", "false", "false"])
    page.click("[data-feedback=bad]")
    page.wait(lambda: len(ratings(log)) == 2)
    assert (ratings(log)[1]["rating"], ratings(log)[1]["passages"]) == ("bad", [first])
    page.wait(lambda: (pressed(page, "bad"), pressed(page, "good")) == (["true"], ["false"]))
    page.click("[data-feedback=bad]")
    page.click("[data-feedback=answers]")
    page.wait(lambda: len(ratings(log)) == 4)
    assert (ratings(log)[3]["rating"], ratings(log)[3]["passages"]) == ("none", [])
    page.wait(lambda: page.text("#feedback-said") == "Withdrawn.")


def test_a_judgement_that_is_not_kept_is_not_shown_as_given(page: Page) -> None:
    page.ask(GRAPH)
    page.click("[data-feedback=good]")
    page.wait(lambda: "WYE_SERVE__REQUEST_LOG" in page.text("#feedback-said"))
    assert pressed(page, "good") == ["false"]


def test_all_routes_are_compared_in_one_click(page: Page) -> None:
    page.compare(GRAPH)
    columns = page.all("#compared section")
    routes = [column.get_attribute("data-route") for column in columns]
    assert routes == [
        *("auto", "dense", "lexical", "hybrid", "graph", "fusion", "steps", "clue", "zoom")
    ]
    assert "→ graph" in columns[0].text
    assert all(" ms" in column.text for column in columns)
    title = columns[1].find_element("css selector", "summary")
    title.send_keys(Keys.ENTER)
    assert "The Old Bridge" in columns[1].text or "The Neretva" in columns[1].text
    page.resize(390, 800)
    lefts = {column.rect["x"] for column in columns}
    assert (len(lefts), page.is_too_wide) == (1, False)


def test_one_route_that_fails_does_not_hide_the_others(visit: Visit, library: Library) -> None:
    library.has_no_router = True
    page = visit(library)
    library.failing = {Route.LEXICAL}
    page.compare(GRAPH)
    columns = {c.get_attribute("data-route"): c.text for c in page.all("#compared section")}
    assert "There is no router model here" in columns["auto"]
    assert "lexical failed (RuntimeError); dense instead" in columns["lexical"]
    assert "dense" in page.text("#verdict")


@pytest.mark.parametrize("question", [GRAPH, HARD])
def test_a_link_carries_a_question_and_how_it_was_asked(visit: Visit, question: str) -> None:
    page = visit(Library(), beside={"other": Library()})
    page.run("document.querySelector('#route').value = 'dense'")
    page.run("document.querySelector('#k').value = 2")
    page.run("document.querySelector('#collection').value = 'other'")
    page.run(
        'document.querySelector(\'#filter\').value = \'{"type": "gt", "key": "y", "value": 1}\''
    )
    page.ask(question)
    link = page.run("return location.hash")
    page.open("/" + link)
    page.settle()
    fields = ["question", "route", "k", "collection"]
    form = "return arguments[0].map((id) => document.getElementById(id).value)"
    assert page.run(form, fields) == [question, "dense", "2", "other"]
    assert (page.text("#path"), len(page.all("#passages > li"))) == ("dense", 2)
    assert json.loads(page.run("return document.querySelector('#filter').value"))["value"] == 1
    page.click("#tab-documents")
    page.browser.back()
    page.wait(lambda: page.run("return location.hash") == link)
    assert page.one("#view-ask").is_displayed()


@pytest.mark.parametrize("wrong", ["collection=else", "route=random"])
def test_a_link_that_names_what_is_not_here_asks_nothing_instead(page: Page, wrong: str) -> None:
    page.open(f"/#q=river&{wrong}")
    page.wait(lambda: page.all("#problem .problem"))
    name, value = wrong.split("=")
    assert f"There is no {name} '{value}' here; use one of " in page.text("#problem")
    assert page.text("#result") == ""


@pytest.mark.parametrize("name", ["demo", "mine"])
def test_examples_are_those_of_the_collection(visit: Visit, name: str) -> None:
    demo = Library(
        [Passage("mallard", "Mallard", "It ran."), Passage("nigel-gresley", "Gresley", "He drew.")]
    )
    named = Library(LIBRARY)
    first, second = (named, demo) if name == "demo" else (demo, named)
    page = visit(first, beside={"other": second})
    page.wait(lambda: page.all("#examples button"))
    titles = [f"Who or what is {title}?" for title in ("Stari Most", "Neretva", "Tower Bridge")]
    now = [chip.text for chip in page.all("#examples button")]
    assert (now == titles) == (name == "demo"), "whatever a collection is called"
    assert any("Fortran" in text for text in now) == (name == "mine")
