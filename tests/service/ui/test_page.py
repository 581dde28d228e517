"""What both views share: keys, themes, narrow screens."""

from selenium.webdriver.common.keys import Keys

from tests.service.ui.conftest import GRAPH, Page


def test_all_of_it_can_be_reached_with_the_keyboard(page: Page) -> None:
    page.run("document.querySelector('#tab-ask').focus()")
    page.press(Keys.ARROW_RIGHT)
    assert page.focused == "tab-documents"
    assert page.one("#tab-documents").get_attribute("aria-selected") == "true"
    page.press("/")
    assert (page.focused, page.one("#view-ask").is_displayed()) == ("question", True)
    page.press("what / is it?")
    assert page.run("return document.activeElement.value") == "what / is it?"
    page.run("document.querySelector('#tab-ask').focus()")
    page.press(Keys.END)
    assert page.one("#view-documents").is_displayed()
    page.press(Keys.HOME)
    assert page.one("#view-ask").is_displayed()
    page.ask(GRAPH)
    page.one("#details > summary").send_keys(Keys.ENTER)
    assert page.one("#timings").is_displayed()


def test_focus_can_be_seen(page: Page) -> None:
    page.press(Keys.TAB)
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert (page.focused, page.run(style)) == ("", "solid")


def test_it_follows_the_systems_theme_until_one_is_chosen(page: Page) -> None:
    light = page.background
    page.prefer("dark")
    dark = page.background
    assert light != dark
    page.one("#theme").click()
    assert page.background == light
    page.open()
    assert (page.background, page.one("#theme").accessible_name) == (light, "Theme: light")
    page.one("#theme").click()
    page.prefer("light")
    assert page.background == dark
