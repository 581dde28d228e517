"""Readers as processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.live import children, is_running, until

PROGRAM = """
import sys
from pathlib import Path
from backends.readers.found import Limits
from backends.readers.sandbox import Sandbox
sandbox = Sandbox(Limits())
sandbox._start()
print(sandbox._process.pid, flush=True)
sandbox.read(Path(sys.argv[1]), ".csv")
"""


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
