"""An index in an object store: it is read there, and written where it is on a disk.

Lance reads the dataset's files in place. Publish an index with any tool that copies files, the
versions last, so that no reader sees a version before its files:
`aws s3 sync my-index s3://bucket/my-index --exclude '*/_versions/*'`, then the same without.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Self

import lance

from wye.backends.errors import IndexNotFoundError, ReadOnlyError, StoreError
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import require_ours
from wye.backends.store.versions import PASSAGES, address_of, reason_of

READ_ONLY = (
    "An index in an object store is only read. Write it where it is on a disk, and copy the files "
    "to the store again."
)
_OPTIONS = {
    "timeout": "5s",
    "connect_timeout": "2s",
    "client_max_retries": "3",
    "client_retry_timeout": "4",
    "download_retry_count": "1",
}
"""Failed reads are tried again at once, those that time out are not; Lance would take 180 s."""
_CAUSES = {
    "NoSuchBucket": "there is no such bucket",
    "credentials": "the environment has no credentials (AWS_ACCESS_KEY_ID and the like)",
    r"status code: 40[13]|AccessDenied": "the store refuses these credentials, or their rights",
    "sending request|timed out|operation timed out": "the store does not answer",
    r"[Nn]ot found|status code: 404": "there is nothing at this address",
}
"""Pattern of what Lance says -> what that means."""


class RemoteStore(PassageStore):
    """Reads one version of an index in an object store; `refresh` moves to a newer one."""

    is_remote = True

    @classmethod
    def open(cls, path: str | Path, fingerprint: Mapping[str, str] | None = None) -> Self:
        """Open the newest version.

        Raises:
            IndexNotFoundError: There is no index, or it cannot be read.
            IndexMismatchError: Another schema version or analyser wrote it.
        """
        folder = Path(path)
        address = address_of(folder)
        try:
            dataset = _opened(f"{address}/{PASSAGES}")
        except (OSError, ValueError) as error:
            raise IndexNotFoundError(
                f"There is no index at {address} that can be read: {_cause_of(error)}. Check the "
                "address, the credentials in the environment and their rights."
            ) from None
        require_ours(folder, dataset.schema)
        index = cls(folder, dataset)
        if fingerprint is not None:
            index.check(fingerprint)
        return index

    def beside(self, name: str) -> lance.LanceDataset:
        """See `PassageStore`."""
        return _opened(f"{address_of(self.path)}/{name}")

    @contextmanager
    def reading(self, *also: type[Exception]) -> Iterator[None]:
        """Turn what Lance raises while this is read into one error.

        Raises:
            StoreError: The object store does not answer, or refuses.
        """
        failures: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, *also)
        try:
            yield
        except failures as error:
            address, cause = address_of(self.path), _cause_of(error)
            raise StoreError(f"{address} cannot be read: {cause}. It is tried again.") from error

    @property
    def is_newest(self) -> bool:
        """Whether there is no later version."""
        with self.reading():
            return bool(self._dataset.latest_version == self.version)

    def check_files(self, digests: Mapping[str, str] | None = None) -> None:
        """Check that the object store answers.

        Raises:
            StoreError: It does not.
        """
        del digests
        _ = self.is_newest

    @property
    def derived(self) -> NoReturn:
        """Nothing is derived from it."""
        raise ReadOnlyError(READ_ONLY)

    def writer(self) -> NoReturn:
        """Refused."""
        raise ReadOnlyError(READ_ONLY)


def _opened(address: str) -> lance.LanceDataset:
    return lance.dataset(address, storage_options=_OPTIONS)


def _cause_of(error: Exception) -> str:
    """Why an object store cannot be read, in words that its user knows."""
    known = (cause for pattern, cause in _CAUSES.items() if re.search(pattern, str(error)))
    return next(known, reason_of(error))
