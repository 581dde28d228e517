import errno
import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wye.backends.arrays
import wye.backends.store.derived
from wye.backends.arrays import GrowingArray, Strings, pack_strings, unpack_strings
from wye.backends.store.derived import FOLDER, PASSAGES, DerivedFiles, newest_in
from wye.backends.types import Arrays

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Weighing:
    k1: float = 0.9
    words: tuple[str, ...] = ("a", "the")


def files(index: Path, version: int = 3, **pins: str) -> DerivedFiles:
    return DerivedFiles(index / FOLDER / f"{version}-m", {"encoder": "E"} | pins)


def some_arrays(seed: int = 0) -> Arrays:
    chance = np.random.default_rng(seed)
    return {
        "vectors": chance.normal(size=(7, 3)).astype(np.float32),
        "halves": chance.normal(size=(5, 2)).astype(np.float16),
        "rows": chance.integers(0, 99, 11).astype(np.int32),
        "flags": np.array([True, False, True]),
        "nothing": np.empty((0, 4), np.int64),
        "shape": np.array([3, 4]),
    }


def same(one: Arrays | None, other: Arrays) -> bool:
    return (
        one is not None
        and one.keys() == other.keys()
        and all(
            one[name].dtype == array.dtype and np.array_equal(one[name], array)
            for name, array in other.items()
        )
    )


def file_of(index: Path) -> Path:
    (found,) = (index / FOLDER).rglob("*.arrays")
    return found


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    files(tmp_path).write("part", some_arrays())
    found = files(tmp_path).read("part")
    assert found is not None
    assert same(found, some_arrays())
    assert not any(array.flags.writeable for array in found.values())


@pytest.mark.parametrize(
    "strings",
    [
        [],
        [""],
        ["one", "", "zwölf", "\N{EARTH GLOBE EUROPE-AFRICA}"],
        Strings(pa.array(["a", "bc", "def", "g"])[1:3]),
        Strings(pa.array(["a", "bc"], pa.large_string())),
        Strings(pa.array(["a", "bc", "d"], pa.large_string())[1:]),
    ],
)
def test_strings_are_as_they_were(tmp_path: Path, strings: Strings | list[str]) -> None:
    files(tmp_path).write("part", pack_strings("names", strings))
    found = files(tmp_path).read("part")
    assert found is not None
    again = unpack_strings("names", found)
    assert [*again] == [*strings]
    again.array.validate(full=True)
    if isinstance(strings, Strings):
        assert again.array.type == strings.array.type


def test_only_files_of_the_same_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path).write("part", some_arrays(), Weighing())
    assert files(tmp_path).read("part", Weighing()) is not None
    assert files(tmp_path).read("part") is None
    assert files(tmp_path).read("part", Weighing(k1=1.2)) is None
    assert files(tmp_path).read("other", Weighing()) is None
    assert files(tmp_path, 4).read("part", Weighing()) is None
    assert files(tmp_path, encoder="F").read("part", Weighing()) is None
    monkeypatch.setattr(wye.backends.store.derived, "LAYOUT", -1)
    assert files(tmp_path).read("part", Weighing()) is None


def test_no_file_of_another_name_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files(tmp_path, 3).write("part", some_arrays())
    path = file_of(tmp_path)
    later = files(tmp_path, 4)
    later.folder.mkdir()
    path.rename(later.folder / path.name)
    assert later.read("part") is None
    assert "belongs to other data" in caplog.text


def test_a_file_that_is_cut_short_anywhere_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files(tmp_path).write("part", some_arrays())
    path = file_of(tmp_path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert files(tmp_path).read("part") is None
    assert "rebuilt" in caplog.text
    path.write_bytes(whole + b"\0")
    assert files(tmp_path).read("part") is None


@pytest.mark.parametrize("block", [16, wye.backends.arrays._BLOCK])
def test_no_changed_byte_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(wye.backends.arrays, "_BLOCK", block)
    monkeypatch.setattr(wye.backends.arrays, "_ROOM", 2 * block)
    files(tmp_path).write("part", some_arrays())
    path = file_of(tmp_path)
    whole = path.read_bytes()
    refused = 0
    for place in random.Random(7).sample(range(len(whole)), 400):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        found = files(tmp_path).read("part")
        refused += found is None
        assert found is None or same(found, some_arrays())  # between two arrays is nothing
    assert refused > 200


@pytest.mark.parametrize("content", [None, b"", random.Random(1).randbytes(5_000)])
def test_what_is_no_such_file_is_not_read(tmp_path: Path, content: bytes | None) -> None:
    files(tmp_path).write("part", some_arrays())
    path = file_of(tmp_path)
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    assert files(tmp_path).read("part") is None


def test_where_nothing_can_be_written_nothing_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    with caplog.at_level(logging.INFO):
        files(tmp_path).write("part", some_arrays())
    assert "could not be saved" in caplog.text
    assert files(tmp_path).read("part") is None
    (tmp_path / FOLDER).unlink()
    DerivedFiles(tmp_path / FOLDER / "1-m", {}, is_persistent=False).write("part", some_arrays())
    assert not (tmp_path / FOLDER).exists(), "it is not worth it"


def test_what_is_derived_last_replaces_all_but_what_is_being_written(tmp_path: Path) -> None:
    assert newest_in(tmp_path) is None
    files(tmp_path, 11).write("part", some_arrays())
    for version in (8, 9, 10, 9):
        files(tmp_path, version).write(PASSAGES, some_arrays(version))
        assert newest_in(tmp_path) == files(tmp_path, version).folder
    assert same(files(tmp_path, 9).read(PASSAGES), some_arrays(9))
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == ["11-m", "9-m"]


def in_a_process(index: Path, code: str) -> "subprocess.Popen[str]":
    head = """
    import os, signal, sys
    from pathlib import Path
    from tests.backends.store.test_derived import files, same, some_arrays
    index = Path(sys.argv[1])
    """
    script = textwrap.dedent(head) + textwrap.dedent(code)
    command = [sys.executable, "-c", script, str(index)]
    return subprocess.Popen(command, cwd=ROOT, text=True)


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_writer_that_is_killed_leaves_nothing_that_is_read(tmp_path: Path, moment: str) -> None:
    die = "os.kill(os.getpid(), signal.SIGKILL)"
    patch = {"fsync": "os.fsync", "replace": "Path.replace"}[moment]
    killed = in_a_process(
        tmp_path, f"{patch} = lambda *_: {die}\nfiles(index).write('part', some_arrays())"
    )
    assert killed.wait() == -signal.SIGKILL
    assert [*files(tmp_path).folder.iterdir()]
    assert files(tmp_path).read("part") is None
    files(tmp_path).write("part", some_arrays())
    assert same(files(tmp_path).read("part"), some_arrays())
    assert [path.name for path in files(tmp_path).folder.iterdir()] == ["part.arrays"]


def test_processes_that_write_at_once_do_not_disturb_readers(tmp_path: Path) -> None:
    write = "for _ in range(40): files(index).write('part', some_arrays())"
    writers = [in_a_process(tmp_path, write) for _ in range(2)]
    found = []
    while any(writer.poll() is None for writer in writers):
        found.append(files(tmp_path).read("part"))
    assert [writer.returncode for writer in writers] == [0, 0]
    assert all(one is None or same(one, some_arrays()) for one in found)
    assert same(files(tmp_path).read("part"), some_arrays())


@pytest.mark.parametrize("room", [0, 5, 8, 20])
def test_where_the_disk_is_full_rows_are_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    class FullDisk(FileIO):
        def write(self, data: Any, /) -> int:  # noqa: ANN401
            if self.tell() >= room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data[: room - self.tell()])

    def full(dir: Path, buffering: int) -> FileIO:  # noqa: A002
        return FullDisk(dir / "file", "w+")

    def rows(folder: Path | None) -> list[int]:
        whole = GrowingArray(folder, np.int32)
        for part in ([1], [2, 3], [], [4]):
            whole.extend(np.array(part))
        return [*map(int, whole.read())]

    monkeypatch.setattr(wye.backends.arrays, "TemporaryFile", full)
    assert DerivedFiles(tmp_path / FOLDER / "1-m", {}).with_room(rows) == [1, 2, 3, 4]
