"""Files that are whole or absent whatever happens, and JSON with one spelling for one value."""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ConfigDict, TypeAdapter


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its place, through to the disk, when the block ends without error.

    Who reads the path meanwhile, or after a crash, has the older file or this one, whole.

    Raises:
        OSError: The disk refuses; the older file stays.
    """
    # Beside the target, since a rename is atomic on one file system only.
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


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk.

    Raises:
        OSError: The disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_ANYTHING = TypeAdapter[object](object, config=ConfigDict(ser_json_inf_nan="null"))


def plain(value: object) -> Any:  # noqa: ANN401 - JSON has no other type
    """Dataclasses, arrays and enumerations as what JSON has; null for NaN and the infinities."""
    return _ANYTHING.dump_python(value, mode="json", fallback=lambda array: array.tolist())


DIGITS = 6
"""Decimals of what is printed for people and compared by programs."""


_OBEYED = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
VISIBLE = {code: f"\\u{code:04x}" for code in _OBEYED}
"""For `str.translate`: what a terminal would obey, as escapes of JSON."""


def rounded_json(value: object, *, indent: int | None = 2) -> str:
    """JSON to print: sorted keys, numbers of at most 6 decimals, text as it is."""
    text = json.dumps(_rounded(value), sort_keys=True, indent=indent, ensure_ascii=False)
    return text.translate(VISIBLE)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def canonical_json(value: object, *, indent: int | None = None) -> str:
    """JSON with sorted keys and numbers to their last bit: equal values give equal text.

    Args:
        value: Mappings with strings as keys, sequences and scalars.
        indent: Blanks to a level; None writes one line without any blanks.

    Raises:
        ValueError: It holds NaN or an infinity, which JSON has no word for.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        value,
        sort_keys=True,
        indent=indent,
        ensure_ascii=False,
        separators=separators,
        allow_nan=False,
    )
