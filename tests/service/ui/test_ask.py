import re
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.service.fakes import Library
from tests.service.ui.conftest import FUSION, GRAPH, Page, Visit
from wye.backends.types import Passage
from wye.router.types import Reply, Route, Thresholds
from wye.service.http.edge import Scope
from wye.service.http.keys import append_key, new_key


def test_it_loads_without_a_complaint(page: Page) -> None:
    assert page.text("#status") == "ready, 4 passages"
    assert page.focused == "question"
    page.wait(lambda: page.all("#examples button"))
    assert page.complaints == []


def test_an_answer_shows_how_it_came_about(page: Page) -> None:
    page.ask(FUSION)
    assert page.text("#details > summary").startswith("Detailsfusionscore 0.600 · ")
    assert page.text("#score").startswith("Score 0.600 of 1. The router takes dense up to 0.400, ")
    assert len(page.all("#passages > li")) == 4
    assert page.text("#summary") == "How it is built speaks for the graph."
    assert "Written by" not in page.text("#answer")
    assert "words" in page.text("#contributions tbody")
    assert "Words (W), by the trees' tags." in page.text("#contributions tbody")
    arms = [one.get_attribute("data-arm") for one in page.all("#arms .list")]
    assert arms == ["dense", "graph"]
    assert not page.one("#timings").is_displayed(), "all but the passages is folded away"
    page.click("#details > summary")
    page.ask(GRAPH)
    assert page.one("#timings").is_displayed(), "it stays open"
    assert page.complaints == []


def test_the_graphs_path_is_told_and_its_sentence_marked(page: Page) -> None:
    page.ask(GRAPH)
    assert page.text("#path") == "graph"
    assert (
        "question → Stari Most → The Old Bridge spans the Neretva. (Stari Most) → Neretva"
        in page.text("#bridge")
    )
    (mark,) = page.all("#passages mark")
    assert mark.text == "The Old Bridge spans the Neretva."
    item = mark.find_element(By.XPATH, "./ancestor::li")
    assert item.get_attribute("data-passage") == "mostar"
    assert "moved up because Stari Most mentions it." in page.text("#bridge")


def test_a_conversation(page: Page) -> None:
    page.ask(GRAPH)
    answer = page.text("#answer")
    page.one("#follow").send_keys("And who built it?", Keys.ENTER)
    page.wait(lambda: "And who built it?" in page.text("#result h2"))
    page.settle()
    assert [one.text for one in page.all("#turns h2")] == [GRAPH]
    assert re.sub(r"[\[\]]", "", page.text("#turns p")) == answer
    assert "Searched for: And who built it? (" in page.text("#result .card")
    page.wait(lambda: page.one("#follow").is_displayed())
    page.one("#follow").send_keys("And when?", Keys.ENTER)
    page.wait(lambda: len(page.all("#turns h2")) == 2)
    page.settle()
    page.ask(FUSION)
    assert (page.all("#turns h2"), page.text("#result h2")) == ([], "Answer")
    assert page.complaints == []


def test_a_row_of_a_table_is_set_apart_with_its_name(visit: Visit) -> None:
    text = "role: Fitter; team: Harbour; desk: B0.02"
    page = visit(Library([Passage("staff.csv:7", "Ines Brandt", text, {"desk": "B0.02"})]))
    page.ask("Which team has the fitter of the harbour?")
    cells = "role: Fitter · team: Harbour · desk: B0.02"
    assert cells in page.text("#passages .text")
    assert f"Ines Brandt {cells}" in page.text("#answer .row")


def test_lists_stand_side_by_side_with_what_fusion_did(page: Page) -> None:
    page.ask(FUSION)
    page.unfold()
    first = [one.text.split("\n")[-1] for one in page.all("#arms .list li:first-child")]
    assert first == ["→ 1", "→ 1"]
    shares = page.text("#fused tbody tr:first-child td")
    assert re.fullmatch(r"dense [\d.]+ \(rank 1\) \+ graph [\d.]+ \(rank 1\)", shares)


def test_a_forced_route_is_compared_with_the_routers_choice(page: Page) -> None:
    page.ask(GRAPH, route="dense")
    assert page.text("#path") == "dense"
    assert "The router would have taken graph." in page.text("#details")
    assert page.text("#score strong") == "1.000"


def test_what_passages_say_is_text_and_nothing_else(page: Page) -> None:
    page.ask("river of markup <script>document.title = 'owned'</script>")
    assert "<script>document.title = 'owned'</script>" in page.text("#passages")
    assert page.all("#result script, #result img, #passages b, #passages i") == []
    assert page.browser.title == "Wye console"
    assert page.complaints == []


def test_without_a_router_it_says_why_and_others_answer(visit: Visit, library: Library) -> None:
    library.has_no_router = True
    page = visit(library)
    page.ask(GRAPH)
    assert "There is no router model here; train one." in page.text("#problem")
    page.ask(GRAPH, route="graph")
    assert page.all("#problem .problem") == []
    assert page.text("#path") == "graph"
    assert page.all("#score") == []


def test_a_degraded_answer_says_so(visit: Visit, library: Library) -> None:
    page = visit(library)
    library.failing = {Route.AUTO}
    page.ask(GRAPH)
    assert "auto failed (RuntimeError); dense instead" in page.text("#degraded")


def test_a_bad_filter_is_named(page: Page) -> None:
    page.filter('{"type": "like"}')
    page.ask(FUSION)
    assert "filter.type must be one of" in page.text("#problem")


def test_a_filter_holds(page: Page) -> None:
    page.filter("y>=1800")
    page.ask(FUSION)
    titles = [item.get_attribute("data-passage") for item in page.all("#passages > li")]
    assert titles == ["tower"]


def test_a_key_is_kept_in_this_tab_only(visit: Visit, library: Library, tmp_path: Path) -> None:
    secret, key = new_key("ada", [Scope.READ])
    append_key(tmp_path / "keys.txt", key)
    page = visit(library, keys_file=tmp_path / "keys.txt")
    page.ask(GRAPH)
    assert "Send an API key" in page.text("#problem")
    page.one("#problem button").click()
    assert page.focused == "key-field"
    page.press(secret, Keys.ENTER)
    page.ask(GRAPH)
    page.wait(lambda: page.all("#passages li"))
    assert page.run("return sessionStorage.getItem('wye-api-key')") == secret
    assert secret not in str(page.run("return JSON.stringify(localStorage) + document.cookie"))
    assert page.run("return document.querySelector('#key-field').value") == ""


def test_the_parts_of_the_time_are_the_whole(visit: Visit, library: Library) -> None:
    page = visit(library)
    library.seconds = dict.fromkeys(Route, 0.03)
    page.ask(FUSION)
    read = "return [...document.querySelectorAll('#timings td.number')].map((n) => n.textContent)"
    *parts, whole = [float(text.removesuffix(" ms")) for text in page.run(read)]
    assert sum(parts) == pytest.approx(whole, abs=1 + 0.06 * len(parts))
    assert "waiting" in page.text("#timings")


def test_citations_are_links_and_what_a_source_has_in_brackets_is_none(visit: Visit) -> None:
    text = "The river under the bridge flows [2] into the sea [1]."
    page = visit(Library([Passage("one", "One", text), Passage("two", "Two", "A sea [1].")]))
    page.ask("Into which sea does the river under the bridge flow?")
    links = page.all("#answer a")
    assert {link.text for link in links} <= {"1", "2"}
    assert links[0].accessible_name == "Passage 1"
    assert "[ 2 ]" in page.text("#answer")
    hash_ = page.run("return location.hash")
    links[0].click()
    assert page.focused == "passage-1"
    assert page.run("return location.hash") == hash_, "the address keeps the question"


def test_a_passage_is_short_and_plain_and_shows_the_words_asked_for(visit: Visit) -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    text = f"# Head\n\n**Rivers** of [Bosnia](http://x) and `code`.\n\n{table}"
    page = visit(Library([Passage("long", "Long", text + "A river, no riverbed. " * 80)]))
    page.ask("Which RIVER is it?")
    shown = page.text("#text-1")
    assert shown.startswith("Head\nRivers of Bosnia and code.\na · b\n1 · 2\n")
    assert {one.get_attribute("textContent") for one in page.all("#text-1 strong")} == {"river"}
    more = page.one("#passages [aria-controls=text-1]")
    before = page.one("#text-1").rect["height"]
    more.click()
    assert page.one("#text-1").rect["height"] > 2 * before
    assert (more.text, more.get_attribute("aria-expanded")) == ("less", "true")


def test_a_short_passage_has_no_more_to_it(page: Page) -> None:
    page.ask(FUSION)
    assert not any(one.is_displayed() for one in page.all("#passages [aria-controls]"))


def test_where_nothing_is_found_it_says_so_once(page: Page) -> None:
    page.filter('{"type": "eq", "key": "y", "value": -5}')
    page.ask(FUSION)
    assert "No passage passes the filter." in page.text("#result")
    assert "Written by" not in page.text("#result")
    assert page.all("#passages, #bridge, #arms li") == []


def test_a_route_that_no_score_reaches_is_told(visit: Visit, library: Library) -> None:
    library.thresholds = Thresholds(0.3, 1.0)
    page = visit(library)
    page.ask(FUSION)
    ranges = "dense up to 0.300, fusion between 0.300 and 1.000, no score reaches graph."
    assert ranges in page.text("#score")


def test_on_a_phone_the_answer_comes_into_view(page: Page) -> None:
    page.resize(390, 500)
    page.ask(FUSION)
    page.wait(
        lambda: page.run(
            "return document.getElementById('answer').getBoundingClientRect().top < 250"
        )
    )


class Silent(Library):
    """The graph knows nothing that any question names."""

    def _answer(self, question: str, route: Route, k: int, filter_: object | None) -> Reply:
        reply = super()._answer(question, route, k, filter_)
        arms = {
            name: replace(one, degraded="knows nothing") if name == "graph" else one
            for name, one in reply.arms.items()
        }
        return replace(reply, arms=arms)


def test_an_arm_with_nothing_to_say_is_told_in_its_row_and_is_no_alarm(visit: Visit) -> None:
    page = visit(Silent())
    page.ask(FUSION)
    assert page.text("#path") == "fusion"
    assert "knows nothing" in page.text("#arms")
    assert page.all("#degraded, #result .note") == []
