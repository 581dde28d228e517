"""An index in an object store: it is read there, and written where it is on a disk.

Lance reads the dataset's files in place. Publish an index with any tool that copies files, the
versions last, so that no reader sees a version before its files:
`aws s3 sync my-index s3://bucket/my-index --exclude '*/_versions/*'`, then the same without.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, Self

import lance

from wye.backends.errors import IndexDamagedError, IndexNotFoundError, ReadOnlyError
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import require_ours
from wye.backends.store.versions import PASSAGES, address_of

READ_ONLY = (
    "An index in an object store is only read. Write it where it is on a disk, and copy the files "
    "to the store again."
)


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
            dataset = lance.dataset(f"{address}/{PASSAGES}")
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise IndexNotFoundError(
                f"There is no index at {address} that can be read ({reason}). Check the address, "
                "and the rights; credentials come from the environment, as in AWS_ACCESS_KEY_ID."
            ) from None
        require_ours(folder, dataset.schema)
        index = cls(folder, dataset)
        if fingerprint is not None:
            index.check(fingerprint)
        return index

    def uri(self, name: str) -> str:
        """See `PassageStore`."""
        return f"{address_of(self.path)}/{name}"

    @property
    def is_newest(self) -> bool:
        """Whether there is no later version."""
        try:
            return bool(self._dataset.latest_version == self.version)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise IndexDamagedError(
                f"{address_of(self.path)} cannot be read ({reason}). It is tried again."
            ) from None

    def check_files(self, digests: Mapping[str, str] | None = None) -> None:
        """Check that the object store answers.

        Raises:
            IndexDamagedError: It does not.
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
