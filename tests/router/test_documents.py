from pathlib import Path

import pytest

from backends.errors import IndexNotFoundError
from backends.store.documents import list_documents, read_document
from backends.store.index import Index
from backends.store.ingest import ingest
from backends.types import Passage
from benchmarks.hashing import HashAnalyser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    analyser = HashAnalyser()
    index = Index.create(tmp_path / "index", analyser.dimension, analyser.fingerprint)
    chunks = [Passage(f"long#{n:04d}", "Long", f"Part {n}.", {}, "long", n) for n in range(12)]
    others = [Passage(id_, "", "Text.") for id_ in ("b", "it's", "ä")]
    ingest(index, [*reversed(chunks), *others], analyser)
    return tmp_path / "index"


def test_pages_follow_one_another(folder: Path) -> None:
    seen: list[str] = []
    after, more = "", True
    while more:
        page = list_documents(folder, after, 3)
        assert (page.total, page.version) == (4, Index.open(folder).version)
        seen += [document.id for document in page.documents]
        after, more = seen[-1], page.more
    assert seen == ["b", "it's", "long", "ä"]
    assert list_documents(folder, "ä").documents == ()


def test_a_document_has_its_chunks_in_order(folder: Path) -> None:
    found = read_document(folder, "long")
    assert found is not None
    assert [passage.chunk for passage in found.passages] == list(range(12))
    assert read_document(folder, "it's") is not None
    assert read_document(folder, "long#0001") is None
    with pytest.raises(IndexNotFoundError):
        read_document(folder / "nowhere", "b")
