"""This process's own memory and its mapped files, where the system reports them (Linux)."""

import re
from pathlib import Path

_LISTED = "/proc/self"
_MAPPED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ +(/.*)$", re.MULTILINE)
_ANONYMOUS = re.compile(r"^Anonymous: +(\d+) kB", re.MULTILINE)


def mapped_bytes(folder: Path) -> int | None:
    """Bytes mapped from files in or below a folder; None where the system does not report it."""
    listed, inside = _told("maps"), f"{folder.resolve()}/"
    spans = [
        int(end, 16) - int(start, 16)
        for start, end, path in _MAPPED.findall(listed or "")
        if path.startswith(inside)
    ]
    return None if listed is None else sum(spans)


def own_bytes() -> int | None:
    """Bytes of memory not backed by a file; None where the system does not report it."""
    found = _ANONYMOUS.search(_told("smaps_rollup") or "")
    return 1024 * int(found[1]) if found else None


def _told(name: str) -> str | None:
    try:
        return Path(_LISTED, name).read_text(encoding="utf-8", errors="replace")
    except OSError:  # not a Linux
        return None
