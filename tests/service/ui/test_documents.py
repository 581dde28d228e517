"""The view of documents, over a real index."""

from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.service.fakes import Library, Shelf, stored
from tests.service.ui.conftest import Page, Visit
from wye.backends.sources import SUFFIXES
from wye.backends.types import Passage
from wye.service.http.edge import Scope
from wye.service.http.keys import append_key, new_key
from wye.service.settings import DocumentSettings


def shown(page: Page) -> list[str]:
    read = "return [...document.querySelectorAll('[data-document]')].map((r) => r.dataset.document)"
    return [str(id_) for id_ in page.run(read)]


def open_documents(page: Page) -> None:
    page.click("#tab-documents")
    page.wait(lambda: "shown" in page.text("#documents-count") and page.text("#endings"))


def send(page: Page, *files: Path) -> None:
    page.one("#files").send_keys("\n".join(map(str, files)))


def test_documents_are_listed_by_page_and_by_prefix(visit: Visit) -> None:
    many = [Passage(f"d{n:03}", f"<b>{n}</b>", "Text.") for n in range(60)]
    page = visit(Library([*many, Passage("other", "Other", "Text.")]))
    open_documents(page)
    assert page.text("#documents-count") == "61 documents in demo, version 2; 50 shown."
    assert (len(shown(page)), page.text("#documents-list .title")) == (50, "<b>0</b>")
    page.click("#documents-more")
    page.wait(lambda: len(shown(page)) == 61)
    assert not page.one("#documents-more").is_displayed()
    page.one("#prefix").send_keys("o")
    page.wait(lambda: shown(page) == ["other"])
    assert "1 document whose ids begin with “o”" in page.text("#documents-count")
    assert page.complaints == []


def test_files_are_added_and_found_and_deleted_only_when_confirmed(
    visit: Visit, shelf: Shelf, tmp_path: Path
) -> None:
    page = visit(shelf, refresh_seconds=0.05)
    open_documents(page)
    assert page.one("#files").get_attribute("accept") == ",".join(SUFFIXES)
    note = tmp_path / "iron bridge.md"
    note.write_text("# Iron Bridge\n\nThe Iron Bridge crosses the Severn.")
    send(page, note)
    page.wait(lambda: "iron bridge.md" in shown(page))
    assert "iron bridge.mdstored: 1 added (passages)" in page.text("#jobs")
    page.click("[data-document='iron bridge.md'] button")
    assert page.run("return document.activeElement.value") == "keep"
    assert "This cannot be undone." in page.text("#delete-text")
    page.press(Keys.ESCAPE)
    page.click("[data-document='iron bridge.md'] button")
    page.click("#delete button[value=keep]")
    assert "iron bridge.md" in shown(page)
    page.click("[data-document='iron bridge.md'] button")
    page.click("#delete button[value=delete]")
    page.wait(lambda: "iron bridge.md" not in shown(page))
    assert "Deleted iron bridge.md: 1 passage," in page.text("#documents-said")
    assert page.complaints == []


def test_files_can_be_dropped(visit: Visit, shelf: Shelf) -> None:
    page = visit(shelf, refresh_seconds=0.05)
    open_documents(page)
    page.run(
        "const data = new DataTransfer();"
        "data.items.add(new File(['The Severn is a river.'], 'severn.txt'));"
        "document.getElementById('drop').dispatchEvent("
        "new DragEvent('drop', {dataTransfer: data, cancelable: true}));"
    )
    page.wait(lambda: "severn.txt" in shown(page))


def test_each_file_says_what_became_of_it(visit: Visit, tmp_path: Path, shelf: Shelf) -> None:
    page = visit(
        shelf, refresh_seconds=0.05, parts={"documents": DocumentSettings(direct_passages=1)}
    )
    open_documents(page)
    files = [tmp_path / name for name in ("note.txt", "song.mp3", "rooms.csv")]
    files[0].write_text("This is a note.")
    files[1].write_text("la")
    files[2].write_text("text\nOne room.\nAnother room.\n")
    send(page, *files)
    page.wait(lambda: "done: 2 of 2 passages" in page.text("#jobs"))
    note, song, rooms = (line.text for line in page.all("#jobs .line"))
    assert "stored: 1 added (passages)" in note
    assert "'song.mp3' has an unsupported type; send .txt" in song
    assert rooms.startswith("rooms.csv")
    assert page.text("#documents-said") == "2 files sent, 1 refused."
    page.wait(lambda: "note.txt" in shown(page) and "rooms.csv:2" in shown(page))
    assert not any(one.is_displayed() for one in page.all("#jobs button, #jobs progress"))


def test_a_key_that_may_only_read_cannot_delete_and_is_told(visit: Visit, tmp_path: Path) -> None:
    secret, key = new_key("ada", [Scope.READ])
    append_key(tmp_path / "keys.txt", key)
    page = visit(Shelf(stored(tmp_path / "shelf")), keys_file=tmp_path / "keys.txt")
    page.click("#tab-documents")
    page.wait(lambda: page.all("#documents-problem button"))
    page.click("#documents-problem button")
    page.press(secret, Keys.ENTER)
    page.wait(lambda: shown(page) == ["mostar", "neretva", "tower"])
    page.click("[data-document=tower] button")
    page.click("#delete button[value=delete]")
    page.wait(lambda: "write" in page.text("#documents-problem"))
    assert shown(page) == ["mostar", "neretva", "tower"]


def test_each_collection_has_its_own_documents(visit: Visit) -> None:
    page = visit(Library(), beside={"other": Library([Passage("only", "Only", "Text.")])})
    open_documents(page)
    page.run(
        "const select = document.getElementById('documents-collection');"
        "select.value = 'other'; select.dispatchEvent(new Event('change'));"
    )
    page.wait(lambda: shown(page) == ["only"])
    page.click("#tab-ask")
    page.wait(
        lambda: [chip.text for chip in page.all("#examples button")] == ["Who or what is Only?"]
    )
