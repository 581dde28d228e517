"""Finds the version of the passages that counts: the newest whole one, byte for byte as committed.

Lance takes the newest manifest that it finds. If that is missing, Lance would silently go back one
version; if a power cut left it half written, Lance could open nothing. So `commits.json` records
each commit: its number, and the digest of every file that reading it needs. The record is synced to
the disk before anybody is told of the commit, and is read before Lance is asked.

What is not as it was committed is an `IndexDamagedError`; a disk that refuses is an `OSError`.
"""

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from errno import EIO
from functools import partial
from itertools import pairwise
from pathlib import Path

import lance
import pyarrow as pa
from lance.dataset import Session  # type: ignore[attr-defined]

from wye.backends.errors import IndexDamagedError
from wye.backends.files import digest_of, sync, write_atomically

PASSAGES = "passages.lance"
RECORD = "commits.json"
VERSIONS = "_versions"
INDICES = "_indices"
HINT = f"{VERSIONS}/latest_version_hint.json"
_NEWEST = 2**64 - 1  # manifest names count down from it, so that newer versions sort first
_ROARING = 12346  # the first number of a bitmap without runs
_IN_RUST = re.compile(r", /\S+\.rs:\d+:\d+")
_FAULTS = (ValueError, RuntimeError, pa.ArrowException)
Mark = tuple[int, int, int] | None
Opened = lance.LanceDataset | None
# Larger fragments are not merged, so that no write waits long. With a million rows, that would make
# questions no faster, and a write less than 0.1 s faster.
ROWS_PER_FRAGMENT = 8_192
# A write merges fragments below one of these sizes, so each row is rewritten only a few times.
TIERS = (1_024, ROWS_PER_FRAGMENT)
# Of 312,000 passages, one fragment without an index costs a question 7 ms, each further one 1.
MOST_SCANNED = 4
# A process that follows an index holds some kilobytes for each: with many small writes, an hour of
# versions would take megabytes.
MOST_VERSIONS = 1_000
# Lance's caches, before what `_cache_sizes` adds for each row: with less, Lance's own words of a
# million passages (3.6 million different ones) are read anew for every question, 300 MB.
_INDEX_BYTES, _METADATA_BYTES = 64_000_000, 32_000_000
_LEAST_DROPPED = 0.25  # versions are dropped only if at least this share of them can be


@dataclass(frozen=True, slots=True)
class Record:
    """The number of the last commit, 0 if unknown, and the digests of files by name."""

    version: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExaminedVersion:
    """A version, and what is wrong with it."""

    number: int
    dataset: lance.LanceDataset | None  # None if its manifest cannot be read
    fragments: Sequence[lance.LanceFragment]
    bad: tuple[int, ...]  # numbers of fragments that cannot be used
    fault: str  # "" if it is whole
    is_torn: bool  # its commit did not complete, so nobody was told of it

    @property
    def good(self) -> list[lance.LanceFragment]:
        """The fragments that can be used."""
        return [each for each in self.fragments if each.fragment_id not in self.bad]


class Survey:
    """The versions of an index, newest first, each with what is wrong with it.

    Attributes:
        record: The record of the last commit.
        fault: Why the record cannot be read; "" if it can.
        mark: Mark of the newest manifest, whole or not; see `newest_mark`.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[lance.LanceFragment], None] | None = None,
        opened: Opened = None,
    ) -> None:
        """Read the record; versions have the caches of an opened one.

        `read` checks the content of a fragment whose files have no recorded digests. Without it, no
        digests are compared but those of manifests.
        """
        self.folder, self._passages = folder, folder / PASSAGES
        self._read = read
        self._open = opened.checkout_version if opened else partial(open_dataset, self._passages)
        self._checked: dict[tuple[str, ...], str] = {}  # files of a fragment -> what is wrong
        self.record, self.fault = Record(), ""
        try:  # before listing versions, since writers record a version after making it
            self.record = read_record(folder)
        except IndexDamagedError as error:
            self.fault = str(error)
        self.mark = newest_mark(folder)

    def versions(self) -> Iterator[ExaminedVersion]:
        """Examine one version after the other, the last committed one even if it is missing."""
        return map(self.examine, numbers_in(self._passages, self.record.version))

    def newest_whole(self) -> tuple[lance.LanceDataset, str, list[int]]:
        """The newest whole version, why it is not the last committed one, and the torn after it."""
        faults, torn = [self.fault] if self.fault else [], list[int]()
        for version in self.versions():
            if version.dataset is not None and not version.fault:
                last = self.record.version or (self.mark or [0])[0]
                fault = faults[0] if faults else ""
                if fault and version.number < last:
                    fault += f", and version {version.number} is used instead of {last}"
                return version.dataset, str(damaged(self.folder, fault)) if fault else "", torn
            if version.is_torn:
                torn.append(version.number)
            else:
                faults.append(version.fault)
        raise damaged(self.folder, f"{(faults or ['no version is left'])[0]}, and none is whole")

    def examine(self, number: int) -> ExaminedVersion:
        """Open a version, and check its manifest and its fragments."""
        name, is_later = manifest_name(number), 0 < self.record.version < number
        try:
            check_files(self._passages, {name: None}, self.record.digests)
            with reading(name):
                dataset = self._open(number)
                dataset.schema  # noqa: B018 - Lance reads it only now, and panics if it is damaged
                fragments = dataset.get_fragments()
        except IndexDamagedError as error:
            return ExaminedVersion(number, None, (), (), str(error), is_later)
        whys = {each.fragment_id: self._why_bad(each) for each in fragments}
        bad = {id_: why for id_, why in whys.items() if why}
        fault, is_torn = next(iter(bad.values()), ""), is_later and bool(bad)
        return ExaminedVersion(number, dataset, fragments, tuple(bad), fault, is_torn)

    def _why_bad(self, fragment: lance.LanceFragment) -> str:
        """Why a fragment cannot be used; "" if it can. Versions share fragments."""
        sizes, digests = sizes_in([fragment.metadata]), self.record.digests if self._read else {}
        names = tuple(sizes)
        if names not in self._checked:
            self._checked[names] = ""
            try:
                check_files(self._passages, sizes, digests)
                if self._read and not digests.keys() >= sizes.keys():
                    self._read(fragment)
            except IndexDamagedError as error:
                self._checked[names] = str(error)
        return self._checked[names]


def open_dataset(
    uri: str | Path,
    version: int | None = None,
    *,
    opened: Opened = None,
    options: dict[str, str] | None = None,
) -> lance.LanceDataset:
    """Open a dataset with caches for its size, or those of an opened one; Lance's would be 7 GB."""
    sizes = _cache_sizes(opened.count_rows() if opened else 0)
    session = opened.session() if opened else Session(*sizes)
    dataset = lance.dataset(uri, version, session=session, storage_options=options)
    if (needed := _cache_sizes(dataset.count_rows())) == sizes:
        return dataset
    return lance.dataset(uri, dataset.version, session=Session(*needed), storage_options=options)


def _cache_sizes(rows: int) -> tuple[int, int]:
    """Bytes of Lance's caches of indices and of metadata; they double with the rows."""
    doubled = 1 << max(rows - 1, 0xFFFF).bit_length()
    return _INDEX_BYTES + 128 * doubled, _METADATA_BYTES + 64 * doubled


def check_files(
    dataset: Path, sizes: Mapping[str, int | None], digests: Mapping[str, str] | None = None
) -> None:
    """Check that files of a dataset have their lengths and digests, as far as those are known."""
    for name, size in sizes.items():
        committed = (digests or {}).get(name)
        try:
            actual = (dataset / name).stat().st_size
            digest = digest_of(dataset / name) if committed else None
        except FileNotFoundError:
            raise IndexDamagedError(f"{name} is missing") from None
        except OSError as error:
            raise IndexDamagedError(f"{name} cannot be read ({error.strerror})") from None
        if size and actual != size:
            raise IndexDamagedError(f"{name} has {actual:,} bytes instead of {size:,}")
        if digest != committed:
            raise IndexDamagedError(f"{name} has changed since it was committed")


def check_indices(folder: Path, dataset: lance.LanceDataset, digests: Mapping[str, str]) -> None:
    """Check the files of Lance's indices of a version that have digests."""
    folders = tuple(f"{name}/" for name in indices_of(dataset))
    files = dict.fromkeys(name for name in digests if name.startswith(folders))
    try:
        check_files(folder / PASSAGES, files, digests)
    except IndexDamagedError as error:
        raise IndexDamagedError(
            f"An index of Lance's is damaged: {error}. Make them again with "
            f"`wye index --engine dataset --index {folder}`; no passage is lost."
        ) from None


def sizes_of(dataset: lance.LanceDataset) -> dict[str, int | None]:
    """Data and deletion file of a version -> its length; None if it is not stated."""
    return sizes_in(fragment.metadata for fragment in dataset.get_fragments())


def indices_of(dataset: lance.LanceDataset) -> list[str]:
    """Folders of Lance's indices of a version."""
    indices = dataset.describe_indices()
    return [f"{INDICES}/{segment.uuid}" for index in indices for segment in index.segments]


def sizes_in(fragments: Iterable[lance.FragmentMetadata]) -> dict[str, int | None]:
    """`sizes_of` for some fragments."""
    sizes: dict[str, int | None] = {}
    for metadata in fragments:
        sizes.update((f"data/{file.path}", file.file_size_bytes) for file in metadata.files)
        if metadata.deletion_file is not None:
            sizes[metadata.deletion_file.path(metadata.id)] = None
    return sizes


def fragments_by_size(dataset: lance.LanceDataset) -> dict[int, int]:
    """Size in rows to merge to -> number of fragments of that tier."""
    sizes = [fragment.metadata.num_rows for fragment in dataset.get_fragments()]
    tiers = pairwise((0, *TIERS))
    return {most: sum(least <= size < most for size in sizes) for least, most in tiers}


def take_in(dataset: lance.LanceDataset, least: int = 0) -> None:
    """Have Lance index rows that an index does not cover yet, if they are more than `least`.

    They get an index of their own, which is searched beside the others, or one with the last
    `ROWS_PER_FRAGMENT` of them: to merge a row with a million takes Lance minutes.
    """
    rows, sizes = dataset.count_rows(), {one.fragment_id: one for one in dataset.get_fragments()}
    for index in dataset.describe_indices():
        if rows - index.num_rows_indexed > least:
            last = (sizes[number] for number in index.segments[-1].fragment_ids if number in sizes)
            is_small = sum(one.metadata.num_rows for one in last) < ROWS_PER_FRAGMENT
            dataset.optimize.optimize_indices(
                index_names=[index.name], num_indices_to_merge=int(is_small)
            )


def manifest_name(number: int) -> str:
    """Name of a version's manifest."""
    return f"{VERSIONS}/{_NEWEST - number:020d}.manifest"


def numbers_in(dataset: Path, recorded: int = 0) -> list[int]:
    """Numbers of the versions in a dataset's folder and the recorded one, newest first."""
    names = (path.stem for path in (dataset / VERSIONS).glob("*.manifest"))
    numbers = {recorded, *(_NEWEST - int(name) for name in names if name.isdecimal())}
    return sorted(numbers - {0}, reverse=True)


def has_versions(folder: Path) -> bool:
    """Whether a folder has a completed commit, or had one."""
    passages = folder / PASSAGES
    names = (*(passages / VERSIONS).glob("*.manifest"), passages / RECORD, passages / HINT)
    return any(path.exists() for path in names)


def newest_mark(folder: Path) -> Mark:
    """Identifies the newest manifest by version, inode and time, so it changes with each commit."""
    for number in numbers_in(folder / PASSAGES)[:1]:
        with suppress(OSError):
            stat = (folder / PASSAGES / manifest_name(number)).stat()
            return number, stat.st_ino, stat.st_mtime_ns
    return None


def read_record(folder: Path) -> Record:
    """Read the record of the last commit; without one, Lance's own hint, without digests."""
    for name in (RECORD, HINT):
        try:
            stored = json.loads((folder / PASSAGES / name).read_bytes())
            return Record(int(stored["version"]), dict(stored.get("digests", {})))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if name == RECORD:
                raise IndexDamagedError(f"{RECORD} cannot be read") from error
    return Record()


def flush_files(folder: Path, fragments: Sequence[lance.FragmentMetadata]) -> None:
    """Check the files of fragments, which Lance 14 may have left short, and sync them."""
    passages, sizes = folder / PASSAGES, sizes_in(fragments)
    try:
        check_files(passages, sizes)
        for metadata in fragments:
            if (deleted := metadata.deletion_file) is not None:
                check_deletions(passages, deleted.path(metadata.id), deleted.num_deleted_rows)
    except IndexDamagedError as error:
        raise OSError(EIO, f"the disk did not take all that was written: {error}") from error
    _sync(passages, sizes)


def check_deletions(dataset: Path, name: str, expected: int) -> None:
    """Read a deletion file, which states no size, and compare the number of its rows.

    It is an Arrow file, or a Roaring bitmap (https://github.com/RoaringBitmap/RoaringFormatSpec):
    a head with the number of containers, for each of them a key and its count less 1, the offsets,
    then 2 bytes a row or, above 4,096 rows, 8 kB.
    """
    with reading(name, also=(OSError, struct.error)):
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
        if rows != expected:
            raise IndexDamagedError(f"{name} has other rows than the {expected:,} deleted ones")


def flush(folder: Path, dataset: lance.LanceDataset, record: Record) -> Record:
    """Sync a commit to the disk, record it, and return the record; call it under the write lock.

    Files of earlier commits are synced too, as their writer may have been killed before this step.
    One with a digest in the record was synced before.
    """
    passages, indices = folder / PASSAGES, indices_of(dataset)
    paths = (path for name in indices for path in (passages / name).iterdir() if path.is_file())
    of_indices = [f"{INDICES}/{path.parent.name}/{path.name}" for path in paths]
    files = (*sizes_of(dataset), *of_indices, manifest_name(dataset.version))
    new = [name for name in files if name not in record.digests]
    _sync(passages, (*new, *({INDICES, *indices} if of_indices else ())))
    digests = {**record.digests, **{name: digest_of(passages / name) for name in new}}
    with write_atomically(passages / RECORD) as file:
        file.write(json.dumps({"version": dataset.version, "digests": digests}).encode())
    return Record(dataset.version, digests)


def _sync(passages: Path, names: Iterable[str]) -> None:
    """Sync files, and then the folders of a dataset, so that also their names are on the disk."""
    folders = [name for name in ("data", "_deletions", VERSIONS, "") if (passages / name).is_dir()]
    for name in (*names, *folders):
        sync(passages / name)


def drop_superseded(folder: Path, dataset: lance.LanceDataset, keep: timedelta) -> None:
    """Delete versions superseded longer than `keep` ago, unless they are few, and unused files.

    Lance's own `older_than` goes by the time of writing: it would drop last week's version, which
    was the newest until a second ago and which every reader still holds.
    """
    numbers = numbers_in(folder)
    written = {each: (folder / manifest_name(each)).stat().st_mtime for each in numbers}
    # By the clock of the disk, since ours may have jumped or be another than the readers'.
    horizon = written[dataset.version] - keep.total_seconds()
    superseded = [
        number
        for age, (successor, number) in enumerate(pairwise(numbers), start=1)
        if age >= MOST_VERSIONS or written[successor] <= horizon
    ]
    if len(superseded) >= _LEAST_DROPPED * len(numbers):
        dataset.cleanup_old_versions(
            versions=superseded,
            # Versions that were tagged with Lance's own tools are kept, without an error.
            error_if_tagged_old_versions=False,
            # Also deletes files of killed writers; we hold the lock, so no writer is active.
            delete_unverified=True,
        )


def aside_folder(folder: Path) -> Path:
    """A new folder, named by the time, for damaged files of an index."""
    return folder / "damaged" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def set_aside(folder: Path, names: Iterable[str], aside: Path) -> None:
    """Move files of an index, by their relative names, to a folder that nobody reads."""
    for name in names:
        target = aside / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(target)
        sync(target.parent)
        sync((folder / name).parent)


def reason_of(error: BaseException) -> str:
    """The first line of what Lance says, without the places in its source."""
    return _IN_RUST.sub("", str(error).partition("\n")[0])[:300]


@contextmanager
def reading(what: Path | str, also: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turn what Lance and Arrow raise on damaged files, and `also`, into an `IndexDamagedError`."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"  # in Rust; it has no better name
        if not is_panic and not isinstance(error, (*_FAULTS, *also)):
            raise
        message = reason_of(error)
        if isinstance(what, Path):
            raise damaged(what, f"{PASSAGES} cannot be read: {message}") from error
        raise IndexDamagedError(f"{what} cannot be read: {message}") from error


def damaged(folder: Path, reason: str) -> IndexDamagedError:
    """The error for a damaged index."""
    return IndexDamagedError(
        f"The index {folder} is damaged: {reason}. `wye repair {folder}` says what can be done."
    )
