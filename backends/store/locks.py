"""One writer at a time: a lock that dies with its holder, and a note of who holds it.

The lock is an OS lock on `writer.lock`, so `kill -9` leaves nothing to clean up. Beside it
`writer.json` says who took it. The note is only used in messages, so one that a killed process left
behind does no harm.
"""

import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import current_thread, main_thread

from filelock import FileLock, Timeout

from wye.backends.errors import IndexLockedError

LOCK = "writer.lock"
NOTE = "writer.json"


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of an index folder, which must exist.

    Raises:
        IndexLockedError: Another writer, in this process or another, holds it; says who.
    """
    # Without `fallback_to_soft`, a file system without locks is an error, not a lock file that a
    # killed process would leave behind for good.
    lock = FileLock(folder / LOCK, blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as refused:
        raise IndexLockedError(
            f"Index {folder} is being written by {_holder(folder)}. "
            "Wait until that ends, or stop it, and try again."
        ) from refused
    try:
        _sign(folder)
        yield
    finally:
        with suppress(OSError):  # a note left behind does no harm
            (folder / NOTE).unlink()
        lock.release()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends.

    Lance would raise at once and go on with a commit in another thread, maybe after the lock was
    given back.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or current_thread() is not main_thread():
        yield  # nothing is raised here
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(pressed[0])


def writing(folder: Path) -> str:
    """Who is writing to an index, according to the note; "" for nobody."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        if note["host"] == socket.gethostname():
            with suppress(PermissionError):  # another user's process
                os.kill(note["pid"], 0)
        return _named(note)
    except (OSError, ValueError, KeyError, TypeError):  # nobody, or a killed process
        return ""


def _sign(folder: Path) -> None:
    """Write the note of who holds the lock."""
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


def _holder(folder: Path) -> str:
    """Who holds the lock, in words; the note may be missing or incomplete."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        return f"{_named(note)}: {note['command']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _named(note: Mapping[str, object]) -> str:
    return f"process {note['pid']} on {note['host']} since {note['since']}"
