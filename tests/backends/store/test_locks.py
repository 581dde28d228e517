"""One writer at a time, and a refusal that says who writes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pytest

from backends.errors import IndexLockedError
from backends.store.index import PASSAGES, PassageStore
from backends.store.ingest import ingest
from backends.store.locks import files_of, writer_lock
from backends.types import Passage
from benchmarks.hashing import HashAnalyser

HOLDER = """
import sys, time
from pathlib import Path
from backends.store.locks import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_who_holds_it(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with (
        pytest.raises(IndexLockedError, match=rf"process {holder.pid} on .* since 20.*: -c"),
        writer_lock(tmp_path),
    ):
        pass


def test_the_lock_of_a_killed_process_does_not_block(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "writer.json").exists()
    with writer_lock(tmp_path):
        assert json.loads((tmp_path / "writer.json").read_text())["pid"] != holder.pid
    assert not (tmp_path / "writer.json").exists()


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    index = PassageStore.create(tmp_path, 8, {})
    with index.writer(), pytest.raises(IndexLockedError, match="Wait until"), index.writer():
        pass
    with index.writer():
        pass


@pytest.mark.parametrize("note", ["", "[]", "{}", "null"])
def test_a_holder_that_has_not_signed_is_still_refused(tmp_path: Path, note: str) -> None:
    with writer_lock(tmp_path):
        (tmp_path / "writer.json").write_text(note)
        with pytest.raises(IndexLockedError, match="another process"), writer_lock(tmp_path):
            pass


def test_an_error_inside_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writer_lock(tmp_path):
        raise RuntimeError
    with writer_lock(tmp_path):
        pass


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
    index = PassageStore.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
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
    index = PassageStore.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(index, [Passage(str(n), "", "Anna met Bob.") for n in range(3)], ANALYSER)
    with index.writer() as writer:
        writer.delete(["1"])
    files = files_of(tmp_path / PASSAGES, lance.dataset(tmp_path / PASSAGES))
    assert sorted({path.parent.name for path in files}) == ["_deletions", "_versions", "data"]


def test_what_a_killed_writer_left_is_synced_by_the_next(tmp_path: Path, synced: Synced) -> None:
    index = PassageStore.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(index, [Passage("a", "", "Anna met Bob.")], ANALYSER)
    before = needed(tmp_path)
    synced()
    ingest(index, [Passage("b", "", "Anna met Bob.")], ANALYSER)
    data = {path for path in before if path.parent.name == "data"}
    assert data
    assert data <= synced()
