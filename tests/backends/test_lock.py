"""One writer at a time, and a refusal that says who writes."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import IndexLockedError
from backends.store.index import Index
from backends.store.locks import writer_lock

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
    index = Index.create(tmp_path, 8, {})
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
