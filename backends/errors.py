"""The errors of this folder, their base class, and suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


class BackendError(Exception):
    """An error about an index or a retriever that the user can correct."""


class IndexNotFoundError(BackendError):
    """The folder holds no index, or something else."""


class IndexDamagedError(BackendError):
    """A file of the index is missing, truncated or otherwise not as committed."""


class IndexMismatchError(BackendError):
    """The index was written by another schema version, encoder or parser than the one in use."""


class IndexLockedError(BackendError):
    """Another process is writing to this index."""


class ReadOnlyError(BackendError):
    """The index is in an object store, which lets these credentials only read it."""


class StoreError(BackendError):
    """The object store with the index does not answer, or refuses."""


class SourceError(BackendError):
    """A corpus file, or a line of it, cannot be read as what it claims to be."""


class FilterError(BackendError):
    """A metadata filter is not well formed."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """Suggest similar known names, as in " Did you mean graph?"; "" if there are none."""
    near = get_close_matches(name, sorted(names), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""
