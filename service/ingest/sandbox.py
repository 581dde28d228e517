"""Files that come from anybody, read few at a time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from backends.readers.found import BadFileError, Found, Limits
from backends.readers.sandbox import Sandbox
from service.http.problems import Problem, Room

# Files that are read at once, and that may wait for it.
_AT_ONCE = 2
_WAITING = 16


class FileReader:
    """Reads uploaded files in processes with limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._room = Room(
            _AT_ONCE + _WAITING, "Many files are waiting to be read. Try again.", retry_after=5
        )

    async def read(self, path: Path, suffix: str, name: str) -> Iterator[Found]:
        """What a file holds, as `backends.readers.sandbox.Sandbox.read`.

        Raises:
            Problem: 422 with what is wrong with it, 503 when many files wait.
        """
        try:
            with self._room.taken():
                async with self._slots:
                    # Whoever sent it may go away; closing ends what the thread waits for.
                    with Sandbox(self._limits) as sandbox:
                        return await asyncio.to_thread(sandbox.read, path, suffix)
        except BadFileError as error:
            raise bad_file(name, str(error)) from error


def bad_file(name: str, reason: str) -> Problem:
    """What to say of a file that gives no document."""
    return Problem(422, "bad-file", f"'{name:.80}' {reason}.")
