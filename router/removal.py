"""Which passages a deletion is about, and the deletion."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from backends.filters import Columns, parse_filter
from backends.index import Index

_COLUMNS = ["id", "document", "metadata"]


@dataclass(frozen=True, slots=True)
class Removal:
    """Passages to be deleted: those that any of the three names.

    Attributes:
        ids: Of passages.
        documents: All chunks of these.
        filter: All passages that this metadata filter lets through; None for none.
    """

    ids: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    filter: object | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is named."""
        return not self.ids and not self.documents and self.filter is None


def matching(folder: Path, wanted: Removal) -> list[str]:
    """Ids of the passages that a removal would delete, ascending; nothing is changed.

    Raises:
        IndexNotFoundError: There is no index.
        FilterError: The filter is not well formed.
    """
    return _select(Index.open(folder).snapshot().to_table(columns=_COLUMNS), wanted)


def remove(folder: Path, wanted: Removal) -> list[str]:
    """Delete passages in one commit.

    Returns:
        Their ids, ascending.

    Raises:
        IndexNotFoundError: There is no index.
        IndexLockedError: Another process is writing.
        FilterError: The filter is not well formed.
    """
    with Index.open(folder).writer() as writer:
        ids = _select(writer.columns(_COLUMNS), wanted)
        writer.delete(ids)
    return ids


def _select(table: pa.Table, wanted: Removal) -> list[str]:
    ids = table["id"].to_pylist()
    named, documents = set(wanted.ids), set(wanted.documents)
    chosen = {
        id_
        for id_, document in zip(ids, table["document"].to_pylist(), strict=True)
        if id_ in named or document in documents
    }
    if wanted.filter is not None:
        columns = Columns([json.loads(text) for text in table["metadata"].to_pylist()])
        mask = parse_filter(wanted.filter).mask(columns)
        chosen.update(id_ for id_, keep in zip(ids, mask.tolist(), strict=True) if keep)
    return sorted(chosen)
