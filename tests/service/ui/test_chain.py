"""How the names of steps are shown: drawn, in words, and whatever they are made of."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys

from tests.service.fakes import CHAIN, Library
from wye.router.types import Candidate, ChainStep

if TYPE_CHECKING:
    from tests.service.ui.conftest import Page

Visit = Callable[..., "Page"]

QUESTION = "Into which sea does the river under the bridge flow?"
RIVER = ChainStep(
    "the river under the <b>bridge</b>",
    "the river under Neretva",
    2,
    (Candidate("Adriatic", 0.4, "neretva", 7, "It flows into the Adriatic.", put_in=True),),
    "free",
)
SCRIPT = "<script>document.title = 'owned'</script>"
HOSTILE = (
    SCRIPT,
    "\"quotes\" & 'more' `${1}`",
    "x" * 10_000,
    "من هو ملك البحر؟ \N{RIGHT-TO-LEFT OVERRIDE}abc",
    "日本語の名前",
)


def ask(page: "Page", question: str = QUESTION) -> None:
    page.run("document.querySelector('#route').value = 'steps'")
    page.ask(question)


def shown(page: "Page", kind: str) -> list[str]:
    """Texts of the nodes of one kind in the drawing."""
    nodes = page.all(f"#chain .node.{kind}")
    return [
        " ".join(line.text for line in node.find_elements("css selector", "text")) for node in nodes
    ]


def test_the_chain_is_drawn_from_the_inside_out(visit: Visit) -> None:
    library = Library()
    library.chain = (*CHAIN, RIVER)
    page = visit(library)
    ask(page)
    assert page.text("#path") == "steps"
    assert shown(page, "phrase") == [
        "the <b>bridge</b> asks for a place",
        "the river under Neretva",
    ]
    assert shown(page, "spare") == ["Stari Most 0.80, not used"]
    assert shown(page, "name") == ["Neretva 0.60, used", "Adriatic 0.40, used"]
    assert shown(page, "sentence")[0] == "The Old Bridge spans the Neretva. Stari Most"
    # From phrase to title; from phrase to sentence to name, twice; from name to the next phrase.
    assert len(page.all("#chain .edge")) == 6
    assert {mark.text for mark in page.all("#passages mark")} == {
        "The Old Bridge spans the Neretva.",
        "It flows into the Adriatic.",
    }
    assert page.complaints == []


def test_it_is_told_in_words_that_the_keyboard_opens(page: "Page") -> None:
    ask(page)
    assert page.one("#chain").accessible_name.startswith("What was searched for")
    summary = page.one("#chain-words").find_element("xpath", "../summary")
    summary.send_keys(Keys.ENTER)
    first, second = [item.text for item in page.all("#chain-words > li > ul > li")]
    assert first == "Stari Most, confidence 0.80, not used: title of Stari Most"
    assert second.startswith("Neretva, confidence 0.60, used: ")
    assert "The Old Bridge spans the Neretva." in second
    assert "asks for a place" in page.text("#chain-words > li")


def test_a_question_without_steps_says_so(visit: Visit) -> None:
    library = Library()
    library.chain = ()
    page = visit(library)
    ask(page)
    assert "fusion answered it" in page.text("#no-steps")
    assert page.all("#chain, #chain-words") == []
    page.run("document.querySelector('#route').value = 'fusion'")
    page.ask(QUESTION)
    assert page.all("#no-steps") == []


def test_a_phrase_for_which_nothing_was_found(visit: Visit) -> None:
    library = Library()
    library.chain = (replace(RIVER, candidates=()),)
    page = visit(library)
    ask(page)
    assert (shown(page, "phrase"), shown(page, "name")) == (["the river under Neretva"], [])
    assert "no name was found" in page.text("#chain-words")


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_stay_in_their_places(
    visit: Visit, width: int, scheme: str
) -> None:
    library = Library()
    library.chain = tuple(
        ChainStep(text, text, level, tuple(names), text)
        for level, text in enumerate(HOSTILE, 1)
        for names in [
            [
                Candidate(name, 0.5, "mostar", row, name * 2, put_in=row % 2 == 0)
                for row, name in enumerate(HOSTILE)
            ]
        ]
    )
    page = visit(library)
    page.resize(width, 900)
    page.prefer(scheme)
    ask(page)
    page.run("document.querySelector('#chain-words').closest('details').open = true")
    assert page.browser.title == "Wye console"
    assert page.all("#result script, #chain script, #chain-words b, #chain-words script") == []
    assert SCRIPT in page.text("#chain-words")
    assert "x" * 10_000 in page.text("#chain-words")
    assert not page.is_too_wide
    outside = page.run(
        """
        return [...document.querySelectorAll('#chain .node')].filter((node) => {
          const box = node.querySelector('rect').getBoundingClientRect();
          return [...node.querySelectorAll('text')].some((text) => {
            const own = text.getBoundingClientRect();
            // Letters are taken to be of a mean width, and x is a little wider.
            return own.left < box.left - 1 || own.right > box.right + 0.1 * box.width;
          });
        }).map((node) => node.textContent.slice(0, 80))
        """
    )
    assert outside == []
    assert len(page.all("#chain .node.sentence")) == 4 * len(HOSTILE), "each level has its own"
    assert page.complaints == []
