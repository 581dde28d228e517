"""How the names of steps are told, whatever they are made of."""

from dataclasses import replace

import pytest

from tests.service.fakes import CHAIN, LIBRARY, Library
from tests.service.ui.conftest import GRAPH, Page, Visit
from wye.router.types import Candidate, ChainStep

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


def steps(visit: Visit, *chain: ChainStep) -> Page:
    """The page once it has the answer to a question that such steps were taken for."""
    library = Library()
    library.chain = chain
    page = visit(library)
    page.ask(GRAPH, route="steps")
    page.unfold()
    return page


def test_the_path_goes_on_to_the_passage_that_a_name_led_to(visit: Visit) -> None:
    title = next(each.title for each in LIBRARY if each.id == "neretva")
    name = Candidate(title.upper(), 0.9, "tower", 7, "It spans a <i>river</i>.")
    page = steps(visit, replace(RIVER, candidates=(name,)))
    assert f"question → {name.sentence} (Tower Bridge) → {name.name}" in page.text("#bridge")


def test_the_chain_is_told_from_the_inside_out(visit: Visit) -> None:
    page = steps(visit, *CHAIN, RIVER)
    assert page.text("#path") == "steps"
    phrases = [one.text for one in page.all("#chain > li > q")]
    assert phrases == ["the <b>bridge</b>", "the river under Neretva"]
    assert "asks for a place" in page.text("#chain > li")
    names = [item.text for item in page.all("#chain > li > ul > li")]
    assert names[0] == "Stari Most, confidence 0.80, not used: title of Stari Most"
    assert names[1].startswith("Neretva, confidence 0.60, used: ")
    assert "The Old Bridge spans the Neretva." in names[1]
    assert names[2].startswith("Adriatic, confidence 0.40, used: ")
    assert {mark.text for mark in page.all("#passages mark")} == {
        "The Old Bridge spans the Neretva.",
        "It flows into the Adriatic.",
    }
    assert page.complaints == []


def test_a_question_without_steps_says_so(visit: Visit) -> None:
    page = steps(visit)
    assert "fusion answered it" in page.text("#no-steps")
    assert page.all("#chain") == []
    page.ask(GRAPH, route="fusion")
    assert page.all("#no-steps") == []


def test_a_phrase_for_which_nothing_was_found(visit: Visit) -> None:
    page = steps(visit, replace(RIVER, candidates=()))
    assert page.text("#chain") == "the river under Neretva: no name was found"


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_fit(visit: Visit, width: int, scheme: str) -> None:
    names = tuple(
        Candidate(name, 0.5, "mostar", row, name * 2, put_in=row % 2 == 0)
        for row, name in enumerate(HOSTILE)
    )
    page = steps(visit, *(ChainStep(x, x, level, names, x) for level, x in enumerate(HOSTILE, 1)))
    page.resize(width, 900)
    page.prefer(scheme)
    assert page.browser.title == "Wye console"
    assert page.all("#result script, #chain script, #chain b") == []
    assert SCRIPT in page.text("#chain")
    assert "x" * 10_000 in page.text("#chain")
    assert not page.is_too_wide
    assert len(page.all("#chain > li > ul > li")) == len(HOSTILE) ** 2
    assert page.complaints == []
