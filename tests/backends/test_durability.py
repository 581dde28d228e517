"""What a version needs is synced before anybody is told that it is written."""

import os
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from backends.store.index import PASSAGES, Index
from backends.store.ingest import ingest
from backends.store.locks import files_of
from backends.types import Passage
from benchmarks.hashing import HashAnalyser

ANALYSER = HashAnalyser()
Synced = Callable[[], set[Path]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """Files and folders synced since the last call."""
    found: set[Path] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        found.add(Path(f"/proc/self/fd/{descriptor}").resolve())
        fsync(descriptor)

    def take() -> set[Path]:
        taken = set(found)
        found.clear()
        return taken

    monkeypatch.setattr(os, "fsync", note)
    return take


def needed(folder: Path) -> set[Path]:
    """All that the newest version is read from, and the folders that name it."""
    passages = (folder / PASSAGES).resolve()
    files = {path.resolve() for path in files_of(passages, lance.dataset(passages))}
    assert all(path.is_file() for path in files)
    return files | {path.parent for path in files} | {passages}


def test_every_change_is_on_the_disk(tmp_path: Path, synced: Synced) -> None:
    index = Index.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    assert needed(tmp_path) <= synced()
    ingest(index, [Passage(str(n), "", f"Anna met Bob {n}.") for n in range(3)], ANALYSER)
    assert needed(tmp_path) <= synced()
    with index.writer() as writer:
        writer.delete(["1"])
        assert needed(tmp_path) <= synced()
        writer.compact()
        assert needed(tmp_path) <= synced()


def test_a_version_cannot_be_read_without_its_files(tmp_path: Path) -> None:
    """So `files_of` names what matters, and in particular deletions."""
    index = Index.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(index, [Passage(str(n), "", "Anna met Bob.") for n in range(3)], ANALYSER)
    with index.writer() as writer:
        writer.delete(["1"])
    files = files_of(tmp_path / PASSAGES, lance.dataset(tmp_path / PASSAGES))
    assert sorted({path.parent.name for path in files}) == ["_deletions", "_versions", "data"]


def test_what_a_killed_writer_left_is_synced_by_the_next(tmp_path: Path, synced: Synced) -> None:
    index = Index.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(index, [Passage("a", "", "Anna met Bob.")], ANALYSER)
    before = needed(tmp_path)
    synced()
    ingest(index, [Passage("b", "", "Anna met Bob.")], ANALYSER)
    data = {path for path in before if path.parent.name == "data"}
    assert data
    assert data <= synced()
