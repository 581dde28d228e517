"""Files in a process with limits: what it may take, and that it ends with whoever asked."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import children, is_running, until
from wye.backends.readers.drafts import DEFAULT, BadFileError, Draft, Limits
from wye.backends.readers.extract import READERS, write
from wye.backends.readers.sandbox import Sandbox

PROGRAM = """
import sys
from wye.backends.readers.drafts import Limits
from wye.backends.readers.sandbox import Sandbox
sandbox = Sandbox(Limits())
sandbox._start()
print(sandbox._process.pid, flush=True)
sandbox.read(open(sys.argv[1], "rb"), ".csv")
"""


def read(sandbox: Sandbox, path: Path, suffix: str) -> Iterator[Draft]:
    with path.open("rb") as file:
        return sandbox.read(file, suffix)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(seconds=2, characters=50_000, unpacked_bytes=1 << 20)) as made:
        yield made


def test_one_process_reads_one_file_after_another_and_runs_none_of_them(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("csv", "lxml", "typing"):
        Path(tmp_path, f"{module}.py").write_text("raise ImportError('a file of the user')")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x"
    for _ in range(2):
        for suffix in (".md", ".html", ".csv"):
            path.write_text("text\n\nSome words.\n", encoding="utf-8")
            [result] = read(sandbox, path, suffix)
            assert "Some words." in result.blocks[-1][1]
            assert set(READERS) > {suffix}
    path.write_text("\udcff", "utf-8", "surrogateescape")
    with pytest.raises(BadFileError, match="is not UTF-8"):
        read(sandbox, path, ".md")


def test_no_line_of_what_is_found_takes_long_to_parse(tmp_path: Path) -> None:
    page = b"<h1>a</h1><p>b</p>" * 10_000
    source, target = io.BytesIO(page), io.BytesIO()
    for result in READERS[".html"][0](source, Limits(), DEFAULT):
        write(target, result)
    assert max(map(len, target.getvalue().splitlines())) < 100_000
    path = tmp_path / "x"
    path.write_bytes(page)
    with Sandbox(Limits()) as sandbox:
        [whole] = read(sandbox, path, ".html")
    assert [*map(tuple, whole.blocks)] == [(1, "a"), (0, "b")] * 10_000


@pytest.mark.parametrize(
    ("suffix", "text", "said"),
    [
        (".md", "[a](b" * 100_000, "within 2 s|takes more memory"),
        (".html", "<div>" * 1_000_000, "nested too deeply"),
        (".csv", "text\n" + "x\ny\n" * 200_000, "or has too much content"),
        (".csv", "text\n" + "x" * 60_000, "field larger than field limit"),
        (".md", "word " * 20_000, "more than 50,000 characters"),
    ],
    ids=["time", "depth", "output", "field", "characters"],
)
def test_what_takes_too_much_is_given_up_and_the_next_is_read(
    sandbox: Sandbox, tmp_path: Path, suffix: str, text: str, said: str
) -> None:
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=said):
        list(read(sandbox, path, suffix))
    path.write_text("text\nfine\n", encoding="utf-8")
    assert list(read(sandbox, path, ".csv"))


def test_closing_ends_what_another_thread_waits_for(tmp_path: Path) -> None:
    sandbox = Sandbox(Limits(seconds=60))
    path = tmp_path / "x"
    path.write_text("[a](b" * 200_000, encoding="utf-8")
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            read(sandbox, path, ".md")
        except (BadFileError, OSError) as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while sandbox._process is None:
        time.sleep(0.01)
    group = sandbox._process.pid
    time.sleep(0.5)
    sandbox.close()
    waiting.join(5)
    assert not waiting.is_alive()
    assert failed
    assert until(lambda: not _lives(group))


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_readers_end_with_whoever_asked_even_if_that_is_killed(tmp_path: Path) -> None:
    # A pipe that nobody writes to is a file that takes for ever to read.
    os.mkfifo(tmp_path / "slow.csv")
    writer = os.open(tmp_path / "slow.csv", os.O_RDWR)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "slow.csv"],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        reader = int(process.stdout.readline())
        (child,) = until(lambda: children(reader))
        process.send_signal(signal.SIGKILL)
    until(lambda: not is_running(reader) and not is_running(child))
    os.close(writer)
