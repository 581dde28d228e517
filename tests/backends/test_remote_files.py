"""Files by address: listed, fetched, and gone again; the same documents as from a folder."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from wye.backends.errors import SourceError
from wye.backends.remote_files import list_files, local_path
from wye.backends.sources import BadLine, DocumentSource
from wye.backends.types import Passage

FILES = {
    "a.jsonl": '{"_id": "a", "text": "Anna met Bob."}\nnonsense\n',
    "deep/b.md": "# Mostar\n\nThe Old Bridge spans the Neretva.",
    "deep/.hidden/c.txt": "Nobody reads this.",
    "picture.png": "",
}


@pytest.fixture
def store() -> Iterator[str]:
    memory = fsspec.filesystem("memory")
    for name, content in FILES.items():
        memory.pipe(f"/corpus/{name}", content.encode())
    yield "fsspec+memory:///corpus"
    memory.rm("/corpus", recursive=True)


def read(source: str | Path) -> tuple[list[Passage], list[BadLine], DocumentSource]:
    bad: list[BadLine] = []
    found = DocumentSource(source)
    return list(found.passages(on_bad=bad.append)), bad, found


def undated(passages: list[Passage]) -> list[Passage]:
    """Whatever the day on which a file was changed."""
    return [replace(p, metadata={**p.metadata, "modified": ""}) for p in passages]


def test_they_are_the_documents_of_the_same_folder(store: str, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    there, bad, found = read(store)
    here, bad_here, _ = read(tmp_path)
    assert undated(there) == undated(here)
    assert [passage.id for passage in there] == ["a", "deep/b.md"]
    assert [(each.line, each.reason) for each in bad] == [(2, bad_here[0].reason)]
    assert bad[0].file == "/corpus/a.jsonl"
    assert found.left_out == {".png": 1}
    assert read(tmp_path.as_uri())[0] == here
    assert read(f"{store}/a.jsonl")[0] == there[:1]
    assert not [*Path(tempfile.gettempdir()).glob("wye-source-*")]


def test_of_a_folder_in_the_layout_of_beir_the_corpus_is_read(store: str) -> None:
    line = b'{"_id": "q", "text": "Quinn met Rob."}'
    fsspec.filesystem("memory").pipe("/corpus/corpus.jsonl", line)
    passages, _, found = read(store)
    assert ([passage.id for passage in passages], found.files) == (["q"], 1)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("fsspec+memory:///nowhere", "cannot be read"),
        ("gopher://somewhere/corpus", "Unrecognized filesystem"),
        ("fsspec+memory:///corpus/picture.png", "has an unsupported type"),
    ],
)
def test_what_cannot_be_read(store: str, address: str, message: str) -> None:
    assert list_files(store)[0]
    with pytest.raises(SourceError, match=message):
        DocumentSource(address)


def test_paths_are_no_addresses(tmp_path: Path) -> None:
    assert local_path("a/b") == Path("a/b")
    assert local_path((tmp_path / "a b").as_uri()) == tmp_path / "a b"
    assert local_path("s3://bucket/folder") is None
