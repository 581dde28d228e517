"""What a process maps and has for itself."""

import mmap
from pathlib import Path

import pytest

import wye.service.memory
from wye.service.memory import mapped_bytes, own_bytes

PAGES = 64 * mmap.PAGESIZE


def test_files_in_a_folder_that_are_mapped(tmp_path: Path) -> None:
    inside, beside = tmp_path / "a folder" / "within", tmp_path / "a folder beside"
    for folder in (inside, beside):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(PAGES))
    assert mapped_bytes(inside.parent) == 0
    with (
        (inside / "file").open("rb") as one,
        (beside / "file").open("rb") as other,
        mmap.mmap(one.fileno(), 0, access=mmap.ACCESS_READ),
        mmap.mmap(other.fileno(), 0, access=mmap.ACCESS_READ),
    ):
        assert mapped_bytes(inside.parent) == PAGES
    assert mapped_bytes(inside.parent) == 0


def test_what_is_of_no_file() -> None:
    before = own_bytes()
    taken = bytearray(b"x" * 50_000_000)
    after = own_bytes()
    assert before is not None
    assert after is not None
    assert after - before >= 0.9 * len(taken)


def test_nothing_is_told_where_the_system_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.service.memory, "_LISTED", "/nowhere")
    assert mapped_bytes(Path("/")) is None
    assert own_bytes() is None
