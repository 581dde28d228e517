"""Reading untrusted files in separate processes, under limits."""

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
from types import TracebackType
from typing import BinaryIO, Self

from wye.backends.readers.drafts import BadFileError, Block, Draft, Limits

# Seconds to start and to stop, in addition to the limit of processor time.
_GRACE = 20.0
# Environment variables that are passed on; none of them is secret.
_PASSED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Sandbox:
    """Runs `readers.extract`, so that a file that stalls or explodes harms nothing else.

    For one thread at a time, except that any thread may call `close`, which ends a running read.
    """

    def __init__(self, limits: Limits) -> None:
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

    def read(self, source: BinaryIO, suffix: str) -> Iterator[Draft]:
        """The documents of an open file, which is read completely before the first is yielded.

        Args:
            suffix: One of `READERS`.

        Raises:
            BadFileError: The file cannot be read, or not within the limits; raised at the call, or
                after the documents before the error.
            OSError: There is no temporary file.
        """
        target = tempfile.TemporaryFile()  # noqa: SIM115 - `_drafts` closes it
        try:
            code = self._ask(suffix, source.fileno(), target.fileno())
        except BaseException:
            target.close()
            self.close()
            raise
        drafts = _drafts(target, code, self._limits)
        first = next(drafts, None)  # started here, so that its end closes the file
        return chain(() if first is None else [first], drafts)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _ask(self, suffix: str, source: int, target: int) -> int:
        """Have one open file read and the result written to another; returns the exit code."""
        requests = self._requests or self._start()
        request = {"suffix": suffix, "limits": asdict(self._limits)}
        socket.send_fds(requests, [json.dumps(request).encode()], [source, target])
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
                [sys.executable, "-m", "wye.backends.readers.extract"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={key: value for key, value in os.environ.items() if key in _PASSED},
                # Ctrl-C is for the parent; the group lets `close` end its children too.
                start_new_session=True,
            )
        return self._requests


def _drafts(target: BinaryIO, code: int, limits: Limits) -> Iterator[Draft]:
    """The documents that a process wrote, if it did not fail."""
    with target:
        if code:
            raise BadFileError(
                f"could not be read within {limits.seconds} s and {limits.memory_bytes >> 20:,} "
                "MB, or has too much content; split it"
            )
        target.seek(0)
        blocks: list[Block] = []
        for line in target:
            value = json.loads(line)
            if isinstance(value, list):
                blocks += value
                continue
            draft = Draft(**{**value, "blocks": blocks})
            blocks = []
            if draft.error and not draft.line:
                raise BadFileError(draft.error)
            yield draft
