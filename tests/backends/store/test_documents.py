import os
from pathlib import Path

import pytest

import wye.backends.store.derived
import wye.backends.store.index
from tests.backends.store.conftest import ANALYSER
from wye.backends.errors import IndexNotFoundError
from wye.backends.inventory import take_inventory
from wye.backends.store.corpus import read_corpus
from wye.backends.store.documents import Removal, list_documents, matching, read_document, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage


def passage(number: int) -> Passage:
    text = f"Ada met Babbage in Town{number % 3}. Nobody was seen. The Engine was built by Ada."
    return Passage(f"p{number}#1", "", text, {}, document=f"d{number // 2}", chunk=1)


@pytest.mark.parametrize("count", [0, 12])
def test_it_counts_what_reading_the_whole_corpus_counts(index: PassageStore, count: int) -> None:
    # Several commits, so several fragments.
    ingest(index, map(passage, range(count)), ANALYSER, batch_passages=4)
    with index.writer() as writer:
        writer.delete(["p3#1", "p4#1"])
    index = index.newest()
    found, corpus = take_inventory(index.path), read_corpus(index.newest())
    assert found["version"] == corpus.version
    assert found["passages"] == len(corpus) == max(count - 2, 0)
    assert found["documents"] == len({*corpus.documents}) == count // 2
    fragments = PassageStore.open(index.path).snapshot().get_fragments()
    lost = sum(fragment.metadata.num_deletions for fragment in fragments)
    counts = {"count": len(fragments), "rows": len(corpus) + lost, "deleted rows": lost}
    assert found["fragments"] == counts
    assert found["derived"] == {}


def test_it_tells_what_is_kept(index: PassageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)
    ingest(index, map(passage, range(12)), ANALYSER)
    read_corpus(index.newest())
    found = take_inventory(index.path)
    derived = found["derived"]
    files = index.newest().derived
    assert files
    size = (files.folder / "passages.arrays").stat().st_size
    assert derived == {"of version": index.newest().version, "bytes": size, "passages": size}
    remove(index.path, Removal(ids=("p1#1",)))
    assert take_inventory(index.path)["derived"] == derived


def test_it_tells_who_writes(index: PassageStore) -> None:
    assert take_inventory(index.path)["being written"] == ""
    with index.writer():
        said = str(take_inventory(index.path)["being written"])
    assert said.startswith(f"process {os.getpid()} on ")


@pytest.fixture
def folder(index: PassageStore) -> Path:
    chunks = [Passage(f"long#{n:04d}", "Long", f"Part {n}.", {}, "long", n) for n in range(12)]
    others = [Passage(id_, "", "Text.") for id_ in ("b", "it's", "ä")]
    ingest(index, [*reversed(chunks), *others], ANALYSER)
    return index.path


def test_pages_follow_one_another(folder: Path) -> None:
    seen: list[str] = []
    after, more = "", True
    while more:
        page = list_documents(folder, after, 3)
        assert (page.total, page.version) == (4, PassageStore.open(folder).version)
        seen += [document.id for document in page.documents]
        after, more = seen[-1], page.more
    assert seen == ["b", "it's", "long", "ä"]
    assert list_documents(folder, "ä").documents == ()


def test_a_prefix_lists_and_counts_only_what_begins_so(folder: Path) -> None:
    page = list_documents(folder, limit=1, prefix="lo")
    assert [document.id for document in page.documents] == ["long"]
    assert (page.more, page.total) == (False, 1)
    assert list_documents(folder, "long", prefix="lo").documents == ()
    assert list_documents(folder, prefix="ong").total == 0


def test_a_document_has_its_chunks_in_order(folder: Path) -> None:
    found = read_document(folder, "long")
    assert found is not None
    assert [passage.chunk for passage in found.passages] == list(range(12))
    assert read_document(folder, "it's") is not None
    assert read_document(folder, "long#0001") is None
    with pytest.raises(IndexNotFoundError):
        read_document(folder / "nowhere", "b")


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Removal(ids=("p1", "p9")), ["p1"]),
        (Removal(documents=("d2",)), ["p2"]),
        (Removal(filter={"type": "eq", "key": "odd", "value": True}), ["p1", "p3"]),
        (Removal(ids=("p1",), documents=("d1", "d0")), ["p0", "p1"]),
        (Removal(), []),
    ],
)
def test_a_removal_deletes_as_it_says(index: PassageStore, wanted: Removal, ids: list[str]) -> None:
    rows = [Passage(f"p{n}", "", "Text.", {"odd": n % 2 == 1}, f"d{n}") for n in range(4)]
    ingest(index, rows, ANALYSER)
    before = take_inventory(index.path)
    assert matching(index.path, wanted)[0] == ids
    assert take_inventory(index.path) == before
    assert remove(index.path, wanted)[0] == ids
    assert take_inventory(index.path)["passages"] == 4 - len(ids)
