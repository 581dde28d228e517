"""The one base error of this folder, its kinds, and what a misspelt name may have been."""

from collections.abc import Iterable
from difflib import get_close_matches


class BackendError(Exception):
    """Something about an index or a retriever that the user can put right."""


class IndexNotFoundError(BackendError):
    """The folder holds no index, or something that is not one of ours."""


class IndexDamagedError(BackendError):
    """A file of the index is missing, cut short or otherwise not as it was committed."""


class IndexMismatchError(BackendError):
    """The index was written by another schema version, encoder or parser than the one in use."""


class IndexLockedError(BackendError):
    """Another process is writing to this index."""


class SourceError(BackendError):
    """A corpus file, or a line of it, cannot be read as what it claims to be."""


class FilterError(BackendError):
    """A metadata filter is not well formed."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Known names like this one, as in " Did you mean graph?"; "" where there is none."""
    near = get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""
