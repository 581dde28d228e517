"""A browser, and servers on real sockets for it to look at."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.live import listening
from tests.service.fakes import LIBRARY, Library
from wye.backends.types import Passage
from wye.service.app import build
from wye.service.settings import ServeSettings, ServiceSettings

PATIENCE = 30
GRAPH = "Into which sea does the river under the bridge flow?"
FUSION = "Which river does the bridge cross?"
SCRIPT = "<script>document.title = 'owned'</script>"
HOSTILE = Passage(
    "<b>hostile</b>",
    f"River {SCRIPT}",
    f"{SCRIPT} <img src=x onerror=\"document.title='owned'\"> a river of markup",
    {"<i>y</i>": 1900, "note": SCRIPT},
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


class Page:
    """The console in a browser, as somebody would use it."""

    def __init__(self, browser: webdriver.Chrome, address: str) -> None:
        self.browser = browser
        self.address = address
        self.resize(1280, 900)
        self.prefer("light")
        browser.get(address)
        browser.execute_script("localStorage.clear(); sessionStorage.clear()")
        _ = self.complaints  # what other tests left there
        self.open()

    def open(self, place: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(self.address + place)
        self.wait(lambda: "ready" in self.text("#status"))

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def wait(self, condition: Callable[[], object]) -> None:
        WebDriverWait(self.browser, PATIENCE, 0.05).until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(
            self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        )

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        return self.browser.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def unfold(self) -> None:
        self.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    def ask(self, question: str, route: str = "") -> None:
        if route:
            self.run("document.querySelector('#route').value = arguments[0]", route)
        field = self.one("#question")
        field.clear()
        field.send_keys(question, Keys.ENTER)
        self.settle()

    def filter(self, text: str) -> None:
        self.run("document.querySelector('.filter').open = true")
        self.one("#filter").send_keys(text)

    def compare(self, question: str) -> None:
        self.one("#question").send_keys(question)
        self.click("#compare")
        self.wait(lambda: "First by" in self.text("#verdict"))

    def click(self, selector: str) -> None:
        self.wait(lambda: self.all(selector))
        self.run(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})",
            self.one(selector),
        )
        self.one(selector).click()

    def settle(self) -> None:
        ended = "#result[aria-busy='false'] #answer, #problem .problem"
        self.wait(lambda: self.all(ended))

    @property
    def focused(self) -> str:
        return str(self.run("return document.activeElement.id"))

    @property
    def is_too_wide(self) -> bool:
        root = "document.documentElement"
        return bool(self.run(f"return {root}.scrollWidth > {root}.clientWidth"))

    @property
    def background(self) -> str:
        return str(self.run("return getComputedStyle(document.body).backgroundColor"))

    @property
    def complaints(self) -> list[str]:
        """What the browser's own console says, broken content security policy too."""
        lines: list[dict[str, str]] = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in lines]


Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium: webdriver.Chrome, tmp_path: Path) -> Iterator[Visit]:
    """Opens the console of a server: `visit(library, beside={...}, request_log=...)`.

    `parts` are other settings than those of serving, such as `documents`.
    """
    with ExitStack() as stack:

        def start(
            library: Library,
            beside: Mapping[str, Library] | None = None,
            parts: Mapping[str, Any] | None = None,
            **options: Any,  # noqa: ANN401
        ) -> Page:
            settings = ServiceSettings(serve=replace(ServeSettings(), **options), **(parts or {}))
            engines = {"demo": library, **(beside or {})}
            for name, engine in engines.items():
                if not engine.folder.exists():
                    engine.store_in(tmp_path / f"index-{name}")
            app = build(settings, {name: lambda e=e: e for name, e in engines.items()})  # type: ignore[misc]
            return Page(chromium, stack.enter_context(listening(app)))

        yield start
        chromium.get("about:blank")


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit(Library((*LIBRARY, HOSTILE)))
