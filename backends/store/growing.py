"""Arrays that grow piece by piece on disk and are mapped when they are complete.

Their files are anonymous: they vanish with the arrays, however the process ends.
"""

import mmap
from io import BytesIO, FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from wye.backends.store.derived import Arrays, pack_strings
from wye.backends.strings import Strings

_SHORT = np.iinfo(np.int32).max


class GrowingArray:
    """Rows of numbers that are first written and then read.

    If the disk is full, the array continues in memory.
    """

    def __init__(self, folder: Path | None, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        """Begin an empty array.

        Args:
            folder: Folder on a disk with room; None to grow in memory.
            row: Shape of a row.

        Raises:
            OSError: Nothing can be written in the folder.
        """
        self._file: FileIO | BytesIO = (
            TemporaryFile(dir=folder, buffering=0) if folder else BytesIO()  # noqa: SIM115
        )
        self._bytes = 0
        self._dtype, self._row = np.dtype(dtype), row
        finalize(self, self._file.close)  # for an array that is never read

    def extend(self, rows: NDArray[Any]) -> None:
        """Add rows."""
        flat = np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data
        try:
            left = flat
            while left:
                left = left[self._file.write(left) :]
        except OSError:  # the disk is full
            self._file.seek(0)
            with self._file as file:
                self._file = BytesIO(file.read())
            self._file.seek(self._bytes)
            self._file.write(flat)
        self._bytes += len(flat)

    def read(self) -> NDArray[Any]:
        """All rows, read-only; nothing can be added afterwards."""
        content: bytes | mmap.mmap = b""  # an empty file cannot be mapped
        with self._file as file:
            if isinstance(file, BytesIO):
                content = file.getvalue()
            elif self._bytes:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(content, self._dtype).reshape(-1, *self._row)


class GrowingStrings:
    """Strings that are first written and then read."""

    def __init__(self, folder: Path | None, *, is_long: bool = False) -> None:
        """Begin an empty list.

        Args:
            folder: As for `GrowingArray`.
            is_long: Whether offsets have 64 bits even if 32 are enough.
        """
        self._starts = GrowingArray(folder, np.int64)
        self._starts.extend(np.zeros(1))
        self._text = GrowingArray(folder, np.uint8)
        self._is_long, self._size = is_long, 0

    def extend(self, strings: pa.Array) -> None:
        """Add strings."""
        starts, text = pack_strings("", Strings(strings)).values()
        self._starts.extend(starts[1:].astype(np.int64) + self._size)
        self._text.extend(text)
        self._size += len(text)

    def read(self, name: str) -> Arrays:
        """All strings in the form of `pack_strings`."""
        starts = self._starts.read()
        is_long = self._is_long or self._size > _SHORT
        packed = starts if is_long else starts.astype(np.int32)
        return {f"{name}.starts": packed, f"{name}.text": self._text.read()}


def laid(array: NDArray[Any], folder: Path | None) -> NDArray[Any]:
    """The array moved to disk and mapped, or the array itself if there is no folder."""
    if folder is None:
        return array
    growing = GrowingArray(folder, array.dtype, array.shape[1:])
    growing.extend(array)
    return growing.read()
