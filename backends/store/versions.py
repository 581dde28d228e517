"""Finds the version of the passages that counts: the newest whole one, byte for byte as committed.

Lance takes the newest manifest that it finds. If that is missing, Lance would silently go back one
version; if a power cut left it half written, Lance could open nothing. So `commits.json` records
each commit: its number, and the digest of every file that reading it needs. The record is synced to
the disk before anybody is told of the commit, and is read before Lance is asked.
"""

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import EIO
from hashlib import blake2b
from pathlib import Path

import lance
import pyarrow as pa

from wye.backends.errors import IndexDamagedError
from wye.backends.files import sync, write_atomically

PASSAGES = "passages.lance"
RECORD = "commits.json"
ASIDE = "damaged"
VERSIONS = "_versions"
_HINT = f"{VERSIONS}/latest_version_hint.json"
_NAMES = ("data", "_deletions", VERSIONS, "")
_NEWEST = 2**64 - 1  # manifest names count down from it, so that newer versions sort first
_BLOCK = 1 << 20
_ROARING = 12346  # the first number of a bitmap without runs
Mark = tuple[int, int, int] | None
_IN_RUST = re.compile(r", /\S+\.rs:\d+:\d+")
_FAULTS = (ValueError, RuntimeError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Record:
    """The record of the last commit.

    Attributes:
        version: Its number; 0 if unknown.
        digests: Name of a file below `passages.lance` -> its digest.
    """

    version: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """The newest whole version of an index, and what is wrong with later ones.

    Attributes:
        mark: Mark of the newest manifest, whole or not; see `newest_mark`.
        torn: Versions whose commit did not complete, so that nobody was told of them.
        fault: Why this is not the last committed version; "" if it is.
    """

    dataset: lance.LanceDataset
    record: Record
    mark: Mark
    torn: tuple[int, ...]
    fault: str


def newest_whole(folder: Path, open_: Callable[[int], lance.LanceDataset]) -> FoundVersion:
    """Find the newest version of an index that is whole.

    Args:
        folder: Folder of the index, which has a version.
        open_: Opens a version by number.

    Raises:
        IndexDamagedError: No version is whole.
    """
    faults: list[str] = []
    torn: list[int] = []
    record = Record()
    try:  # before listing versions, since writers record a version after making it
        record = read_record(folder)
    except IndexDamagedError as error:
        faults.append(str(error))
    mark = newest_mark(folder)
    numbers = numbers_in(folder / PASSAGES)
    for number in numbers:
        try:
            dataset = open_whole(folder, number, record, open_)
        except IndexDamagedError as error:
            if 0 < record.version < number:
                torn.append(number)
            else:
                faults.append(str(error))
            continue
        if number < record.version and not faults:
            faults.append(f"{manifest_name(record.version)} is missing")
        lost = max(record.version, numbers[0])
        instead = f", and version {number} is used instead of {lost}" if number != lost else ""
        fault = str(damaged(folder, faults[0] + instead)) if faults else ""
        return FoundVersion(dataset, record, mark, tuple(torn), fault)
    raise damaged(
        folder, f"{faults[0] if faults else RECORD + ' names no version'}, and no version is whole"
    )


def open_whole(
    folder: Path, number: int, record: Record, open_: Callable[[int], lance.LanceDataset]
) -> lance.LanceDataset:
    """Open a version, after checking that its manifest is unchanged and its files are complete.

    Raises:
        IndexDamagedError: Names the file that is not.
    """
    dataset = open_version(folder, number, record, open_)
    with reading_file(manifest_name(number)):
        files = sizes_of(dataset)
        dataset.schema  # noqa: B018 - Lance reads it only now, and panics if it is damaged
    check_sizes(folder / PASSAGES, files)
    return dataset


def open_version(
    folder: Path, number: int, record: Record, open_: Callable[[int], lance.LanceDataset]
) -> lance.LanceDataset:
    """Open a version, after checking that its manifest is as committed.

    Raises:
        IndexDamagedError: The manifest is not, or cannot be read.
    """
    name = manifest_name(number)
    with reading_file(name):
        if why := why_changed(folder, name, record):
            raise IndexDamagedError(why)
        return open_(number)


def check_sizes(dataset: Path, files: Mapping[str, int | None]) -> None:
    """Check that files of a dataset exist and have their stated lengths.

    Raises:
        IndexDamagedError: Names one that does not.
    """
    for name, size in files.items():
        try:
            actual = (dataset / name).stat().st_size
        except OSError:
            raise IndexDamagedError(f"{name} is missing") from None
        if size and actual != size:
            raise IndexDamagedError(f"{name} has {actual:,} bytes instead of {size:,}")


def why_changed(folder: Path, name: str, record: Record) -> str:
    """Why a file differs from what was committed; "" if it does not. Reads the whole file."""
    try:
        digest = digest_of(folder / PASSAGES / name)
    except OSError as error:
        return f"{name} cannot be read ({error.strerror})"
    is_same = record.digests.get(name, digest) == digest
    return "" if is_same else f"{name} has changed since it was committed"


def sizes_of(dataset: lance.LanceDataset) -> dict[str, int | None]:
    """Data and deletion file of a version -> its length; None if it is not stated."""
    return sizes_in(fragment.metadata for fragment in dataset.get_fragments())


def sizes_in(fragments: Iterable[lance.FragmentMetadata]) -> dict[str, int | None]:
    """`sizes_of` for some fragments."""
    sizes: dict[str, int | None] = {}
    for metadata in fragments:
        sizes.update((f"data/{file.path}", file.file_size_bytes) for file in metadata.files)
        if metadata.deletion_file is not None:
            sizes[metadata.deletion_file.path(metadata.id)] = None
    return sizes


def manifest_name(number: int) -> str:
    """Name of a version's manifest."""
    return f"{VERSIONS}/{_NEWEST - number:020d}.manifest"


def numbers_in(dataset: Path) -> list[int]:
    """Numbers of the versions in a dataset's folder, newest first."""
    names = [path.stem for path in (dataset / VERSIONS).glob("*.manifest")]
    return sorted((_NEWEST - int(name) for name in names if name.isdecimal()), reverse=True)


def newest_mark(folder: Path) -> Mark:
    """Identifies the newest manifest by version, inode and time, so it changes with each commit."""
    for number in numbers_in(folder / PASSAGES)[:1]:
        with suppress(OSError):
            stat = (folder / PASSAGES / manifest_name(number)).stat()
            return number, stat.st_ino, stat.st_mtime_ns
    return None


def read_record(folder: Path, dataset: str = PASSAGES) -> Record:
    """Read the record of a dataset's last commit; without one, Lance's own hint, without digests.

    Raises:
        IndexDamagedError: There is a record, but it cannot be read.
    """
    for name in (RECORD, _HINT):
        try:
            stored = json.loads((folder / dataset / name).read_bytes())
            return Record(int(stored["version"]), dict(stored.get("digests", {})))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if name == RECORD:
                raise IndexDamagedError(f"{RECORD} cannot be read") from error
    return Record()


def flush_files(folder: Path, fragments: Sequence[lance.FragmentMetadata]) -> None:
    """Check the files of fragments, and sync them to the disk, before a manifest names them.

    Lance 14 ignores an error of its last write to a data file, so the file may be short.

    Raises:
        OSError: The disk refuses, or did not take all of a file.
    """
    try:
        check_sizes(folder / PASSAGES, sizes_in(fragments))
        for metadata in fragments:
            if (deleted := metadata.deletion_file) is not None:
                name, rows = deleted.path(metadata.id), deleted.num_deleted_rows
                check_deletions(folder / PASSAGES, name, rows)
    except IndexDamagedError as error:
        raise OSError(EIO, f"the disk did not take all that was written: {error}") from error
    for name in sizes_in(fragments):
        sync(folder / PASSAGES / name)
    _sync_folders(folder)


def check_deletions(dataset: Path, name: str, stated: int) -> None:
    """Read a deletion file, which states no size, and compare the number of its rows.

    It is an Arrow file, or a Roaring bitmap: a head with the number of containers, for each of
    them a key and its count less 1, the offsets, then 2 bytes a row or, above 4,096 rows, 8 kB
    (https://github.com/RoaringBitmap/RoaringFormatSpec).

    Raises:
        IndexDamagedError: It has not the stated number of rows.
    """
    with reading_file(name, also=(OSError, struct.error)):
        data = (dataset / name).read_bytes()
        if name.endswith(".arrow"):
            rows = pa.ipc.open_file(pa.py_buffer(data)).read_all().num_rows
        else:
            cookie, containers = struct.unpack_from("<II", data)
            if cookie != _ROARING:  # one with runs; `fragment.delete` writes none
                return
            counts = [1 + struct.unpack_from("<HH", data, 8 + 4 * n)[1] for n in range(containers)]
            length = 8 + sum(8 + (2 * count if count <= 4096 else 8192) for count in counts)
            rows = sum(counts) if len(data) == length else -1
        if rows != stated:
            raise IndexDamagedError(f"{name} has other rows than the {stated:,} deleted ones")


def flush(folder: Path, dataset: lance.LanceDataset, record: Record) -> Record:
    """Sync a commit to the disk, record it, and return the record.

    All files of the version are synced, including those of earlier commits, whose writer may have
    been killed before this step. A file with a digest in the record was synced before. The caller
    must hold the write lock.

    Raises:
        OSError: The disk refuses.
    """
    passages = folder / PASSAGES
    digests = dict(record.digests)
    for name in (*sizes_of(dataset), manifest_name(dataset.version)):
        if name not in digests:
            sync(passages / name)
            digests[name] = digest_of(passages / name)
    _sync_folders(folder)
    made = Record(dataset.version, digests)
    with write_atomically(passages / RECORD) as file:
        file.write(json.dumps({"version": made.version, "digests": digests}).encode())
    return made


def _sync_folders(folder: Path) -> None:
    """Sync the folders of an index, so that its files' names are on the disk."""
    for name in _NAMES:
        if (folder / PASSAGES / name).is_dir():
            sync(folder / PASSAGES / name)


def aside_folder(folder: Path) -> Path:
    """A new folder, named by the time, for damaged files of an index."""
    return folder / ASIDE / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def set_aside(folder: Path, names: Iterable[str], aside: Path) -> None:
    """Move files of an index, by their relative names, to a folder that nobody reads.

    Raises:
        OSError: The disk refuses.
    """
    for name in names:
        target = aside / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(target)
        sync(target.parent)
        sync((folder / name).parent)


def digest_of(path: Path) -> str:
    """Digest of a file's content: 128 bits in hex.

    Raises:
        OSError: The file cannot be read.
    """
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def reading(folder: Path, also: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turn what Lance and Arrow raise on an index's damaged files into one error.

    Args:
        also: Further exceptions to turn into it.

    Raises:
        IndexDamagedError: Names the file, if Lance does.
    """
    try:
        with reading_file(PASSAGES, also):
            yield
    except IndexDamagedError as error:
        if error.__cause__ is None:  # it says enough
            raise
        raise damaged(folder, str(error)) from error.__cause__


@contextmanager
def reading_file(name: str, also: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """`reading` for one file; the error does not name the index."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # in Rust; it has no better name
        if not is_panic and not isinstance(error, (*_FAULTS, *also)):
            raise
        message = _IN_RUST.sub("", str(error).partition("\n")[0])[:300]
        raise IndexDamagedError(f"{name} cannot be read: {message}") from error


def damaged(folder: Path, reason: str) -> IndexDamagedError:
    """The error for a damaged index."""
    return IndexDamagedError(
        f"The index {folder} is damaged: {reason}. `wye repair {folder}` says what can be done."
    )
