"""An index in an object store: Lance reads and writes the files of the dataset in place.

Any number of processes read it. One writes: a commit is a conditional put of the next version, so
of two writers the second is told. A folder's record, lock and files beside the dataset are not
needed there, since a store has what it acknowledged. One that does not answer or refuses is a
`StoreError`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Self

import lance

from wye.backends.errors import IndexLockedError, IndexNotFoundError, ReadOnlyError, StoreError
from wye.backends.files import address_of
from wye.backends.store.index import KEEP_VERSIONS, PassageStore, Writer
from wye.backends.store.schema import passage_schema
from wye.backends.store.versions import (
    PASSAGES,
    ROWS_PER_FRAGMENT,
    Opened,
    Record,
    open_dataset,
    reason_of,
)

REFUSED = "the store refuses these credentials, or their rights"
ABSENT = "there is nothing at this address"
_CAUSES = {
    "NoSuchBucket": "there is no such bucket",
    "credentials": "the environment has no credentials (AWS_ACCESS_KEY_ID and the like)",
    r"status code: 40[13]|AccessDenied": REFUSED,
    r"status code: 5\d\d": "the store fails",
    "sending request|timed out|operation timed out": "the store does not answer",
    r"[Nn]ot found|status code: 404": ABSENT,
}
"""Pattern of what Lance says -> what that means."""


class RemoteStore(PassageStore):
    """One version of an index in an object store."""

    is_remote = True
    options: ClassVar[dict[str, str] | None] = {
        "timeout": "5s",
        "connect_timeout": "2s",
        "client_max_retries": "3",
        "client_retry_timeout": "4",
        "download_retry_count": "1",
    }
    """Failed reads are tried again at once, those that time out are not; Lance would take 180 s."""

    @classmethod
    def create(
        cls, path: str | Path, dimension: int, fingerprint: Mapping[str, str]
    ) -> PassageStore:
        """See `PassageStore`."""
        folder = Path(path)
        try:
            return cls.open(folder, fingerprint)
        except IndexNotFoundError as error:
            if ABSENT not in str(error):
                raise
        address = f"{address_of(folder)}/{PASSAGES}"
        with _guard(folder, "written"):
            empty = passage_schema(dimension, fingerprint).empty_table()
            lance.write_dataset(empty, address, mode="create", storage_options=cls.options)
        return cls.open(folder, fingerprint)

    @classmethod
    def open(
        cls, path: str | Path, fingerprint: Mapping[str, str] | None = None, opened: Opened = None
    ) -> Self:
        """See `PassageStore`."""
        folder = Path(path)
        address = address_of(folder)
        try:
            dataset = open_dataset(f"{address}/{PASSAGES}", opened=opened, options=cls.options)
        except (OSError, ValueError) as error:
            raise IndexNotFoundError(
                f"There is no index at {address} that can be read: {_cause_of(error)}. Check the "
                "address, the credentials in the environment and their rights."
            ) from None
        return cls(folder, dataset).check(fingerprint)

    def reading(self, *also: type[Exception]) -> AbstractContextManager[None]:
        """Turn what Lance raises while this is read into one error."""
        return _guard(self.path, "read", *also)

    @property
    def is_newest(self) -> bool:
        """Whether there is no later version."""
        with self.reading():
            return bool(self._dataset.latest_version == self.version)

    def check_files(self, digests: Mapping[str, str] | None = None) -> None:
        """Check that the object store answers."""
        del digests
        _ = self.is_newest

    @contextmanager
    def writer(self) -> Iterator["RemoteWriter"]:
        """Write on top of the newest version; there is no lock to hold."""
        newest = RemoteStore(self.path, self.beside(PASSAGES)).check(self.fingerprint)
        yield RemoteWriter(newest, Record())


class RemoteWriter(Writer):
    """Writes to an index in an object store."""

    retries = 0

    def guard(self) -> AbstractContextManager[None]:
        """See `Writer`."""
        return _guard(self.folder, "written")

    def check_newest(self) -> None:
        """See `Writer`."""
        with self.guard():
            if self.dataset.latest_version != self.version:
                raise _overtaken(self.folder)

    def flush(self, fragments: Sequence[lance.FragmentMetadata]) -> None:
        """Do nothing: a store has what it acknowledged."""

    def record(self, former: Record | None = None) -> None:
        """Do nothing, as `flush`."""

    def compact(
        self,
        keep: timedelta = KEEP_VERSIONS,
        rows: int = ROWS_PER_FRAGMENT,
        groups: int | None = None,
    ) -> None:
        """As `Writer`, but versions are dropped that are older than `keep`."""
        del groups
        with self.guard():
            self.dataset.optimize.compact_files(target_rows_per_fragment=rows)
            self.dataset.cleanup_old_versions(keep)
        self.adopt()


def _overtaken(folder: Path) -> IndexLockedError:
    return IndexLockedError(
        f"Index {address_of(folder)} was written by another process since this one began, so "
        "nothing was committed. Let one process write at a time, and run the command again."
    )


@contextmanager
def _guard(path: Path, done: str, *also: type[Exception]) -> Iterator[None]:
    failures: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, *also)
    try:
        yield
    except failures as error:
        if done == "written" and "ommit conflict" in str(error):
            raise _overtaken(path) from error
        why = f"{address_of(path)} cannot be {done}: {_cause_of(error)}."
        if REFUSED in why and done == "written":
            raise ReadOnlyError(f"{why} Write it with keys that may put and delete.") from error
        raise StoreError(f"{why} It is tried again.") from error


def _cause_of(error: Exception) -> str:
    """Why an object store cannot be read, in words that its user knows."""
    known = (cause for pattern, cause in _CAUSES.items() if re.search(pattern, str(error)))
    return next(known, reason_of(error))
