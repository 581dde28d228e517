"""Which version of the passages counts: the newest that is whole, byte for byte as committed.

Lance takes the newest manifest that it finds. One that is gone would be a silent step back, and one
that a power cut left half written would end everything. So each commit is also written down in
`commits.json`: its number, and the digest of every file that it is read from. That is on the disk
before anybody is told of the commit, and read before Lance is asked.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import lance
import pyarrow as pa

from backends.errors import IndexDamagedError
from backends.files import sync, write_atomically

PASSAGES = "passages.lance"
RECORD = "commits.json"
ASIDE = "damaged"
VERSIONS = "_versions"
_HINT = f"{VERSIONS}/latest_version_hint.json"
_NAMES = ("data", "_deletions", VERSIONS, "")
_NEWEST = 2**64 - 1  # newer versions sort first, for stores that list by name
_BLOCK = 1 << 20
_IN_RUST = re.compile(r", /\S+\.rs:\d+:\d+")
_FAULTS = (ValueError, RuntimeError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Record:
    """What was committed last.

    Attributes:
        version: Its number; 0 where nobody knows.
        digests: Of files by their names below `passages.lance`.
    """

    version: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """The newest whole version of an index, and what is wrong with later ones.

    Attributes:
        newest: The highest number of a version, whole or not.
        torn: Versions that were never committed to the end, so that nobody was told of them.
        fault: Why this is not what was committed last; "" where it is.
    """

    dataset: lance.LanceDataset
    record: Record
    newest: int
    torn: tuple[int, ...]
    fault: str


def newest_whole(folder: Path, open_: Callable[[int], lance.LanceDataset]) -> Found:
    """The newest version of an index that can be read.

    Args:
        folder: Of the index; it has a version.
        open_: Gives a version by number.

    Raises:
        IndexDamagedError: There is none.
    """
    faults: list[str] = []
    torn: list[int] = []
    record = Record()
    try:  # before looking for versions: a writer records what is there already
        record = read_record(folder)
    except IndexDamagedError as error:
        faults.append(str(error))
    numbers = numbers_in(folder)
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
        said = f"{folder} is damaged ({faults[0]}): " if faults else ""
        if said and number != record.version:
            said += f"version {number} is used instead of {record.version or numbers[0]}. "
        return Found(dataset, record, numbers[0], tuple(torn), said and said + _advice(folder))
    faults = faults or [f"{manifest_name(record.version)} is missing"]
    raise IndexDamagedError(
        f"{folder / PASSAGES} cannot be read as a Lance dataset ({faults[0]}). {_advice(folder)}"
    )


def open_whole(
    folder: Path, number: int, record: Record, open_: Callable[[int], lance.LanceDataset]
) -> lance.LanceDataset:
    """A version whose manifest is as committed and whose files are there at their full length.

    Raises:
        IndexDamagedError: Names the file that is not.
    """
    name = manifest_name(number)
    with _reading(name):
        content = (folder / PASSAGES / name).read_bytes()
    if record.digests.get(name, digest := _digest(content)) != digest:
        raise IndexDamagedError(f"{name} is not as it was committed")
    with _reading(name):
        dataset = open_(number)
        files = sizes_of(dataset)
    check_sizes(folder / PASSAGES, files)
    return dataset


def check_sizes(dataset: Path, files: Mapping[str, int | None]) -> None:
    """Refuse files in the folder of a dataset that are missing or have another length than stated.

    Raises:
        IndexDamagedError: Names one.
    """
    for name, size in files.items():
        try:
            found = (dataset / name).stat().st_size
        except OSError:
            raise IndexDamagedError(f"{name} is missing") from None
        if size and found != size:
            raise IndexDamagedError(f"{name} has {found:,} bytes instead of {size:,}")


def changed_files(folder: Path, names: Mapping[str, object], record: Record) -> Iterator[str]:
    """Files that are not as they were committed, byte for byte, with the reason; reads them all."""
    for name in names:
        try:
            if record.digests.get(name, digest := digest_of(folder / PASSAGES / name)) != digest:
                yield f"{name} is not as it was committed"
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})"


def sizes_of(dataset: lance.LanceDataset) -> dict[str, int | None]:
    """Data and deletion files of a version with their lengths, as far as they are stated."""
    return sizes_in(fragment.metadata for fragment in dataset.get_fragments())


def sizes_in(fragments: Iterable[lance.FragmentMetadata]) -> dict[str, int | None]:
    """The same for some fragments."""
    found: dict[str, int | None] = {}
    for metadata in fragments:
        found.update((f"data/{file.path}", file.file_size_bytes) for file in metadata.files)
        if metadata.deletion_file is not None:
            found[metadata.deletion_file.path(metadata.id)] = None
    return found


def files_of(folder: Path, dataset: lance.LanceDataset) -> list[Path]:
    """Every file that reading a version in a `passages.lance` takes."""
    return [folder / name for name in (*sizes_of(dataset), manifest_name(dataset.version))]


def manifest_name(number: int) -> str:
    """Of a version."""
    return f"{VERSIONS}/{_NEWEST - number:020d}.manifest"


def numbers_in(folder: Path) -> list[int]:
    """Numbers of the versions of an index, newest first."""
    names = [path.stem for path in (folder / PASSAGES / VERSIONS).glob("*.manifest")]
    return sorted((_NEWEST - int(name) for name in names if name.isdecimal()), reverse=True)


def read_record(folder: Path) -> Record:
    """What was committed last; for an index of earlier Wyes what Lance noted, without digests.

    Raises:
        IndexDamagedError: It was written down, and cannot be read.
    """
    for name in (RECORD, _HINT):
        try:
            stored = json.loads((folder / PASSAGES / name).read_bytes())
            return Record(int(stored["version"]), dict(stored.get("digests", {})))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if name == RECORD:
                raise IndexDamagedError(f"{RECORD} cannot be read") from error
    return Record()


def flush_files(folder: Path, fragments: Iterable[lance.FragmentMetadata]) -> None:
    """Have the files of fragments on the disk, before a manifest there names them.

    Raises:
        OSError: The disk refuses.
    """
    for name in sizes_in(fragments):
        sync(folder / PASSAGES / name)
    _sync_folders(folder)


def flush(folder: Path, dataset: lance.LanceDataset, record: Record) -> Record:
    """Have a commit on the disk, and written down; returns the record of it.

    Whoever is told that a version is written relies on all of its files, those of earlier commits
    included: their writer may have been killed before it came to this. To sync what is on the disk
    already costs next to nothing. Only the holder of the write lock may ask.

    Raises:
        OSError: The disk refuses.
    """
    passages = folder / PASSAGES
    digests = dict(record.digests)
    for path in files_of(passages, dataset):
        sync(path)
        name = path.relative_to(passages).as_posix()
        if name not in digests:
            digests[name] = digest_of(path)
    _sync_folders(folder)
    made = Record(dataset.version, digests)
    with write_atomically(passages / RECORD) as file:
        file.write(json.dumps({"version": made.version, "digests": digests}).encode())
    return made


def _sync_folders(folder: Path) -> None:
    """Have the names of all files of an index on the disk."""
    for name in _NAMES:
        if (folder / PASSAGES / name).is_dir():
            sync(folder / PASSAGES / name)


def set_aside(folder: Path, names: Iterable[str]) -> Path:
    """Move files of an index where nobody reads them; returns the folder that they are in then.

    Raises:
        OSError: The disk refuses.
    """
    aside = folder / ASIDE / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    for name in names:
        target = aside / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(target)
        sync(target.parent)
        sync((folder / name).parent)
    return aside


def digest_of(path: Path) -> str:
    """128 bits in hex of a file's content.

    Raises:
        OSError: It cannot be read.
    """
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


@contextmanager
def reading(folder: Path, also: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """What Lance and Arrow raise on the damaged files of an index, as one error.

    Raises:
        IndexDamagedError: Names the file, as far as Lance does.
    """
    try:
        with _reading(f"{PASSAGES} of {folder}", also):
            yield
    except IndexDamagedError as error:
        if error.__cause__ is None:  # it says enough
            raise
        raise IndexDamagedError(f"{error}. {_advice(folder)}") from error.__cause__


@contextmanager
def _reading(name: str, also: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # in Rust; it has no better name
        if not is_panic and not isinstance(error, (*_FAULTS, *also)):
            raise
        said = _IN_RUST.sub("", str(error).partition("\n")[0])[:300]
        raise IndexDamagedError(f"{name} cannot be read: {said}") from error


def _advice(folder: Path) -> str:
    return f"`wye repair {folder}` says what can be done."
