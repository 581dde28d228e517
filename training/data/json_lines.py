"""Files of JSON lines that are only added to, so a run that is killed loses one line at most."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def readable_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a file, or none if it is missing.

    Lines that cannot be read, such as one cut off by a kill, are skipped.
    """
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def keep_line(path: Path, row: Mapping[str, object]) -> None:
    """Add a line, after the end of one that was cut off; it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        line = json.dumps(row).encode() + b"\n"
        os.write(descriptor, b"\n" + line if torn else line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
