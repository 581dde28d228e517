"""One writer at a time, and a refusal that says who writes."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pytest

from tests.backends.store.conftest import ANALYSER
from wye.backends.errors import IndexLockedError
from wye.backends.files import NOTE, writer_lock, writing
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.versions import PASSAGES, RECORD, manifest_name, read_record, sizes_of
from wye.backends.types import Passage

HOLDER = """
import sys, time
from pathlib import Path
from wye.backends.files import writer_lock
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


def test_a_lock_of_a_killed_process_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert writing(tmp_path).startswith(f"process {holder.pid} on ")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "writer.json").exists()
    assert not writing(tmp_path)
    assert not writing(tmp_path / "none")
    with writer_lock(tmp_path):
        assert json.loads((tmp_path / "writer.json").read_text())["pid"] != holder.pid
    assert not (tmp_path / "writer.json").exists()


def test_a_note_that_cannot_be_deleted_keeps_no_lock(
    index: PassageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with writer_lock(index.path):
            pass
    with writer_lock(index.path):
        pass
    assert not (index.path / NOTE).exists()


def test_a_second_writer_in_the_same_process_is_refused(index: PassageStore) -> None:
    with index.writer(), pytest.raises(IndexLockedError, match="Wait until"), index.writer():
        pass
    with pytest.raises(RuntimeError), index.writer():
        raise RuntimeError
    with index.writer():
        pass


@pytest.mark.parametrize("note", ["", "[]", "{}", "null"])
def test_a_holder_that_has_not_signed_is_still_refused(tmp_path: Path, note: str) -> None:
    with writer_lock(tmp_path):
        (tmp_path / "writer.json").write_text(note)
        with pytest.raises(IndexLockedError, match="another process"), writer_lock(tmp_path):
            pass


Synced = Callable[[], set[Path]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
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


def needed(index: PassageStore) -> set[Path]:
    """All that the newest version is read from, and the folders that name it."""
    passages = (index.path / PASSAGES).resolve()
    dataset = lance.dataset(passages)
    names = (*sizes_of(dataset), manifest_name(dataset.version))
    files = {(passages / name).resolve() for name in names}
    assert all(path.is_file() for path in files)
    return files | {path.parent for path in files} | {passages}


def store(index: PassageStore, *ids: str) -> None:
    ingest(index, [Passage(id_, "", f"Anna met Bob {id_}.") for id_ in ids], ANALYSER)


def test_every_change_is_on_the_disk(synced: Synced, index: PassageStore) -> None:
    assert needed(index) <= synced()
    store(index, "a", "b", "c")
    assert needed(index) <= synced()
    with index.writer() as writer:
        writer.delete(["b"])
        assert needed(index) <= synced()
        # What matters is named, and in particular deletions.
        folders = {path.parent.name for path in needed(index)}
        assert folders >= {"_deletions", "_versions", "data"}
        writer.compact()
        assert needed(index) <= synced()


def test_data_manifest_and_record_reach_the_disk_in_that_order(
    index: PassageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is synced before the next, which names it, exists."""
    passages = (index.path / PASSAGES).resolve()
    store(index, "a")
    former = lance.dataset(passages)
    manifest = passages / manifest_name(former.version + 1)
    synced: dict[Path, list[tuple[bool, bool]]] = defaultdict(list)
    fsync = os.fsync

    def note(descriptor: int) -> None:
        is_recorded = read_record(index.path).version > former.version
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        synced[path].append((manifest.exists(), is_recorded))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    store(index, "b")
    (data,) = sizes_of(lance.dataset(passages, former.version + 1)).keys() - sizes_of(former)
    assert synced[passages / data][0] == synced[passages / "data"][0] == (False, False)
    assert synced[manifest][0] == (True, False)
    assert (True, False) in synced[manifest.parent]


def test_what_a_killed_writer_left_the_next_syncs(index: PassageStore, synced: Synced) -> None:
    written_down = index.path / PASSAGES / RECORD
    before = written_down.read_bytes()
    store(index, "a")
    written_down.write_bytes(before)  # as if it had been killed
    data = {path for path in needed(index) if path.parent.name == "data"}
    assert data
    synced()
    store(index, "b")
    assert data <= synced()
