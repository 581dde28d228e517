"""Files in object stores, by address: s3://, gs://, abfs:// and others of pyarrow, fsspec+…://.

A file is fetched to a local temporary file when it is read.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from wye.backends.errors import SourceError


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file in an object store.

    Attributes:
        name: Name of the file, or its path relative to the folder that was listed.
        place: Its path in the store.
        store: Any address in the store, to connect by.
        size: Size in bytes.
    """

    name: str
    place: str
    store: str
    size: int
    modified: datetime | None

    @contextmanager
    def fetched(self) -> Iterator[Path]:
        """A local copy, which is deleted afterwards.

        Raises:
            OSError: The file cannot be read.
        """
        with tempfile.TemporaryDirectory(prefix="wye-source-") as folder:
            copy = Path(folder, "file").with_suffix(PurePosixPath(self.name).suffix)
            store, _ = fs.FileSystem.from_uri(self.store)
            source = store.open_input_stream(self.place, compression=None)
            with source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            yield copy


def local_path(source: str | Path) -> Path | None:
    """The local path of a source; None for an address elsewhere."""
    text = str(source)
    if isinstance(source, Path) or "://" not in text:
        return Path(source)
    parts = urlsplit(text)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def list_files(address: str) -> tuple[bool, list[RemoteFile]]:
    """Whether an address is a folder, and all files at any depth, by name.

    Raises:
        SourceError: There is nothing at the address, or its store is unknown or does not answer.
    """
    try:
        store, place = fs.FileSystem.from_uri(address)
        found = store.get_file_info(place)
        if found.type == fs.FileType.File:
            return False, [_file(found, PurePosixPath(place).parent.as_posix(), address)]
        inside = store.get_file_info(fs.FileSelector(place, recursive=True))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{address} cannot be read: {str(error).splitlines()[0]}. Check the address and the "
            "permissions."
        ) from error
    files = [_file(info, place, address) for info in inside if info.type == fs.FileType.File]
    return True, sorted(files, key=lambda file: file.name)


def _file(info: fs.FileInfo, base: str, address: str) -> RemoteFile:
    name = PurePosixPath(info.path).relative_to(base).as_posix()
    return RemoteFile(name, info.path, address, info.size or 0, info.mtime)
