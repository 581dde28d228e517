"""Reading untrusted files in separate processes, under limits."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from types import TracebackType
from typing import BinaryIO, Self

from wye.backends.readers.drafts import DEFAULT, BadFileError, Block, Draft, Limits, Options

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

    def read(self, source: BinaryIO, suffix: str, options: Options = DEFAULT) -> Iterator[Draft]:
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
            code = self._ask([suffix], [source.fileno(), target.fileno()], options)
        except BaseException:
            target.close()
            self.close()
            raise
        drafts = _drafts(target, code, self._limits)
        first = next(drafts, None)  # started here, so that its end closes the file
        return chain(() if first is None else [first], drafts)

    def read_small(
        self, files: Sequence[tuple[BinaryIO, str]], options: Options = DEFAULT
    ) -> list[list[Draft]]:
        """The documents of several open files with their suffixes, by one process.

        Returns:
            Those of the first files; the next one could not be read, or not within the limits, and
            `read` says why.

        Raises:
            OSError: There is no temporary file.
        """
        descriptors = [source.fileno() for source, _ in files]
        with tempfile.TemporaryFile() as target:
            self._ask([suffix for _, suffix in files], [*descriptors, target.fileno()], options)
            target.seek(0)
            results: list[list[Draft]] = []
            drafts: list[Draft] = []
            with suppress(BadFileError, ValueError):
                for draft in _written(target):
                    if draft is None:
                        results.append(drafts)
                        drafts = []
                    else:
                        drafts.append(draft)
        return results

    def close(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _ask(self, suffixes: Sequence[str], files: Sequence[int], options: Options) -> int:
        """Have open files read and the result written to the last; returns the exit code."""
        requests = self._requests or self._start()
        request = {"suffixes": suffixes, "limits": asdict(self._limits), "options": asdict(options)}
        socket.send_fds(requests, [json.dumps(request).encode()], files)
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
                # -P: nothing is imported from the working folder, which may hold the files.
                [sys.executable, "-P", "-m", "wye.backends.readers.extract"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={key: value for key, value in os.environ.items() if key in _PASSED},
                # Ctrl-C is for the parent; the group lets `close` end its children too.
                start_new_session=True,
            )
        return self._requests


def _drafts(target: BinaryIO, code: int, limits: Limits) -> Iterator[Draft]:
    """The documents of a file that a process wrote, if it did not fail."""
    with target:
        if code:
            raise BadFileError(
                f"could not be read within {limits.seconds} s and {limits.memory_bytes >> 20:,} "
                "MB, or has too much content; split it"
            )
        target.seek(0)
        for draft in _written(target):
            if draft is not None:
                yield draft


def _written(target: BinaryIO) -> Iterator[Draft | None]:
    """The documents that a process wrote, with None at the end of each file.

    Raises:
        BadFileError: A file could not be read.
        ValueError: The process was ended while it wrote.
    """
    blocks: list[Block] = []
    for line in target:
        value = json.loads(line)
        if isinstance(value, list):
            blocks += value
            continue
        if value is None:
            yield None
            continue
        draft = Draft(**{**value, "blocks": blocks})
        blocks = []
        if draft.error and not draft.line:
            raise BadFileError(draft.error)
        yield draft
