import errno
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.router.errors import RequestLogError
from wye.router.request_log import FEEDBACK, RETRIEVAL, RequestLog, read_texts


def test_another_process_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    logs = [RequestLog(path), RequestLog(path)]
    for number in range(10):
        logs[number % 2].write(RETRIEVAL, str(number), {"question": "\u2028 ünïcode"})
    lines = [json.loads(text) for text in read_texts(path)]
    assert [line["request_id"] for line in lines] == [str(n) for n in range(10)]
    assert (lines[0]["kind"], lines[0]["question"]) == (RETRIEVAL, "\u2028 ünïcode")
    assert path.stat().st_mode & 0o077 == 0


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match="cannot be written"):
        RequestLog(tmp_path)
    with pytest.raises(RequestLogError, match="cannot be read"):
        list(read_texts(tmp_path / "missing.jsonl"))


def test_a_rotated_log_is_read_as_it_is(tmp_path: Path) -> None:
    plain, packed = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1.gz"
    log = RequestLog(plain)
    log.write(RETRIEVAL, "1", {"question": "ü"})
    log.write(FEEDBACK, "1", {"rating": "good"})
    log.close()
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_texts(packed)) == list(read_texts(plain))


def test_what_is_no_text_is_no_log(tmp_path: Path) -> None:
    cut, latin, wrong = (tmp_path / name for name in ("cut.gz", "latin.jsonl", "wrong.gz"))
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    latin.write_bytes(b"\xff\n")
    wrong.write_bytes(b"plain")
    for path, says in ((cut, "ended before"), (latin, "is not UTF-8"), (wrong, "cannot be read")):
        with pytest.raises(RequestLogError, match=says):
            list(read_texts(path))


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("a\n\nb", encoding="utf-8")
    assert list(read_texts(path)) == ["a\n", "\n", "b"]


class Disk:
    """Takes so many bytes of each call, one after another, and everything after that."""

    def __init__(self, room: list[int]) -> None:
        self.room = room

    def write(self, descriptor: int, data: bytes) -> int:
        room = self.room.pop(0) if self.room else len(data)
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(descriptor, data[:room])

    _write = staticmethod(os.write)


def told(path: Path) -> list[str]:
    """Ids of the lines that can be read; what else there is ends with its line."""
    ids = []
    for text in read_texts(path):
        with suppress(ValueError):
            ids.append(json.loads(text)["request_id"])
    return ids


def written(logs: list[RequestLog], numbers: range) -> list[str]:
    """Ids of the lines that were written, by several processes in turn."""
    ids = []
    for n in numbers:
        with suppress(OSError):
            logs[n % len(logs)].write(RETRIEVAL, str(n), {"question": "What flows here?"})
            ids.append(str(n))
    return ids


@given(st.lists(st.integers(0, 130), max_size=12))
def test_a_disk_that_refuses_costs_the_lines_that_it_refuses(
    tmp_path_factory: pytest.TempPathFactory, room: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    logs = [RequestLog(path), RequestLog(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", Disk([*room]).write)
        ids = written(logs, range(14))
    for log in logs:
        log.close()
    logs = [RequestLog(path)]  # also where the process ended while the disk was full
    ids += written(logs, range(14, 15))
    logs[0].close()
    # A line may lack its end alone, and then the next one gives it that.
    assert [id_ for id_ in told(path) if id_ in ids] == ids
    assert len(ids) >= 15 - len(room)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with no room left; `full / "filler"` takes it."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_disk_that_is_full_and_has_room_again(full: Path) -> None:
    log = RequestLog(full / "log.jsonl")
    (full / "filler").write_bytes(b"x" * 50_000)
    ids = written([log], range(400))
    assert 0 < len(ids) < 400
    (full / "filler").unlink()
    log.write(RETRIEVAL, "after", {})
    log.close()
    assert told(full / "log.jsonl") == [*ids, "after"]


LIMITED = """
import resource, sys
from pathlib import Path
from wye.router.request_log import RETRIEVAL, RequestLog
log = RequestLog(Path(sys.argv[1]))
for limit in (150, 150, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for n in range(2):
        try:
            log.write(RETRIEVAL, str(n), {})
            print(n)
        except OSError as error:
            print(error.strerror)
"""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", LIMITED, str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[:6] == ["0", "No space left on device", *["File too large"] * 2, "0", "1"]
    assert told(path) == ["0", "0", "1"]
