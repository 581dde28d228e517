"""Listing, reading and deleting the documents of an index, and its inventory.

All functions raise an `IndexNotFoundError` if there is no index, an `IndexDamagedError` if it
cannot be read, and a `FilterError` for a filter that is not well formed.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from wye.backends.dataset.build import Counts, count
from wye.backends.errors import IndexDamagedError
from wye.backends.files import write_atomically, writing
from wye.backends.filters import Columns, parse_filter
from wye.backends.store.corpus import changed_since
from wye.backends.store.derived import DerivedFiles, most_changes
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import COMPACT_FROM
from wye.backends.store.schema import SCHEMA_VERSION, any_of, columns_of, has_columns, to_passages
from wye.backends.store.versions import address_of, fragments_by_size, reading, sizes_of
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
    """A page of the newest version's documents, ascending by id.

    Attributes:
        more: Whether more documents follow.
        total: Number of documents on all pages.
    """

    documents: tuple[StoredDocument, ...]
    more: bool
    total: int
    version: int


def list_documents(
    folder: Path, after: str = "", limit: int = 100, prefix: str = "", filter_: object | None = None
) -> Page:
    """The first page of documents, or the next one.

    Args:
        after: Id of the previous page's last document; "" for the first page.
        prefix: Only documents whose id begins with it are listed and counted.
        filter_: A metadata filter; passages that it excludes are ignored.
    """
    index = _open(folder)
    with reading(folder):
        column = _matches(index.snapshot(), ["document"], filter_)["document"]
        ids = sorted(id_ for id_ in pc.unique(column).to_pylist() if id_.startswith(prefix))
    rest = [id_ for id_ in ids if id_ > after]
    documents = _read(index, rest[:limit], filter_)
    return Page(tuple(documents), len(rest) > limit, len(ids), index.version)


def read_document(folder: Path, id_: str, filter_: object | None = None) -> StoredDocument | None:
    """A document with its passages that match a metadata filter; None if there is none."""
    return next(iter(_read(_open(folder), [id_], filter_)), None)


def _open(folder: Path) -> PassageStore:
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
    with reading(index.path):
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
    """The passages to delete: the union of three selections.

    Attributes:
        ids: Passages by id.
        documents: All passages of these documents.
        filter: All passages that match this metadata filter; None for none.
    """

    ids: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    filter: object | None = None


def matching(folder: Path, removal: Removal) -> tuple[list[str], int]:
    """Ids of the passages that a removal would delete, ascending, and the version looked at."""
    index = _open(folder)
    with reading(folder):
        return _select(index.snapshot(), removal), index.version


def remove(folder: Path, removal: Removal) -> tuple[list[str], int]:
    """Delete passages in one commit.

    Returns:
        Their ids, ascending, and a version that has none of them.

    Raises:
        IndexLockedError: Another process is writing.
    """
    with PassageStore.open(folder).writer() as writer:
        with reading(folder):
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


_FILES = "files.parquet"


def vanished(folder: Path, listed: Mapping[str, Collection[str]]) -> list[str]:
    """Ids of the documents of files that were in folders when they were indexed, and are no longer.

    A document that a file elsewhere gave later is that file's.

    Args:
        listed: Folder -> names of the files that it has now.
    """
    lost = {
        id_
        for id_, file in read_files(folder).items()
        for source, names in listed.items()
        if file.startswith(f"{source}/") and file.removeprefix(f"{source}/") not in names
    }
    if not lost:
        return []
    index = _open(folder)
    with reading(folder):
        ids = index.snapshot().to_table(columns=["document"])["document"].to_pylist()
    return sorted(lost.intersection(ids))


def read_files(folder: Path) -> dict[str, str]:
    """Id of each document that `wye index` read of files -> the file; {} if that is not known."""
    with suppress(OSError, pa.ArrowException):
        return dict(zip(*parquet.read_table(folder / _FILES).to_pydict().values(), strict=True))
    return {}


def record_files(folder: Path, files: Mapping[str, str], removed: Collection[str] = ()) -> None:
    """Add to what `read_files` returns, without documents that were removed.

    Raises:
        OSError: The file cannot be written.
    """
    known = {id_: file for id_, file in read_files(folder).items() if id_ not in removed}
    known |= files
    with write_atomically(folder / _FILES) as file:
        parquet.write_table(pa.table({"id": [*known], "file": [*known.values()]}), file)


def take_inventory(folder: Path) -> dict[str, object]:
    """Counts, bytes and pins of the newest version, as plain values."""
    index = PassageStore.open(folder)
    fault, times = index.fault, dict[str, object]()
    try:
        versions = index.versions()
        written = versions[max(versions)].isoformat(timespec="seconds")
        times = {"written": written, "versions kept": len(versions)}
    except IndexDamagedError as error:
        fault = fault or str(error)
    with reading(folder):
        documents = index.snapshot().to_table(columns=["document"])["document"]
        mentions = _mentions(index)
    fragments = [fragment.metadata for fragment in index.snapshot().get_fragments()]
    files = None if index.fault or index.is_remote else index.newest_derived
    on_disk = (file.stat().st_size for file in folder.rglob("*") if file.is_file())
    stored = sizes_of(index.snapshot()).values() if index.is_remote else on_disk
    sizes, derived = files.sizes() if files else {}, dict[str, int]()
    if files and sizes:
        derived = {"of version": files.version, "bytes": sum(sizes.values()), **sizes}
    return {
        **({"fault": fault} if fault else {}),
        "index": address_of(folder) or str(folder),
        "version": index.version,
        **times,
        "passages": len(documents),
        "documents": len(pc.unique(documents)),
        **mentions,
        "fragments": {
            "count": len(fragments),
            "rows": sum(fragment.physical_rows for fragment in fragments),
            "deleted rows": sum(fragment.num_deletions for fragment in fragments),
        },
        "derived": derived,
        "indices of Lance, rows to take in": coverage(index.snapshot()),
        "waits": {} if index.is_remote else _waits(index, files),
        "bytes on disk": sum(filter(None, stored)),
        "dimension": index.dimension,
        "schema": SCHEMA_VERSION,
        "pins": dict(sorted(index.fingerprint.items())),
    }


def coverage(dataset: lance.LanceDataset) -> dict[str, int]:
    """Name of each of Lance's indices -> rows that it does not cover yet, which Lance scans."""
    rows = dataset.count_rows()
    return {
        index.name: max(rows - index.num_rows_indexed, 0)
        for index in sorted(dataset.describe_indices(), key=lambda each: each.name)
    }


def _waits(index: PassageStore, files: DerivedFiles | None) -> dict[str, str]:
    """What a new `base`, a `merge` of fragments and a `write` wait for, in words.

    Args:
        files: Derived files of the present base; None if there is none.
    """
    changes = changed_since(index, files) if files else None
    most, fragments = most_changes(index.count()), fragments_by_size(index.snapshot())
    if not index.derived.is_persistent:
        base = "nothing: so few passages need none"
    elif changes is None:
        base = "the next process that opens the index"
    elif changes > most:
        base = f"a server, or a build: {changes:,} passages were added or deleted"
    else:
        base = f"{changes:,} of {most:,} passages to be added or deleted"
    return {
        "base": base,
        "merge": f"{max(fragments.values())} of {COMPACT_FROM} fragments of about one size",
        "write": writing(index.path) or "nothing",
    }


def _mentions(index: PassageStore) -> dict[str, int]:
    """Counts of sentences and mentions, batch by batch; only distinct names stay in memory.

    Lance cannot read part of a list's structs, so vectors and texts of sentences are read too.
    """
    sentences = mentions = 0
    entities = phrases = pa.array([], pa.string())
    for batch in index.snapshot().to_batches(columns=["sentences"]):
        flat = batch["sentences"].flatten()
        named = flat.field("entities").flatten()
        sentences += len(flat)
        mentions += len(named)
        entities = pc.unique(pa.concat_arrays([entities, named]))
        phrases = pc.unique(pa.concat_arrays([phrases, flat.field("phrases").flatten()]))
    return {
        "sentences": sentences,
        "entities": len(entities),
        "entity mentions": mentions,
        "noun phrases": len(phrases),
    }
