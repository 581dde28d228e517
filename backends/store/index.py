"""An index: a folder with one Lance dataset of passages, read by version and changed by commits.

Each commit is atomic, and is on the disk when the method that makes it returns.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self, cast

import lance

from wye.backends.errors import IndexDamagedError, IndexMismatchError, IndexNotFoundError
from wye.backends.files import LOCK, NOTE, writer_lock
from wye.backends.store.derived import FOLDER as DERIVED
from wye.backends.store.derived import KEPT_FROM, MANIFEST, DerivedFiles
from wye.backends.store.schema import dimension_of, fingerprint_of, passage_schema, require_ours
from wye.backends.store.versions import (
    PASSAGES,
    Mark,
    Record,
    Survey,
    address_of,
    aside_folder,
    check_files,
    check_indices,
    damaged,
    digest_of,
    flush,
    has_versions,
    manifest_name,
    newest_mark,
    read_record,
    reading,
    set_aside,
    sizes_of,
)
from wye.backends.store.writer import Writer


class PassageStore:
    """Reads one version of an index; `refresh` moves to a newer one.

    A version stays readable and unchanged, whatever this process or another one writes. All methods
    raise an `IndexDamagedError`, which names the file, if what they need is not as committed.

    Attributes:
        fault: Why the current version is not the last committed one; "" if it is.
    """

    def __init__(
        self, path: Path, dataset: lance.LanceDataset, mark: Mark = None, fault: str = ""
    ) -> None:
        """Wrap a version of the `passages.lance` in an index folder; use `create` or `open`."""
        require_ours(path, dataset.schema)
        self.path = path
        self.fault = fault
        self._mark = mark
        self.dimension = dimension_of(dataset.schema)
        self.fingerprint = fingerprint_of(dataset.schema)
        self._dataset = dataset

    @classmethod
    def create(
        cls, path: str | Path, dimension: int, fingerprint: Mapping[str, str]
    ) -> "PassageStore":
        """Create an empty index, or open an existing one; safe to repeat after a crash.

        Args:
            path: A folder that is missing, empty, or an index.

        Raises:
            IndexNotFoundError: The path holds something else.
            IndexMismatchError: The index was written by another analyser.
            IndexLockedError: Another process is creating it right now.
        """
        folder = Path(path)
        if address_of(folder):
            from wye.backends.store.remote import RemoteStore  # noqa: PLC0415 - a subclass

            return RemoteStore.create(folder, dimension, fingerprint)
        _refuse_foreign(folder)
        if not has_versions(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with writer_lock(folder):
                # The former holder of the lock may have created it since the check above.
                if not has_versions(folder):
                    empty = passage_schema(dimension, fingerprint).empty_table()
                    dataset = lance.write_dataset(empty, folder / PASSAGES, mode="create")
                    flush(folder, dataset, Record())
        return cls.open(folder, fingerprint)

    def __reduce__(self) -> tuple[Callable[[Path], "PassageStore"], tuple[Path]]:
        """Another process opens the newest version."""
        return PassageStore.open, (self.path,)

    def uri(self, name: str) -> str:
        """Where a dataset of the index is."""
        return f"{address_of(self.path) or self.path}/{name}"

    @classmethod
    def open(cls, path: str | Path, fingerprint: Mapping[str, str] | None = None) -> "PassageStore":
        """Open the newest version.

        Args:
            fingerprint: Fingerprint of the analyser in use, which must be the index's; None for
                work without an analyser, such as deleting.

        Raises:
            IndexNotFoundError: There is no index, an incomplete one, or something else.
            IndexMismatchError: Another schema version or analyser wrote it.
            IndexDamagedError: No version of it is whole.
        """
        folder = Path(path)
        if address_of(folder):
            from wye.backends.store.remote import RemoteStore  # noqa: PLC0415 - a subclass

            return RemoteStore.open(folder, fingerprint)
        if not has_versions(folder):
            raise IndexNotFoundError(
                f"There is no index at {folder} (or one that was never finished). "
                "Make it with `wye index`, or check the path."
            )
        survey = Survey(folder, partial(lance.dataset, folder / PASSAGES))
        dataset, fault, _ = survey.newest_whole()
        return cls(folder, dataset, survey.mark, fault).check(fingerprint)

    def check(self, fingerprint: Mapping[str, str] | None) -> Self:
        """This index, if it is pinned to an analyser; None for any.

        Raises:
            IndexMismatchError: It is not; names every difference.
        """
        stored = self.fingerprint
        fingerprint = stored if fingerprint is None else fingerprint
        differences = [
            f"{key} is {stored.get(key)!r} in the index and {fingerprint.get(key)!r} here"
            for key in sorted({*stored, *fingerprint})
            if stored.get(key) != fingerprint.get(key)
        ]
        if differences:
            raise IndexMismatchError(
                f"Index {self.path} was written by another analyser: {'; '.join(differences)}. Use "
                "the models it was written with, or make an index of its documents with these: "
                f"`wye index {self.path} --index NEW`."
            )
        return self

    is_remote = False
    """Whether it is in an object store."""

    def beside(self, name: str) -> lance.LanceDataset:
        """The newest version of another dataset of the index."""
        return lance.dataset(self.uri(name))

    def reading(self, *also: type[Exception]) -> AbstractContextManager[None]:
        """Turn what Lance and Arrow raise while this is read, and further errors, into ours."""
        return reading(self.path, also=(OSError, *also))

    @property
    def version(self) -> int:
        """Number of the current version."""
        return int(self._dataset.version)

    def versions(self) -> dict[int, datetime]:
        """Number of each version that is kept -> when it was written, in UTC, oldest first."""
        with reading(self.path):
            versions = ((each["version"], each["timestamp"]) for each in self._dataset.versions())
            # Lance gives local times without a zone, as `astimezone` assumes.
            return {n: cast(datetime, at).astimezone(UTC) for n, at in sorted(versions)}

    def count(self) -> int:
        """Number of passages in the current version."""
        with self.reading():
            return int(self._dataset.count_rows())

    def refresh(self) -> bool:
        """Move to the newest whole version; returns whether that is another one."""
        if self.is_newest:
            return False
        before, survey = self.version, self._survey()
        dataset, fault, _ = survey.newest_whole()
        self._check_same(dataset)
        self._dataset, self._mark, self.fault = dataset, survey.mark, fault
        return self.version != before

    @property
    def is_newest(self) -> bool:
        """Whether no version was added or removed since the last refresh."""
        return self._mark is not None and self._mark == newest_mark(self.path)

    def check_files(self, digests: Mapping[str, str] | None = None) -> None:
        """Check the lengths of the current version's files, and their digests if given."""
        with reading(self.path):
            files = sizes_of(self._dataset)
        if digests is not None:
            files[manifest_name(self.version)] = None
        try:
            check_files(self.path / PASSAGES, files, digests)
        except IndexDamagedError as error:
            raise damaged(self.path, str(error)) from None
        check_indices(self.path, self._dataset, digests or {})

    def check_content(self) -> None:
        """Check that the index is as last committed, byte for byte; reads all of it."""
        if self.fault:
            raise IndexDamagedError(self.fault)
        self.check_files(read_record(self.path).digests)

    def _survey(self) -> Survey:
        return Survey(self.path, self._dataset.checkout_version)

    def _check_same(self, newest: lance.LanceDataset) -> None:
        if fingerprint_of(newest.schema) != self.fingerprint:
            raise IndexMismatchError(
                f"Index {self.path} was made again with another analyser since it was opened. Open "
                "it again, with the models that it has now."
            )

    @property
    def is_large(self) -> bool:
        """Whether it has derived files, and small writes are read as layers on an earlier version.

        Otherwise all is read again, which takes less than a fifth of a second.
        """
        return self.count() >= KEPT_FROM

    @property
    def derived(self) -> DerivedFiles:
        """See `derived_of`, for the current version."""
        return self.derived_of(self.version)

    def derived_of(self, version: int) -> DerivedFiles:
        """The derived files of a version."""
        name = manifest_name(version)
        with reading(self.path):
            manifest = digest_of(self.path / PASSAGES / name)
        pins = {**self.fingerprint, MANIFEST: manifest}
        # Nothing is written to a damaged index before it is repaired.
        writes = not self.fault and self.is_large and version == self.version
        return DerivedFiles(self.path, version, pins, is_persistent=writes)

    def snapshot(self) -> lance.LanceDataset:
        """The current version as a Lance dataset, for reading in bulk; it never changes."""
        return self._dataset

    def checkout(self, version: int) -> lance.LanceDataset:
        """A version as a Lance dataset."""
        if version == self.version:
            return self._dataset
        examined = self._survey().examine(version)
        if examined.dataset is None or examined.fault:
            raise IndexDamagedError(examined.fault)
        return examined.dataset

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Hold the write lock, and write on top of the newest version.

        This store stays at its version until `refresh`.

        Raises:
            IndexLockedError: Another writer holds the lock; says who.
            IndexDamagedError: The last commit is damaged; nothing is written before a repair.
        """
        with writer_lock(self.path):
            survey = self._survey()
            newest, fault, torn = survey.newest_whole()
            self._check_same(newest)
            if fault:
                raise IndexDamagedError(fault)
            # A power cut in the middle of a commit left these; nobody was told of them.
            names = [f"{PASSAGES}/{manifest_name(number)}" for number in torn]
            set_aside(self.path, names, aside_folder(self.path))
            yield Writer(self, newest, survey.record)


def _refuse_foreign(folder: Path) -> None:
    """Check that a folder is empty, missing or an index.

    Raises:
        IndexNotFoundError: It holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise IndexNotFoundError(f"{folder} is a file; an index is a folder. Give another path.")
    ours = {PASSAGES, DERIVED, LOCK, NOTE}
    entries = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    others = [name for name in entries if name not in ours]
    if others and not has_versions(folder):
        raise IndexNotFoundError(
            f"{folder} contains no index but other files ({', '.join(others[:3])}). Give a new or "
            "an empty folder."
        )
