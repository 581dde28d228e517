"""Which version each process searches, so that a deletion can wait until none searches an older.

Each process keeps a file in `jobs/readers` with the version that it searches, locked for as long as
it lives; a file that nobody locks is of a process that ended.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from service.documents.spool import FOLDER

_READERS = "readers"


class Readers:
    """The processes that serve one index, this one among them."""

    def __init__(self, index: Path) -> None:
        """Touch nothing yet.

        Args:
            index: Folder of the index.
        """
        self._folder = index / FOLDER / _READERS
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._descriptor: int | None = None

    def announce(self, version: int) -> None:
        """Say which version this process searches; 0 before it searches any.

        Raises:
            OSError: The folder cannot be written.
        """
        if self._descriptor is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            hidden = self._folder / f".{self._name}"
            # Locked before it has its name, so that nobody takes it for one that was left behind.
            self._descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(self._descriptor, _stated(version), 0)
            hidden.rename(self._folder / self._name)
        else:
            os.pwrite(self._descriptor, _stated(version), 0)

    def behind(self, version: int) -> list[str]:
        """Processes that still search an older version, this one left out."""
        if not self._folder.is_dir():
            return []
        names = [path.name for path in self._folder.iterdir() if not path.name.startswith(".")]
        return sorted(
            name for name in names if name != self._name and self._is_behind(name, version)
        )

    def leave(self) -> None:
        """Say that this process searches no longer."""
        if self._descriptor is not None:
            (self._folder / self._name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _is_behind(self, name: str, version: int) -> bool:
        path = self._folder / name
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
                return False
            return int(os.pread(descriptor, 20, 0) or b"0") < version
        finally:
            os.close(descriptor)


def _stated(version: int) -> bytes:
    """Always as long, so that one write replaces another."""
    return f"{version:020d}".encode()
