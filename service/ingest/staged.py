"""Uploaded files that wait to become documents, on the disk beside an index.

Every file is complete: its content is on the disk before the entry that names it, and the entry
before the reply. A file belongs to the key that sent it, and is deleted by age.
"""

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from wye.backends.files import sync, write_atomically
from wye.service.http.auth import Key
from wye.service.http.problems import Problem, not_writable
from wye.service.settings import DocumentSettings

FOLDER = "files"
MOST_FILES = 256
_UPLOADS = 4
"""A key may keep as many bytes as so many uploads of the greatest length."""
_SPARE_SECONDS = 3_600
_ID = re.compile(r"file-[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """An uploaded file.

    Attributes:
        name: The last component of its name.
        created: Seconds since 1970.
    """

    id: str
    name: str
    purpose: str
    bytes: int
    created: int


@dataclass(frozen=True, slots=True)
class Attachment:
    """The result of attaching a file to a collection as a document.

    Attributes:
        job: The job that writes it; "" if it was written at once.
        error: Why it cannot be a document, or "".
    """

    attributes: Mapping[str, str | float | bool]
    job: str = ""
    error: str = ""


_FILE, _ATTACHMENT = map(TypeAdapter[Any], (StagedFile, Attachment))


class StagedFiles:
    """The uploads of one key; all methods block on the disk."""

    def __init__(self, index: Path, key: Key, settings: DocumentSettings) -> None:
        """Keep the folder of an index; nothing is created before the first file."""
        self._all = index / FOLDER
        self._folder = self._all / (key.digest[:32] or "anybody")
        self._settings = settings

    def add(self, name: str, purpose: str, content: BinaryIO, size: int) -> StagedFile:
        """Store a file; it is on the disk when this returns.

        Raises:
            Problem: 422 if the key has too many files or bytes; 503 if the disk cannot be written,
                as in all methods that write.
        """
        self._sweep()
        stored = self.files()
        most = _UPLOADS * self._settings.upload_bytes
        if len(stored) >= MOST_FILES or sum(file.bytes for file in stored) + size > most:
            raise Problem(
                422,
                "too-many-files",
                f"A key can keep {MOST_FILES} uploaded files and {most:,} bytes. Delete some; "
                "documents that were made from them stay.",
            )
        id_ = f"file-{int(time.time() * 1e6):014x}{secrets.token_hex(5)}"  # sorts by time
        file = StagedFile(id_, name, purpose, size, int(time.time()))
        with _writing():
            if not self._folder.exists():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(self._all)
                sync(self._all.parent)
            with write_atomically(self.content(file)) as target:
                shutil.copyfileobj(content, target)
        self._write(f"{file.id}.json", file)
        return file

    def files(self) -> list[StagedFile]:
        """All files, oldest first."""
        paths = sorted(self._folder.glob("file-*.json"))
        return [file for path in paths if (file := self.file(path.stem))]

    def file(self, id_: str) -> StagedFile | None:
        """A file by id; None if there is none, it has expired, or its content is incomplete."""
        file: StagedFile | None = self._read(id_, "json", _FILE)
        if file is None or time.time() >= self.expires(file):
            return None
        with suppress(FileNotFoundError):
            return file if self.content(file).stat().st_size == file.bytes else None
        return None

    def expires(self, file: StagedFile) -> int:
        """When a file expires, in seconds since 1970."""
        return file.created + int(self._settings.keep_seconds)

    def content(self, file: StagedFile) -> Path:
        """Path of a file's bytes."""
        return self._folder / f"{file.id}.content"

    def delete(self, file: StagedFile) -> None:
        """Delete a file; documents made of it stay."""
        with _writing():
            for path in (self._folder / f"{file.id}.json", self.content(file)):
                path.unlink(missing_ok=True)

    def attach(self, id_: str, store: str, attachment: Attachment) -> None:
        """Store the result of attaching a file."""
        self._write(f"{id_}.{store}.attached", attachment)

    def attachment(self, id_: str, store: str) -> Attachment | None:
        """The result of attaching a file; None if unknown."""
        result: Attachment | None = self._read(id_, f"{store}.attached", _ATTACHMENT)
        return result

    def detach(self, id_: str, store: str) -> None:
        """Delete the result of attaching a file; an id that is no upload's is ignored."""
        if not _ID.fullmatch(id_):
            return
        with _writing():
            (self._folder / f"{id_}.{store}.attached").unlink(missing_ok=True)

    def _write(self, name: str, value: StagedFile | Attachment) -> None:
        with _writing(), write_atomically(self._folder / name) as file:
            file.write(json.dumps(asdict(value)).encode())

    def _read(self, id_: str, suffix: str, kind: TypeAdapter[Any]) -> Any:  # noqa: ANN401 - of that kind
        if not _ID.fullmatch(id_):
            return None
        try:
            return kind.validate_json((self._folder / f"{id_}.{suffix}").read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _sweep(self) -> None:
        """Delete expired files of all keys."""
        before = time.time() - self._settings.keep_seconds - _SPARE_SECONDS
        for path in self._all.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()


@contextmanager
def _writing() -> Iterator[None]:
    """Turn an `OSError` into a problem that says what to do."""
    try:
        yield
    except OSError as error:
        raise not_writable("No file can be kept here", error) from error
