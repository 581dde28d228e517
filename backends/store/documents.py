"""The documents of an index: listed, read and deleted.

All functions raise an `IndexNotFoundError` if there is no index, an `IndexDamagedError` if it
cannot be read, and a `FilterError` for a filter that is not well formed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.dataset.build import count
from wye.backends.errors import IndexDamagedError
from wye.backends.filters import Columns, parse_filter
from wye.backends.store.index import PassageStore, any_of, has_columns
from wye.backends.store.schema import columns_of, to_passages
from wye.backends.text import HEADING_JOINT
from wye.backends.types import Passage


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as stored: its chunks in order, or a single passage if it is short."""

    id: str
    passages: tuple[Passage, ...]

    @property
    def title(self) -> str:
        """The common part of its passages' titles, without the headings of each."""
        headings = [passage.title.split(HEADING_JOINT) for passage in self.passages]
        return HEADING_JOINT.join(commonprefix(headings))  # noqa: RUF071 - of lists


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the newest version's documents, ascending by id."""

    documents: tuple[StoredDocument, ...]
    more: bool  # whether more follow
    total: int  # on all pages
    version: int


def list_documents(
    folder: Path, after: str = "", limit: int = 100, prefix: str = "", filter_: object | None = None
) -> Page:
    """The documents after an id, which is that of the previous page's last one.

    Only documents whose id begins with `prefix` and passages that pass the metadata filter count.
    """
    index = open_last(folder)
    with index.reading():
        column = _matches(index.snapshot(), ["document"], filter_)["document"]
        ids = sorted(id_ for id_ in pc.unique(column).to_pylist() if id_.startswith(prefix))
    rest = [id_ for id_ in ids if id_ > after]
    documents = _read(index, rest[:limit], filter_)
    return Page(tuple(documents), len(rest) > limit, len(ids), index.version)


def read_document(folder: Path, id_: str, filter_: object | None = None) -> StoredDocument | None:
    """A document with its passages that match a metadata filter; None if there is none."""
    return next(iter(_read(open_last(folder), [id_], filter_)), None)


def open_last(folder: Path) -> PassageStore:
    """Open the newest version, and no older one: that would lack acknowledged documents."""
    index = PassageStore.open(folder)
    if index.fault:
        raise IndexDamagedError(index.fault)
    return index


def _matches(
    dataset: lance.LanceDataset,
    columns: Sequence[str],
    filter_: object | None,
    condition: str | None = None,
    *,
    deletes: bool = False,
) -> pa.Table:
    """Columns of the passages that meet a condition in SQL and a metadata filter, if given."""
    if filter_ is None:
        return dataset.to_table(columns=[*columns], filter=condition)
    parsed = parse_filter(filter_)
    rows = dataset.to_table(columns=[*{*columns, "metadata"}], filter=condition)
    metadata = Columns(rows["metadata"].to_pylist())
    mask = metadata.passing(parsed, deletes=True) if deletes else parsed.mask(metadata)
    return rows.filter(pa.array(mask))


def _read(index: PassageStore, ids: Sequence[str], filter_: object | None) -> list[StoredDocument]:
    if not ids:
        return []
    chunks: dict[str, list[Passage]] = {}
    with index.reading():
        dataset, condition = index.snapshot(), any_of("document", ids)
        rows = _matches(dataset, columns_of(dataset.schema), filter_, condition)
    for passage in sorted(to_passages(rows), key=lambda passage: passage.chunk):
        chunks.setdefault(passage.document, []).append(passage)
    return [StoredDocument(id_, tuple(chunks[id_])) for id_ in ids if id_ in chunks]


@dataclass(frozen=True, slots=True)
class Removal:
    """The passages to delete: by id, of documents, and what a metadata filter lets through."""

    ids: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    filter: object | None = None


def matching(folder: Path, removal: Removal) -> tuple[list[str], int]:
    """Ids of the passages that a removal would delete, ascending, and the version looked at."""
    index = open_last(folder)
    with index.reading():
        return _select(index.snapshot(), removal), index.version


def remove(folder: Path, removal: Removal) -> tuple[list[str], int]:
    """Delete passages in one commit; their ids, ascending, and a version that has none of them."""
    with PassageStore.open(folder).writer() as writer:
        with writer.index.reading():
            ids = _select(writer.dataset, removal)
        if ids and has_columns(writer.dataset.schema):
            count(writer, ids)
        writer.delete(ids)
        return ids, writer.version


def _select(dataset: lance.LanceDataset, removal: Removal) -> list[str]:
    """Ids of the passages to delete, ascending; metadata is read only if there is a filter."""
    ids: set[str] = set()
    for column, values in (("id", removal.ids), ("document", removal.documents)):
        if values:
            ids.update(_matches(dataset, ["id"], None, any_of(column, values))["id"].to_pylist())
    if removal.filter is not None:
        ids.update(_matches(dataset, ["id"], removal.filter, deletes=True)["id"].to_pylist())
    return sorted(ids)
