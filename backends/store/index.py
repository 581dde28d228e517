"""An index: a folder with one Lance dataset of passages, read by version and changed by commits.

Each commit is atomic, and is on the disk when the method that makes it returns.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments
from lance.optimize import Compaction

from wye.backends.errors import IndexDamagedError, IndexMismatchError, IndexNotFoundError
from wye.backends.files import LOCK, NOTE, address_of, digest_of, uninterrupted, writer_lock
from wye.backends.store import versions
from wye.backends.store.derived import FOLDER as DERIVED
from wye.backends.store.derived import DerivedFiles, newest_in
from wye.backends.store.schema import (
    FINGERPRINT_KEY,
    SCHEMA_VERSION,
    SEARCHED,
    VERSION_KEY,
    passage_schema,
)
from wye.backends.store.versions import PASSAGES, Opened, Record, Survey

_LONE = re.compile(r"[\ud800-\udfff]")
KEEP_VERSIONS = timedelta(hours=1)
DERIVED_FROM = 1_000  # passages; derived files of fewer are derived in a fifth of a second


class PassageStore:
    """One version of an index, readable and unchanged whatever is written; `newest` is another one.

    All methods raise an `IndexDamagedError`, which names the file, if what they need is not as
    committed.

    Attributes:
        fault: Why this version is not the last committed one; "" if it is.
    """

    def __init__(
        self, path: Path, dataset: lance.LanceDataset, mark: versions.Mark = None, fault: str = ""
    ) -> None:
        """Wrap a version of the `passages.lance` in an index folder; use `create` or `open`."""
        _require_ours(path, dataset.schema)
        self.path, self.fault = path, fault
        self.dimension = int(dataset.schema.field("vector").type.list_size)
        self.fingerprint: dict[str, str] = json.loads(dataset.schema.metadata[FINGERPRINT_KEY])
        self._dataset, self._mark = dataset, mark

    @classmethod
    def create(
        cls, path: str | Path, dimension: int, fingerprint: Mapping[str, str]
    ) -> "PassageStore":
        """Create an empty index, or open an existing one; safe to repeat after a crash.

        Raises:
            IndexNotFoundError: The path holds something else.
            IndexMismatchError: The index was written by another analyser.
            IndexLockedError: Another process is creating it right now.
        """
        folder = Path(path)
        if address_of(folder):
            from wye.backends.store.remote import RemoteStore  # noqa: PLC0415 - a subclass

            return RemoteStore.create(folder, dimension, fingerprint)
        if not versions.has_versions(folder):
            _refuse_foreign(folder)
            folder.mkdir(parents=True, exist_ok=True)
            with writer_lock(folder):
                # The former holder of the lock may have created it since the check above.
                if not versions.has_versions(folder):
                    empty = passage_schema(dimension, fingerprint).empty_table()
                    dataset = lance.write_dataset(empty, folder / PASSAGES, mode="create")
                    versions.flush(folder, dataset, Record())
        return cls.open(folder, fingerprint)

    def __reduce__(self) -> tuple[Callable[[Path], "PassageStore"], tuple[Path]]:
        """Another process opens the newest version."""
        return PassageStore.open, (self.path,)

    def uri(self, name: str) -> str:
        """Where a dataset of the index is."""
        return f"{address_of(self.path) or self.path}/{name}"

    @classmethod
    def open(
        cls, path: str | Path, fingerprint: Mapping[str, str] | None = None, opened: Opened = None
    ) -> "PassageStore":
        """Open the newest version; `fingerprint` is as for `check`, `opened` as for `Survey`.

        Raises:
            IndexNotFoundError: There is no index, an incomplete one, or something else.
            IndexMismatchError: Another schema version or analyser wrote it.
            IndexDamagedError: No version of it is whole.
        """
        folder = Path(path)
        if address_of(folder):
            from wye.backends.store.remote import RemoteStore  # noqa: PLC0415 - a subclass

            return RemoteStore.open(folder, fingerprint, opened)
        if not versions.has_versions(folder):
            raise IndexNotFoundError(
                f"There is no index at {folder} (or one that was never finished). "
                "Make it with `wye index`, or check the path."
            )
        survey = Survey(folder, opened=opened)
        dataset, fault, _ = survey.newest_whole()
        return cls(folder, dataset, survey.mark, fault).check(fingerprint)

    def check(self, fingerprint: Mapping[str, str] | None) -> Self:
        """This index if it is pinned to the analyser in use, else an `IndexMismatchError`."""
        stored = self.fingerprint
        fingerprint = stored if fingerprint is None else fingerprint
        pins = {key: (stored.get(key), fingerprint.get(key)) for key in {*stored, *fingerprint}}
        changed = sorted((key, *both) for key, both in pins.items() if both[0] != both[1])
        differences = [f"{key} is {a!r} in the index and {b!r} here" for key, a, b in changed]
        if differences:
            raise IndexMismatchError(
                f"Index {self.path} was written by another analyser: {'; '.join(differences)}. Use "
                "the models it was written with, or make an index of its documents with these: "
                f"`wye index {self.path} --index NEW`."
            )
        return self

    is_remote = False
    """Whether it is in an object store."""
    options: ClassVar[dict[str, str] | None] = None
    """Lance's options for the object store."""

    def beside(self, name: str) -> lance.LanceDataset:
        """The newest version of a dataset of the index."""
        return versions.open_dataset(self.uri(name), opened=self._dataset, options=self.options)

    def reading(self, *also: type[Exception]) -> AbstractContextManager[None]:
        """Turn what Lance and Arrow raise while this is read, and further errors, into ours."""
        return versions.reading(self.path, also=(OSError, *also))

    @property
    def version(self) -> int:
        """Number of the current version."""
        return int(self._dataset.version)

    def versions(self) -> dict[int, datetime]:
        """Number of each version that is kept -> when it was written, in UTC, oldest first."""
        with self.reading():
            versions = ((each["version"], each["timestamp"]) for each in self._dataset.versions())
            # Lance gives local times without a zone, as `astimezone` assumes.
            return {n: cast(datetime, at).astimezone(UTC) for n, at in sorted(versions)}

    def count(self) -> int:
        """Number of passages in the current version."""
        with self.reading():
            return int(self._dataset.count_rows())

    def newest(self) -> "PassageStore":
        """The newest whole version, this one if it is, or an `IndexMismatchError`."""
        return self if self.is_newest else self.open(self.path, self.fingerprint, self._dataset)

    @property
    def is_newest(self) -> bool:
        """Whether no version was added or removed since this one was opened."""
        return self._mark is not None and self._mark == versions.newest_mark(self.path)

    def check_files(self, digests: Mapping[str, str] | None = None) -> None:
        """Check the lengths of the version's files, and their digests if given."""
        with self.reading():
            files = versions.sizes_of(self._dataset)
        if digests is not None:
            files[versions.manifest_name(self.version)] = None
        try:
            versions.check_files(self.path / PASSAGES, files, digests)
        except IndexDamagedError as error:
            raise versions.damaged(self.path, str(error)) from None
        if digests is not None:
            versions.check_indices(self.path, self._dataset, digests)

    def check_content(self) -> None:
        """Check that the index is as last committed, byte for byte; reads all of it."""
        if self.fault:
            raise IndexDamagedError(self.fault)
        self.check_files(versions.read_record(self.path).digests)

    @cached_property
    def is_large(self) -> bool:
        """Whether it has derived files, and a version is read on the base of an earlier one."""
        return self.count() >= DERIVED_FROM

    @cached_property
    def derived(self) -> DerivedFiles | None:
        """The derived files of the current version; None for a small index."""
        if not self.is_large:
            return None
        with self.reading():
            manifest = digest_of(self.path / PASSAGES / versions.manifest_name(self.version))
        folder = self.path / DERIVED / f"{self.version}-{manifest[:16]}"
        # Nothing is written to a damaged index before it is repaired.
        return DerivedFiles(folder, self.fingerprint, is_persistent=not self.fault)

    @property
    def newest_derived(self) -> DerivedFiles | None:
        """The derived files that were written last, of whatever version; None if there are none."""
        if (files := self.derived) is None or (folder := newest_in(self.path)) is None:
            return None
        if folder == files.folder:
            return files
        return DerivedFiles(folder, self.fingerprint, is_persistent=False)

    def snapshot(self) -> lance.LanceDataset:
        """The current version as a Lance dataset, for reading in bulk; it never changes."""
        return self._dataset

    @contextmanager
    def writer(self) -> "Iterator[Writer]":
        """Hold the write lock, and write on top of the newest version.

        Raises:
            IndexLockedError: Another writer holds the lock; says who.
            IndexDamagedError: The last commit is damaged; nothing is written before a repair.
            IndexMismatchError: The index was made again with another analyser.
        """
        with writer_lock(self.path):
            survey = Survey(self.path, opened=self._dataset)
            dataset, fault, torn = survey.newest_whole()
            newest = PassageStore(self.path, dataset, survey.mark).check(self.fingerprint)
            if fault:
                raise IndexDamagedError(fault)
            # A power cut in the middle of a commit left these; nobody was told of them.
            names = [f"{PASSAGES}/{versions.manifest_name(number)}" for number in torn]
            versions.set_aside(self.path, names, versions.aside_folder(self.path))
            yield Writer(newest, survey.record)


def _require_ours(folder: Path, schema: pa.Schema) -> None:
    """Check that a dataset is an index of this schema version; see `PassageStore.open`."""
    version = (schema.metadata or {}).get(VERSION_KEY, b"").decode()
    if not version:
        raise IndexNotFoundError(
            f"{folder} holds a Lance dataset, but not one that Wye wrote. Check the path."
        )
    if version != SCHEMA_VERSION:
        raise IndexMismatchError(
            f"Index {folder} has schema version {version}; this Wye reads {SCHEMA_VERSION}. "
            "Index the corpus again into a new folder, or run the Wye that wrote it."
        )


def _refuse_foreign(folder: Path) -> None:
    """Raise an `IndexNotFoundError` if a folder holds something else than a half-made index."""
    if folder.exists() and not folder.is_dir():
        raise IndexNotFoundError(f"{folder} is a file; an index is a folder. Give another path.")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set[str]()
    if others := sorted(names - {PASSAGES, DERIVED, LOCK, NOTE}):
        raise IndexNotFoundError(
            f"{folder} contains no index but other files ({', '.join(others[:3])}). Give a new or "
            "an empty folder."
        )


class Writer:
    """Writes to an index, whose lock is held for as long as the `with` block runs.

    It began with the version `index`; `dataset` is the newest, including this writer's commits.
    """

    retries = 20  # as Lance would

    def __init__(self, index: PassageStore, record: Record) -> None:
        """Start from the newest version; `PassageStore.writer` makes one and takes the lock."""
        self.folder, self.dataset = index.path, index.snapshot()
        self.index, self._record = index, record

    @property
    def version(self) -> int:
        """Number of the newest version."""
        return int(self.dataset.version)

    def check_newest(self) -> None:
        """Raise an `IndexLockedError` if somebody else has written, where there is no lock."""

    def upsert(
        self, rows: pa.RecordBatch, stale: Sequence[str] = (), replaced: Sequence[str] | None = None
    ) -> int:
        """Insert rows with new ids, replace rows with known ids, delete stale ids, in one commit.

        `replaced` are those of the rows' ids that are stored; None to look for all. Returns the
        number of deleted passages, without the replaced ones. A `ValueError` if an id occurs twice.
        """
        ids = rows.column("id").to_pylist()
        if len({*ids, *stale}) != len(ids) + len(stale):
            raise ValueError("An id may occur only once in the rows to write and the stale ids")
        # Lance's own merge also reads the ids of all passages where every row is a new one.
        former = [*(ids if replaced is None else replaced), *stale]
        with self.guard():
            new = new_fragments(rows, self.dataset) if ids else []
        return len(self.replace(new, former).difference(ids))

    def replace(self, new: Sequence[lance.FragmentMetadata], former: Sequence[str]) -> set[str]:
        """Add written fragments and delete passages, in one commit; the ids that were stored."""
        stored, updated, emptied = set[str](), list[lance.FragmentMetadata](), list[int]()
        if former:
            condition = any_of("id", former)
            with self.guard():
                # A scan of all fragments is as fast as one of a single fragment.
                matches = self.dataset.to_table(["id"], filter=condition, with_row_address=True)
                stored = {*matches["id"].to_pylist()}
                holding = {*pc.unique(pc.shift_right(matches["_rowaddr"], 32)).to_pylist()}
                fragments = self.dataset.get_fragments()
                fragments = [each for each in fragments if each.fragment_id in holding]
                updated, emptied = without_rows(fragments, condition)
        if new or stored:
            change = lance.LanceOperation.Update(emptied, updated, [*new], [], [])
            self.commit(change, [*new, *updated])
        return stored

    def delete(self, ids: Sequence[str]) -> int:
        """Delete passages by id; unknown ids are ignored; returns the number of deleted ones."""
        return len(self.replace((), ids))

    def guard(self) -> AbstractContextManager[None]:
        """As `PassageStore.reading`, but errors of a full disk pass."""
        return versions.reading(self.folder, also=())

    def commit(
        self,
        change: lance.LanceOperation.BaseOperation,
        fragments: Sequence[lance.FragmentMetadata],
    ) -> None:
        """Commit a version; its files are synced before its manifest names them."""
        self.check_newest()
        self.flush(fragments)
        former = self.dataset
        with uninterrupted(), self.guard():
            self.dataset = lance.LanceDataset.commit(
                former, change, read_version=self.version, max_retries=self.retries
            )
        try:
            self.record()
        except OSError:  # the caller is refused, so the version must not take effect later
            with suppress(OSError, IndexDamagedError):
                if versions.read_record(self.folder).version < self.version:
                    (self.folder / PASSAGES / versions.manifest_name(self.version)).unlink()
                    self.dataset = former
            raise

    def adopt(self) -> None:
        """Go on from a version that Lance has committed by itself, such as one with an index."""
        with self.guard():
            self.dataset = self.index.beside(PASSAGES)
        self.record()

    def flush(self, fragments: Sequence[lance.FragmentMetadata]) -> None:
        """Sync new files, before a manifest names them."""
        versions.flush_files(self.folder, fragments)

    def record(self, former: Record | None = None) -> None:
        """Sync and record the newest version with its files, by the last record or another one."""
        self._record = versions.flush(self.folder, self.dataset, former or self._record)

    def merge_small(self, fragments: int) -> None:
        """Merge one group of fragments, if there are so many of about one size.

        Lance scans what it has not indexed, at a price for each fragment more than for each row. So
        where it searches, the smallest are merged sooner, and many rows are indexed.
        """
        crowds = versions.fragments_by_size(self.dataset)
        searches = bool(self.dataset.describe_indices())
        crowded = {rows for rows, count in crowds.items() if count >= fragments}
        if searches and crowds[versions.TIERS[0]] >= versions.MOST_SCANNED:
            crowded.add(versions.TIERS[0])
        if crowded:
            self.compact(rows=max(crowded), groups=1)
        if searches:
            self.take_in(versions.TIERS[0])

    def take_in(self, least: int = 0) -> None:
        """Have Lance index the rows that its indices lack, if they are more than `least`."""
        version = self.version
        with self.guard(), uninterrupted():
            versions.take_in(self.dataset, least)
        if self.version > version:
            self.record()

    def compact(
        self,
        keep: timedelta = KEEP_VERSIONS,
        rows: int = versions.ROWS_PER_FRAGMENT,
        groups: int | None = None,
    ) -> None:
        """Merge fragments of fewer rows, and drop versions that nobody should still read.

        A version is dropped once it was superseded longer than `keep` ago, or by more than
        `MOST_VERSIONS` others. A reader that asks for the newest more often than that keeps its
        files. At most so many groups are merged, so that other writers do not wait for long.
        """
        passages = self.folder / PASSAGES
        with self.guard():
            plan = Compaction.plan(self.dataset, {"target_rows_per_fragment": rows})
            done = [task.execute(self.dataset) for task in plan.tasks[:groups]]
            if done:
                self.flush([new for each in done for new in each.new_fragments])
                with uninterrupted():
                    Compaction.commit(self.dataset, done)
            self.record()  # before versions are dropped
            versions.drop_superseded(passages, self.dataset, keep)
        digests = self._record.digests.items()
        remaining = {name: digest for name, digest in digests if (passages / name).exists()}
        self.record(Record(self.version, remaining))


def without_rows(
    fragments: Iterable[lance.LanceFragment], condition: str
) -> tuple[list[lance.FragmentMetadata], list[int]]:
    """Delete rows of fragments, without a commit; the fragments left, and numbers of the empty."""
    updated, emptied = [], []
    for fragment in fragments:
        if (metadata := fragment.delete(condition)) is None:
            emptied.append(fragment.fragment_id)
        else:
            updated.append(metadata)
    return updated, emptied


def new_fragments(
    rows: pa.RecordBatch, dataset: lance.LanceDataset
) -> list[lance.FragmentMetadata]:
    """Write rows to files of a dataset that no version names yet."""
    table = pa.Table.from_batches([rows])
    written = write_fragments(table, dataset, mode="append", return_transaction=True)
    return [*cast(lance.LanceOperation.Append, written.operation).fragments]


def has_columns(schema: pa.Schema) -> bool:
    """Whether a dataset has the engine's columns."""
    return {*SEARCHED} <= {*schema.names}


def any_of(column: str, values: Collection[str]) -> str:
    """SQL for "column is one of values"; DataFusion's strings need only quotes escaped.

    No row has a value with a lone surrogate, and the query could not be encoded with it.
    """
    quoted = ["'" + value.replace("'", "''") + "'" for value in values if not _LONE.search(value)]
    if not quoted:
        return "FALSE"
    return f"{column} IN ({', '.join(quoted)})"
