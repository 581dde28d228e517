"""What was derived from a version, kept as plain arrays that are mapped when it is opened again.

A folder of `derived` is of one version, and a file there of one part of what is derived from it:
little-endian arrays behind a header that says what they are of and where they lie, with a checksum
of each. The dataset alone is the source of truth. A file that is missing, torn, changed, or of
anything else than what is asked for is derived again; nobody needs to delete one.

Mapped arrays are read-only, and processes that map a file share its memory.
"""

import json
import logging
import mmap
import shutil
import sys
import unicodedata
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.files import canonical_json, write_atomically
from backends.words import Strings, StringTable

FOLDER = "derived"
MANIFEST = "manifest"
"""The pin that no two versions have in common."""
# Raise when a change to the code alters what is derived from the same version, or how it is stored.
LAYOUT = 3
PASSAGES = "passages"
"""The part without which the others are of no use."""
KEPT_FROM = 1_000
LEAST_OUTGROWN = 500
"""Passages on top of a base that it has to be made anew for, or `MOST_SHARE` where that is more."""
MOST_SHARE = 0.001
"""Passages from which on files are kept: fewer are derived in less than a fifth of a second."""

Arrays = Mapping[str, NDArray[Any]]
_MAGIC = b"WyeArray"
_ALIGNED = 64
_DIGEST = 16
_BLOCK = 32_768
_ROOM = 128 * _BLOCK

log = logging.getLogger(__name__)


class DerivedFiles:
    """The files of one version."""

    def __init__(
        self, index: Path, version: int, pins: Mapping[str, str], *, is_kept: bool = True
    ) -> None:
        """Touch nothing yet.

        Args:
            index: Folder of the index.
            pins: What else the version is known by, such as the digest of its manifest.
            is_kept: Whether it is worth writing anything.
        """
        self.is_kept = is_kept
        self._index = index
        self.version = version
        self._about: dict[str, Any] = {
            "layout": LAYOUT,
            "version": version,
            "pins": dict(pins),
            # Which characters are letters.
            "unicode": unicodedata.unidata_version,
            "order": sys.byteorder,
        }
        self.folder = index / FOLDER / f"{version}-{_digest(self._about)}"

    def has(self, part: str, settings: object = None) -> bool:
        """Whether there is a file of a part, whole or not."""
        return self._file(part, settings)[0].exists()

    def latest(self) -> "DerivedFiles | None":
        """These, or where they have no passages those of the last version before that has.

        All pins but the manifest are the same.
        """
        if self.has(PASSAGES):
            return self
        own = self._about["pins"]
        older = (path for path in self._folders() if _version_of(path) < self.version)
        for folder in sorted(older, key=_version_of, reverse=True):
            try:
                about = _header(folder / f"{PASSAGES}.arrays")[1]["about"]
            except (OSError, ValueError):
                continue
            pins = about["pins"]
            files = DerivedFiles(self._index, _version_of(folder), pins, is_kept=False)
            if files.folder == folder and pins | {MANIFEST: ""} == own | {MANIFEST: ""}:
                return files
        return None

    def sizes(self) -> dict[str, int]:
        """Bytes of each part that there is, by its name."""
        return {file.stem: file.stat().st_size for file in sorted(self.folder.glob("*.arrays"))}

    def room(self) -> Path | None:
        """Where to lay, while the files are made, what need not be in memory.

        None where nothing can be written.
        """
        if not self.is_kept:
            return None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.folder).close()
        except OSError:
            return None
        return self.folder

    def read(self, part: str, settings: object = None) -> Arrays | None:
        """Arrays of a part by name, mapped; None where there are none that can be used.

        Args:
            settings: A dataclass that the part was made with, if it depends on one.
        """
        path, about = self._file(part, settings)
        try:
            return _mapped(path, about)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s is derived again: %s.", path, error)
            return None

    def write(self, part: str, arrays: Arrays, settings: object = None) -> None:
        """Keep a part; where nothing can be written, nothing is, and nothing fails."""
        if not self.is_kept:
            return
        path, about = self._file(part, settings)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, about, arrays)
        except OSError as error:
            log.info("%s is not kept for the next start: %s.", path, error)
        else:
            _drop_unfinished(self.folder, path.name)  # of who was killed, or is late
            if part == PASSAGES:
                self._drop_older()

    def _drop_older(self) -> None:
        """Delete the files of versions before, and of this one in another layout."""
        for folder in self._folders():
            if _version_of(folder) <= self.version and folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        """Of all versions."""
        return [*self.folder.parent.glob("*-*")]

    def _file(self, part: str, settings: object) -> tuple[Path, dict[str, object]]:
        about: dict[str, object] = {**self._about, "part": part}
        name = part
        if is_dataclass(settings) and not isinstance(settings, type):
            about["settings"] = json.loads(canonical_json(asdict(settings)))
            name = f"{part}-{_digest(about['settings'])}"
        return self.folder / f"{name}.arrays", about


def most_on_top(passages: int) -> int:
    """Passages that may be added or gone before an index of so many is due for a later base."""
    return int(max(LEAST_OUTGROWN, MOST_SHARE * passages))


def latest_kept(index: Path) -> int:
    """The last version that the passages are kept of; 0 where there is none."""
    found = (index / FOLDER).glob(f"*-*/{PASSAGES}.arrays")
    return max((_version_of(path.parent) for path in found), default=0)


def drop_derived(index: Path, kept: Collection[int]) -> None:
    """Delete the files of all versions but some, and what writers that were killed left there.

    Only the holder of the write lock may ask.
    """
    for folder in (index / FOLDER).glob("*"):
        if _version_of(folder) not in kept:
            shutil.rmtree(folder, ignore_errors=True)
        _drop_unfinished(folder)


def _drop_unfinished(folder: Path, name: str = "") -> None:
    for unfinished in folder.glob(f".{name}*"):
        with suppress(OSError):
            unfinished.unlink()


def pack_strings(name: str, strings: Iterable[str]) -> Arrays:
    """Strings as two arrays, to be taken up by `unpack_strings`."""
    array = (strings if isinstance(strings, Strings) else Strings(strings)).array
    _, starts, text = array.buffers()
    dtype = np.int64 if pa.types.is_large_string(array.type) else np.int32
    places = np.frombuffer(starts, dtype) if starts else np.zeros(1, dtype)
    places = places[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(text, np.uint8) if text else np.zeros(0, np.uint8)
    first, last = int(places[0]), int(places[-1])
    return {f"{name}.starts": places - first, f"{name}.text": content[first:last]}


def unpack_strings(name: str, arrays: Arrays) -> Strings:
    """The strings of `pack_strings`, where they lie."""
    starts, text = arrays[f"{name}.starts"], arrays[f"{name}.text"]
    kind = pa.LargeStringArray if starts.dtype == np.int64 else pa.StringArray
    return Strings(kind.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(text)))


def pack_table(name: str, table: StringTable) -> Arrays:
    """Strings with what finds them, to be taken up by `unpack_table`."""
    kept = {f"{name}.hashes": table.hashes, f"{name}.order": table.order}
    return {**pack_strings(name, table.strings), **kept}


def unpack_table(name: str, arrays: Arrays) -> StringTable:
    """The strings of `pack_table`, where they lie."""
    hashes, order = arrays[f"{name}.hashes"], arrays[f"{name}.order"]
    return StringTable(unpack_strings(name, arrays), hashes, order)


def _write(path: Path, about: object, arrays: Arrays) -> None:
    entries: dict[str, object] = {}
    parts: list[NDArray[Any]] = []
    place = 0
    for name, array in arrays.items():
        part = np.ascontiguousarray(array)
        stated = [part.dtype.str, list(part.shape), place, _checksum(part)]
        entries[name] = stated
        parts.append(part)
        place += part.nbytes + -part.nbytes % _ALIGNED
    header = canonical_json({"about": about, "arrays": entries, "bytes": place}).encode()
    header += b" " * (-(len(_MAGIC) + 8 + _DIGEST + len(header)) % _ALIGNED)
    with write_atomically(path) as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little"))
        file.write(blake2b(header, digest_size=_DIGEST).digest() + header)
        for part in parts:
            file.write(_bytes(part))
            file.write(bytes(-part.nbytes % _ALIGNED))


def _mapped(path: Path, about: object) -> Arrays:
    """The arrays of a file.

    Raises:
        OSError: There is none, or it cannot be read.
        ValueError: It is not whole, or about something else.
    """
    with path.open("rb", buffering=0) as file:
        mapped, stated, start = _read_header(file)
        if stated["about"] != about:
            raise ValueError("it is about something else")
        if len(mapped) != start + stated["bytes"]:
            raise ValueError("it is cut short")
        for name, (kind, shape, place, checksum) in stated["arrays"].items():
            size = _count(shape) * np.dtype(kind).itemsize
            if _checksum_in(file, start + place, size) != checksum:
                raise ValueError(f"its array '{name}' is damaged")
    return {
        name: np.frombuffer(mapped, np.dtype(kind), _count(shape), start + place).reshape(shape)
        for name, (kind, shape, place, _) in stated["arrays"].items()
    }


def _header(path: Path) -> tuple[mmap.mmap, dict[str, Any], int]:
    """A mapped file, its header, and where the arrays begin.

    Raises:
        OSError: There is none, or it cannot be read.
        ValueError: The header is not whole.
    """
    with path.open("rb", buffering=0) as file:
        return _read_header(file)


def _read_header(file: FileIO) -> tuple[mmap.mmap, dict[str, Any], int]:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    head = len(_MAGIC) + 8 + _DIGEST
    length = int.from_bytes(mapped[len(_MAGIC) : len(_MAGIC) + 8], "little")
    header = mapped[head : head + length]
    digest = blake2b(header, digest_size=_DIGEST).digest()
    if mapped[: len(_MAGIC)] != _MAGIC or digest != mapped[head - _DIGEST : head]:
        raise ValueError("its header is damaged")
    return mapped, json.loads(header), head + length


def _count(shape: Sequence[int]) -> int:
    """Elements of an array."""
    return int(np.prod(shape, dtype=np.int64))


def _checksum(array: NDArray[Any]) -> int:
    """Of an array's bytes: a CRC of the sums of its blocks, as quick as reading them."""
    flat = array.reshape(-1).view(np.uint8)
    return _followed(flat, 0)


def _checksum_in(file: FileIO, start: int, size: int) -> int:
    """Of bytes in a file. They are read, which is quicker than to map each page for it."""
    found, room = 0, np.empty(min(size, _ROOM), np.uint8)
    file.seek(start)
    while size:
        part = room[:size].data
        read = 0
        while read < len(part) and (count := file.readinto(part[read:])):
            read += count
        if read < len(part):
            raise ValueError("it is cut short")
        found = _followed(room[:read], found)
        size -= read
    return found


def _followed(flat: NDArray[np.uint8], checksum: int) -> int:
    """A checksum with the next bytes; but for the last time their number is one of whole blocks."""
    whole = len(flat) // _BLOCK * _BLOCK
    sums = flat[:whole].view(np.uint64).reshape(-1, _BLOCK // 8).sum(axis=1)
    return zlib.crc32(flat[whole:].data, zlib.crc32(sums.view(np.uint8).data, checksum))


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _version_of(folder: Path) -> int:
    """Of a folder by its name; 0 where it has none."""
    number = folder.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _digest(value: object) -> str:
    return blake2b(canonical_json(value).encode(), digest_size=8).hexdigest()
