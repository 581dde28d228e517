"""Atomic writing of files, a lock that names its holder, and JSON: equal values, equal text."""

import json
import os
import re
import secrets
import shlex
import signal
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from pydantic import ConfigDict, TypeAdapter

from wye.backends.errors import IndexLockedError, SourceError

LOCK = "writer.lock"  # a writer holds an OS lock on this file; `kill -9` leaves none
NOTE = "writer.json"  # says who took the lock, for messages only
_IN_LOCAL_STORE = "file-object-store"
_ADDRESS = re.compile(rf"(s3|gs|az|abfss?|{_IN_LOCAL_STORE}):/+")


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file that durably replaces `path` when the block ends without an error.

    Readers of the path, also after a crash or an `OSError`, see the old file or the complete new
    one.
    """
    # Beside the target, since a rename is atomic only within one file system.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync(path.parent)


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def require_regular(path: Path) -> None:
    """Raise a `SourceError` if a path is no file, which is not opened for it, or an `OSError`."""
    if kind := _KINDS.get(stat.S_IFMT(path.stat().st_mode)):
        raise SourceError(f"is {kind}, not a file")


def open_regular(path: Path) -> BinaryIO:
    """Open a file; one that is none is neither waited for nor touched, but a `SourceError`."""
    require_regular(path)
    # A pipe that has taken its place since then ends at once instead of waiting for a writer.
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")


def address_of(folder: Path) -> str:
    """The address that a path stands for, such as s3://bucket/index; "" for a folder."""
    match = _ADDRESS.match(str(folder))
    if not match:
        return ""
    root = "/" if match[1] == _IN_LOCAL_STORE else ""
    return f"{match[1]}://{root}{str(folder)[match.end() :]}"


def digest_of(path: Path) -> str:
    """Digest of a file's content: 128 bits in hex."""
    with path.open("rb") as file:
        return file_digest(file, partial(blake2b, digest_size=16)).hexdigest()


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk; an `OSError` if that refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PATIENCE: ContextVar[float] = ContextVar("_PATIENCE", default=0.0)


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Have `writer_lock` wait for another writer in this block, as between a server's commits."""
    before = _PATIENCE.set(seconds)
    try:
        yield
    finally:
        _PATIENCE.reset(before)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of a folder; an `IndexLockedError` says which other writer has it."""
    seconds = _PATIENCE.get()
    # Without `fallback_to_soft`, a file system without locks is an error, not a lock file that a
    # killed process would leave behind for good.
    lock = FileLock(folder / LOCK, seconds, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout as refused:
        holder = writing(folder, command=True) or "another process"
        raise IndexLockedError(
            f"Index {folder} is being written by {holder}. "
            "Wait until that ends, or stop it, and try again."
        ) from refused
    try:
        _sign(folder)
        yield
    finally:
        with suppress(OSError):  # a note left behind does no harm
            (folder / NOTE).unlink()
        lock.release()


def writing(folder: Path, *, command: bool = False) -> str:
    """Which process is writing to an index, according to its note; "" for none."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        if note["host"] == socket.gethostname():
            with suppress(PermissionError):  # another user's process
                os.kill(note["pid"], 0)
        who = f"process {note['pid']} on {note['host']} since {note['since']}"
        return f"{who}: {note['command']}" if command else who
    except (OSError, ValueError, KeyError, TypeError):  # nobody, or a killed process
        return ""


def _sign(folder: Path) -> None:
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


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


_ANYTHING = TypeAdapter[object](object, config=ConfigDict(ser_json_inf_nan="null"))


def plain(value: object) -> Any:  # noqa: ANN401 - JSON has no other type
    """Dataclasses, arrays and enumerations as JSON types; NaN and infinities become null."""
    return _ANYTHING.dump_python(value, mode="json", fallback=lambda array: array.tolist())


DIGITS = 6  # decimals of numbers that are printed for people or compared by programs


_OBEYED = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
VISIBLE = {code: f"\\u{code:04x}" for code in _OBEYED}
"""For `str.translate`: replaces characters that a terminal would interpret by JSON escapes."""


def rounded_json(value: object) -> str:
    """JSON to print: sorted keys, numbers with at most 6 decimals, text unescaped."""
    text = json.dumps(_rounded(value), sort_keys=True, indent=2, ensure_ascii=False)
    return text.translate(VISIBLE)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


_CANONICAL: dict[str, Any] = {"sort_keys": True, "ensure_ascii": False, "allow_nan": False}


def canonical_json(value: object, *, indent: int | None = None) -> str:
    """JSON with sorted keys and exact numbers: equal values give equal text.

    It is one line without any spaces, unless there is an indent. A `ValueError` for NaN and
    infinities.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, indent=indent, separators=separators, **_CANONICAL)
