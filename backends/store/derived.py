"""Keeps what is derived from a version as plain arrays, which processes map and share.

A folder in `derived` is of a version that was read whole, and a file there has one part of what is
derived of it. A file that is missing, torn, changed, or has another key is derived again; nobody
needs to delete one.
"""

import json
import logging
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from wye.backends.arrays import map_arrays, write_arrays
from wye.backends.files import canonical_json
from wye.backends.types import Arrays

FOLDER = "derived"
LAYOUT = 22  # raise when a code change alters what is derived from a version, or how it is stored
PASSAGES = "passages"  # the part that all others need
LEAST_OUTGROWN, MOST_SHARE = 500, 0.001  # so many changes, or this share, outgrow a base
LEAST_QUIET = 60.0  # seconds; see `seconds_before_base`

_Result = TypeVar("_Result")
log = logging.getLogger(__name__)


class DerivedFiles:
    """The derived files of one version, in a folder whose name begins with its number."""

    def __init__(
        self, folder: Path, pins: Mapping[str, str], *, is_persistent: bool = True
    ) -> None:
        """Touch no file yet; `pins` are the models that wrote the index."""
        self.folder, self.is_persistent = folder, is_persistent
        self._about: dict[str, Any] = {
            "layout": LAYOUT,
            "folder": folder.name,
            "pins": dict(pins),
            # It decides which characters are letters.
            "unicode": unicodedata.unidata_version,
            "order": sys.byteorder,
        }

    @property
    def version(self) -> int:
        """Number of the version."""
        return _version_of(self.folder)

    def has(self, name: str, settings: object = None) -> bool:
        """Whether a part has a file, whole or not."""
        return self._file(name, settings)[0].exists()

    def sizes(self) -> dict[str, int]:
        """Name of each existing part -> bytes."""
        return {file.stem: file.stat().st_size for file in sorted(self.folder.glob("*.arrays"))}

    def with_room(self, work: Callable[[Path | None], _Result]) -> _Result:
        """The result of a function, which takes a folder for temporary data.

        Where nothing is to be written, or the disk is full, it is called with None, for memory.
        """
        if self.is_persistent:
            with suppress(OSError):
                self.folder.mkdir(parents=True, exist_ok=True)
                return work(self.folder)
        return work(None)

    def read(self, name: str, settings: object = None) -> Arrays | None:
        """Map the arrays of a part, which may depend on settings; None if no file is usable."""
        path, about = self._file(name, settings)
        try:
            return map_arrays(path, about)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s is rebuilt: %s.", path, error)
            return None

    def write(self, name: str, arrays: Arrays, settings: object = None) -> None:
        """Write a part; if that is impossible, it is only logged."""
        if not self.is_persistent:
            return
        path, about = self._file(name, settings)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(path, about, arrays)
        except OSError as error:
            log.info("%s could not be saved for the next start: %s.", path, error)
            return
        # Of writers that were killed, or are late.
        for unfinished in self.folder.glob(f".{path.name}*"):
            with suppress(OSError):
                unfinished.unlink()
        if name == PASSAGES:
            for folder in self.folder.parent.glob("*-*"):  # but not one that is being written
                is_done = _version_of(folder) <= self.version or _passages_in(folder).exists()
                if is_done and folder != self.folder:
                    shutil.rmtree(folder, ignore_errors=True)

    def _file(self, kind: str, settings: object) -> tuple[Path, dict[str, object]]:
        about: dict[str, object] = {**self._about, "part": kind}
        name = kind
        if is_dataclass(settings) and not isinstance(settings, type):
            about["settings"] = json.loads(canonical_json(asdict(settings)))
            content = canonical_json(about["settings"]).encode()
            name = f"{kind}-{blake2b(content, digest_size=8).hexdigest()}"
        return self.folder / f"{name}.arrays", about


def most_changes(passages: int) -> int:
    """How many passages may be added or deleted before an index of this size needs a new base."""
    return int(max(LEAST_OUTGROWN, MOST_SHARE * passages))


def seconds_before_base(passages: int) -> float:
    """Seconds without a write before a new base, some twenty times as long as deriving it takes."""
    return max(LEAST_QUIET, passages / 200)


def newest_in(index: Path) -> Path | None:
    """The folder of the passages that were derived last."""
    times: dict[Path, int] = {}
    for folder in (index / FOLDER).glob("*-*"):
        with suppress(OSError):
            times[folder] = _passages_in(folder).stat().st_mtime_ns
    return max(times, key=times.__getitem__, default=None)


def _passages_in(folder: Path) -> Path:
    return folder / f"{PASSAGES}.arrays"


def _version_of(folder: Path) -> int:
    """Version number in a folder's name; 0 if it has none."""
    number = folder.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0
