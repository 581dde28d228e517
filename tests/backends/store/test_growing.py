import errno
import os
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.store import growing
from wye.backends.store.derived import pack_strings
from wye.backends.store.growing import GrowingArray, GrowingStrings, laid
from wye.backends.strings import Strings


@pytest.fixture(params=[True, False], ids=["on the disk", "in memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param else None


@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 2], [70_000]])
def test_rows_are_read_as_they_were_written(folder: Path | None, lengths: list[int]) -> None:
    whole = GrowingArray(folder, np.float32, (2,))
    every = np.arange(2 * sum(lengths), dtype=np.float16).reshape(-1, 2)
    for rows in np.split(every, np.cumsum(lengths))[: len(lengths)]:
        whole.extend(rows)
    found = whole.read()
    assert found.dtype == np.float32
    assert np.array_equal(found, every.astype(np.float32))
    assert not found.flags.writeable


def test_files_have_no_name(tmp_path: Path) -> None:
    whole = GrowingArray(tmp_path, np.int32)
    whole.extend(np.arange(3))
    assert whole.read().tolist() == [0, 1, 2]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("room", [0, 5, 8, 20])
def test_where_the_disk_is_full_rows_go_on_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    class FullDisk(FileIO):
        def write(self, data: Any, /) -> int:  # noqa: ANN401
            if self.tell() >= room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data[: room - self.tell()])

    def full(dir: Path, buffering: int) -> FileIO:  # noqa: A002
        return FullDisk(dir / "file", "w+")

    monkeypatch.setattr(growing, "TemporaryFile", full)
    whole = GrowingArray(tmp_path, np.int32)
    for rows in ([1], [2, 3], [], [4]):
        whole.extend(np.array(rows))
    assert whole.read().tolist() == [1, 2, 3, 4]


@given(blocks=st.lists(st.lists(st.text(max_size=4))), is_long=st.booleans())
def test_strings_are_packed_as_all_at_once(blocks: list[list[str]], is_long: bool) -> None:
    whole = GrowingStrings(None, is_long=is_long)
    for block in blocks:
        whole.extend(pa.array(["before", *block], pa.string())[1:])
    kind = pa.large_string() if is_long else pa.string()
    expected = pack_strings("s", Strings(pa.array([s for block in blocks for s in block], kind)))
    found = whole.read("s")
    assert {name: array.dtype for name, array in found.items()} == {
        name: array.dtype for name, array in expected.items()
    }
    for name, array in expected.items():
        assert found[name].tolist() == array.tolist()


def test_longer_strings_than_32_bits_count_are_counted_with_64(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "_SHORT", 5)
    whole = GrowingStrings(folder)
    whole.extend(pa.array(["abc", "def"]))
    found = whole.read("s")
    assert found["s.starts"].dtype == np.int64
    assert found["s.starts"].tolist() == [0, 3, 6]
    assert found["s.text"].tobytes() == b"abcdef"


def test_an_array_is_laid_down(folder: Path | None) -> None:
    array = np.arange(6, dtype=np.uint8).reshape(3, 2)
    found = laid(array, folder)
    assert np.array_equal(found, array)
    assert (found is array) == (folder is None)
