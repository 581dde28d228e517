"""Reads files that come from anybody in processes of their own, under limits."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from backends.readers.found import BadFileError, Found, Limits

# To start and to stop; processor time is limited beside it.
_GRACE = 20.0
# What a process needs of the environment; nothing that is secret.
_PASSED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Sandbox:
    """Runs `backends.readers.extract`; a file that stalls or blows up takes nothing with it.

    For one thread at a time, but for `close`, which ends what another thread waits for.
    """

    def __init__(self, limits: Limits) -> None:
        """Start nothing yet."""
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, path: Path, suffix: str) -> Iterator[Found]:
        """What a file holds, which is read to its end before the first is given.

        Args:
            suffix: One of `READERS`.

        Raises:
            BadFileError: What is wrong with it, or that it cannot be read within the limits; at the
                call.
            OSError: It cannot be opened.
        """
        with path.open("rb") as source:
            target = tempfile.TemporaryFile()  # noqa: SIM115 - `_found` closes it
            try:
                code = self._ask(suffix, source.fileno(), target.fileno())
            except BaseException:
                target.close()
                self.close()
                raise
        found = _found(target, code, self._limits)
        first = next(found, None)  # so that its end closes the file, however far it is read
        return chain(() if first is None else [first], found)

    def close(self) -> None:
        """End the process, whatever it is at."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _ask(self, suffix: str, source: int, target: int) -> int:
        """Exit code of the process that read one open file and wrote to another."""
        requests = self._requests or self._start()
        said = {"suffix": suffix, "limits": asdict(self._limits)}
        socket.send_fds(requests, [json.dumps(said).encode()], [source, target])
        requests.settimeout(self._limits.seconds + _GRACE)
        try:
            answer = requests.recv(64)
        except TimeoutError:
            answer = b""
        if not answer:
            self.close()
        return int(answer or 1)

    def _start(self) -> socket.socket:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "backends.readers.extract"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={key: value for key, value in os.environ.items() if key in _PASSED},
                # Ctrl-C is for whoever started it, and what it started ends with it.
                start_new_session=True,
            )
        return self._requests


def _found(target: BinaryIO, code: int, limits: Limits) -> Iterator[Found]:
    """What a process wrote, if it did not fail."""
    with target:
        if code:
            raise BadFileError(
                f"could not be read within {limits.seconds} s and "
                f"{limits.memory_bytes >> 20:,} MB, or holds too much; send it in parts"
            )
        target.seek(0)
        for line in target:
            found = Found(**json.loads(line))
            if found.error and not found.line:
                raise BadFileError(found.error)
            yield found
