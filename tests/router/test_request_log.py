import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.router.errors import RequestLogError
from wye.router.request_log import RETRIEVAL, RequestLog


def test_another_process_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "log.jsonl"
    logs = [RequestLog(path), RequestLog(path)]
    for number in range(10):
        logs[number % 2].write(RETRIEVAL, str(number), {"question": "\u2028 ünïcode"})
    lines = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    assert [line["request_id"] for line in lines] == [str(n) for n in range(10)]
    assert (lines[0]["kind"], lines[0]["question"]) == (RETRIEVAL, "\u2028 ünïcode")
    assert path.stat().st_mode & 0o077 == 0


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RequestLogError, match="cannot be written"):
        RequestLog(tmp_path)


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
    for text in path.read_text("utf-8").splitlines():
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
