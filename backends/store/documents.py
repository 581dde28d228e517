"""The documents of an index: listed, read, deleted, and as a source for another index.

All functions raise an `IndexNotFoundError` if there is no index, an `IndexDamagedError` if it
cannot be read, and a `FilterError` for a filter that is not well formed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os.path import commonprefix
from pathlib import Path
from typing import NoReturn

import lance
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.dataset.build import Counts, count
from wye.backends.errors import IndexDamagedError, SourceError
from wye.backends.filters import Columns, parse_filter
from wye.backends.readers.records import Ids, OnBad, refuse
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import (
    ANALYSIS_COLUMNS,
    StoredAnalysis,
    any_of,
    columns_of,
    has_columns,
    to_analyses,
    to_passages,
)
from wye.backends.store.versions import PASSAGES
from wye.backends.text import HEADING_JOINT
from wye.backends.types import Metadata, Passage

_ROWS_AT_ONCE = 2_048


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
    for passage in to_passages(rows):
        chunks.setdefault(passage.document, []).append(passage)
    return [
        StoredDocument(id_, tuple(sorted(chunks[id_], key=lambda passage: passage.chunk)))
        for id_ in ids
        if id_ in chunks
    ]


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
    """Delete passages in one commit; their ids, ascending, and a version that has none of them.

    Raises:
        IndexLockedError: Another process is writing.
    """
    with PassageStore.open(folder).writer() as writer:
        with writer.index.reading():
            ids = _select(writer.dataset, removal)
        if ids and has_columns(writer.dataset.schema):
            count(writer, Counts(), ids)
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


def is_index(folder: Path) -> bool:
    """Whether a path is the folder of an index."""
    return (folder / PASSAGES).is_dir()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IndexedPassage(Passage):
    """A passage of an index, as it is there and as it is to be, with its analysis there."""

    stored: Passage = field(repr=False)
    analysis: StoredAnalysis = field(repr=False)
    fingerprint: Mapping[str, str] = field(repr=False)  # the models that made it

    def is_of(self, fingerprint: Mapping[str, str]) -> bool:
        """Whether these models analysed just what is to be analysed of it now."""
        return self.analysed == self.stored.analysed and self.fingerprint == dict(fingerprint)


class IndexSource:
    """The newest version of an index as a source: its passages, and what was computed of them.

    Ingested into another index, passages keep their ids, titles, metadata and chunks; where that is
    pinned to the same analyser, their vectors and parses as well. It has no files of a folder.
    """

    files = 1
    left_out: Mapping[str, int] = {}
    listed: Mapping[str, list[str]] = {}

    def __init__(self, folder: Path) -> None:
        """Open the index, and read all of it once to see that it is whole.

        Raises:
            IndexNotFoundError: The folder's index was never finished.
            IndexMismatchError: Another version of Wye wrote it.
            IndexDamagedError: It is not as last committed; `wye repair` says what can be done.
        """
        self.index = PassageStore.open(folder)
        self.index.check_content()
        self._dataset = self.index.snapshot()
        self.expected = self.index.count()

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self.index.path

    def split(self) -> NoReturn:
        """Raise a `SourceError`, since several processes cannot read it."""
        raise SourceError(f"{self.folder} is an index; it is read without --engine ray.")

    def passages(
        self,
        *,
        metadata: Metadata | None = None,
        ids: Ids | None = None,
        on_bad: OnBad = refuse,
        **reading_files: object,  # noqa: ARG002
    ) -> Iterator[Passage]:
        """All passages by document and chunk; they are cut no further.

        Args:
            metadata: Metadata of every passage; a passage's own takes precedence.
            ids: Those of documents of other sources; a document here that has one is left out.
            on_bad: Called for each of those.
            reading_files: What `DocumentSource.passages` takes besides, for reading files.
        """
        passages = ((str(self.folder), each) for each in self._passages(metadata or {}))
        return (ids or Ids()).first(passages, on_bad)

    def _passages(self, metadata: Metadata) -> Iterator[Passage]:
        columns = [*columns_of(self._dataset.schema), *ANALYSIS_COLUMNS]
        with self.index.reading():
            keys = self._dataset.to_table(columns=["document", "chunk"], scan_in_order=True)
            order = [("document", "ascending"), ("chunk", "ascending")]
            positions = pc.sort_indices(keys, order)
        for start in range(0, len(positions), _ROWS_AT_ONCE):
            with self.index.reading():
                window = positions.slice(start, _ROWS_AT_ONCE)
                rows = self._dataset.take(window, columns=columns)
            for stored, analysis in zip(to_passages(rows), to_analyses(rows), strict=True):
                values = {each.name: getattr(stored, each.name) for each in fields(stored)}
                values["metadata"] = {**metadata, **stored.metadata}
                pins = self.index.fingerprint
                yield IndexedPassage(**values, stored=stored, analysis=analysis, fingerprint=pins)
