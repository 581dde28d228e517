"""Reads versions of an index as corpora.

A version that differs little from one that was read before is layered on it: the base is reused,
and what was added since is a corpus of its own (`wye.backends.layers`). So reading a small write
costs what it adds.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wye.backends.errors import IndexDamagedError
from wye.backends.layers import LayeredRows, LayeredStrings, Layers
from wye.backends.store.corpus import (
    Corpus,
    LayeredMentions,
    MentionReader,
    Mentions,
    Stamp,
    TwoCorpora,
    lengths_of,
    stamps,
)
from wye.backends.store.derived import (
    KEPT_FROM,
    PASSAGES,
    Arrays,
    DerivedFiles,
    GrowingArray,
    GrowingStrings,
    on_disk,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from wye.backends.store.index import PassageStore
from wye.backends.store.versions import reading
from wye.backends.strings import Strings, StringTable
from wye.backends.types import Float16, Int64

_BLOCK = 1024
"""Passages that are read from the dataset at a time."""
LISTED = 50_000
"""Up to this many passages ids and titles are lists, which save 1 µs a hit and take 220 bytes.
Below `KEPT_FROM`, where nothing is mapped from the disk, texts and metadata are lists too."""


# A version is compared with the base by fragments of the dataset. A fragment never changes, except
# that more of its rows may be deleted. Rows of fragments that the base does not know are matched by
# id and hash with the rows that it has lost, since a compaction moves rows.

_MOST = 0.25
"""Largest share of the base's rows that a layered version may remove, or add."""
_ROW_BITS = 32
_MIXED = "mixed"
"""Placeholder for the deletions of a fragment that has rows of the base and other rows."""
_COLUMNS = {
    "ids": "id",
    "titles": "title",
    "documents": "document",
    "hashes": "content_hash",
    "_metadata": "metadata",
    "_texts": "text",
    "chunks": "chunk",
}
_LONG = ("_metadata", "_texts")
"""Columns whose total length may need 64-bit offsets."""
_DERIVED = ["vector", "sentences"]
_ADDRESS = "_rowaddr"
ORDER = "_places"
MENTION_KINDS = ("entities", "phrases")

_Value = TypeVar("_Value", bound=np.generic)


def read_corpus(index: PassageStore, base: Corpus | None = None) -> Corpus:
    """Read the version that an index has in view; with a base, only what that lacks.

    A corpus that was read without a base is written beside the dataset, for `stored_corpus`.

    Args:
        base: The corpus of another version, not layered itself.

    Raises:
        IndexDamagedError: The index cannot be read.
    """
    if base is not None and index.is_large:
        with reading(index.path):
            if (layered := _layered(index, base)) is not None:
                return layered
    corpus, keep = read_whole(index)
    keep()
    return stored_corpus(index, index.derived) or corpus


def stored_corpus(index: PassageStore, files: DerivedFiles) -> Corpus | None:
    """The corpus of derived files, to be a base; None if it can no longer be read.

    Raises:
        IndexDamagedError: The index cannot be read.
    """
    with reading(index.path):
        return _stored(index, files)


def changed_since(index: PassageStore, files: DerivedFiles) -> int | None:
    """Number of passages added or removed since files were derived; None if it is unknown.

    Raises:
        IndexDamagedError: The index cannot be read.
    """
    with reading(index.path):
        if (base := _stored(index, files)) is None:
            return None
        dataset = index.snapshot()
        gone, new, _ = _differences(dataset, base, stamps(dataset))
        return len(gone) + len(new)


def read_whole(index: PassageStore) -> tuple[Corpus, Callable[[], None]]:
    """Read all of the version in view; also returns a function that writes it beside the dataset.

    The arrays are on disk, as far as there is room; memory holds one block at a time.

    Raises:
        IndexDamagedError: The index cannot be read.
    """
    dataset, files = index.snapshot(), index.derived
    with reading(index.path):
        id_table = dataset.to_table(columns=["id"], with_row_address=True, scan_in_order=True)
    order: Int64 = pc.sort_indices(id_table["id"]).to_numpy().astype(np.int64)
    addresses = _addresses(id_table)[order]

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(addresses), _BLOCK):
            block = pa.array(addresses[start : start + _BLOCK], pa.uint64())
            with reading(index.path):
                table = dataset._take_rows(block, [*_COLUMNS.values(), *_DERIVED])
            yield table

    arrays = _read_arrays(tables(), index.dimension, files.scratch_folder())
    pa.default_memory_pool().release_unused()  # Arrow would only do so after a while
    arrays = {**arrays, ORDER: order}
    corpus = _from_arrays(index, dataset, arrays, addresses)
    return corpus, lambda: files.write(PASSAGES, arrays)


def _stored(index: PassageStore, files: DerivedFiles) -> Corpus | None:
    """The corpus of derived files; None if it can no longer be read."""
    if (arrays := files.read(PASSAGES)) is None:
        return None
    try:
        dataset = index.checkout(files.version)
        if index.derived_of(files.version).folder != files.folder:
            return None  # a backup was put back, and the version is another one
    except IndexDamagedError:  # dropped, or damaged
        return None
    table = dataset.to_table(columns=[], with_row_address=True, scan_in_order=True)
    return _from_arrays(index, dataset, arrays, _addresses(table)[arrays[ORDER]])


def _read_arrays(tables: Iterable[pa.Table], dimension: int, folder: Path | None) -> Arrays:
    """The arrays of a corpus; the tables have its rows in order of ids."""
    strings = {
        name: GrowingStrings(folder, is_long=name in _LONG)
        for name, column in _COLUMNS.items()
        if name != "chunks"
    }
    chunks = GrowingArray(folder, np.int32)
    analysed = AnalysedRows(dimension, folder)
    for table in tables:
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        for name, growing in strings.items():
            growing.extend(columns[_COLUMNS[name]])
        chunks.extend(columns[_COLUMNS["chunks"]].to_numpy())
        analysed.add(columns["vector"], columns["sentences"])
    arrays = {"chunks": chunks.read(), **analysed.read()}
    for name, growing in strings.items():
        arrays |= growing.read(name)
    return {**arrays, **pack_table("ids", StringTable.of(unpack_strings("ids", arrays)))}


def _layered(index: PassageStore, base: Corpus) -> Corpus | None:
    """A version layered on a base, or the base itself; None if they differ too much."""
    dataset = index.snapshot()
    fragments = stamps(dataset)
    if (base.version, base._fragments) == (index.version, fragments):
        return base
    gone, new, moved = _differences(dataset, base, fragments)
    if max(len(gone), len(new)) > _MOST * len(base):
        return None
    table = dataset._take_rows(pa.array(new, pa.uint64()), [*_COLUMNS.values(), *_DERIVED])
    order = pc.sort_indices(table["id"])
    arrays = _read_arrays([table.take(order)], index.dimension, None)
    added = _from_arrays(index, dataset, arrays, new[order.to_numpy()])
    # For the next version: where the rows of the base are now.
    mixed = {*(new >> _ROW_BITS).tolist()}
    if len(moved):
        marked = {
            n: replace(stamp, deletions=_MIXED) if n in mixed else stamp
            for n, stamp in fragments.items()
        }
        base = replace(base, _addresses=moved, _fragments=marked)
    ids = base.ids.strings if isinstance(base.ids, StringTable) else base.ids
    before = ids.insertion_point if isinstance(ids, Strings) else partial(bisect_left, ids)
    positions = np.array([*map(before, added.ids)], np.int64)
    positions -= np.searchsorted(gone, positions)
    passages = Layers(len(base), gone, positions + np.arange(len(positions)))
    two = TwoCorpora.of(base, added, passages)
    sentences = two.sentences

    def strings(name: str) -> Sequence[str]:
        both = getattr(base, name), getattr(added, name)
        layered = LayeredStrings(passages, *both)
        return [*layered] if isinstance(both[0], list) else layered

    return Corpus(
        version=dataset.version,
        ids=strings("ids"),
        titles=strings("titles"),
        documents=strings("documents"),
        chunks=passages.lay(base.chunks, added.chunks),
        vectors=_rows(passages, base.vectors, added.vectors),
        sentence_vectors=_rows(sentences, base.sentence_vectors, added.sentence_vectors),
        sentence_passage=two.owners(),
        entities=LayeredMentions(sentences, base.entities, added.entities),
        phrases=LayeredMentions(sentences, base.phrases, added.phrases),
        hashes=strings("hashes"),
        two=two,
        _metadata=strings("_metadata"),
        _texts=strings("_texts"),
        _addresses=_rows(passages, base._addresses, added._addresses),
        _fragments=fragments,
        _dataset=dataset,
        _folder=index.path,
        _surfaces=index.surfaces,
    )


def _rows(
    layers: Layers,
    base: NDArray[_Value] | LayeredRows[_Value],
    added: NDArray[_Value] | LayeredRows[_Value],
) -> LayeredRows[_Value]:
    """Layered rows of two corpora that are not layered themselves."""
    return LayeredRows(layers, np.asarray(base), np.asarray(added))


def _differences(
    dataset: lance.LanceDataset, base: Corpus, now: "Mapping[int, Stamp]"
) -> tuple[Int64, Int64, Int64]:
    """Compare a version, whose stamps are given, with a base.

    Returns:
        Rows of the base that the version lacks, and addresses of rows that the base lacks, both
        ascending; then the new addresses of all rows of the base, -1 for a lacking one, or an empty
        array if none has moved.
    """
    before = base._fragments
    same = [number for number, stamp in now.items() if before.get(number) == stamp]
    shared = [n for n, stamp in now.items() if n in before and before[n].files == stamp.files]
    addresses = np.asarray(base._addresses)
    numbers: Int64 = addresses >> _ROW_BITS
    unchanged = np.zeros(max(before, default=0) + 2, bool)  # the last is for rows that were lost
    unchanged[same] = True
    candidates = np.flatnonzero(~unchanged[numbers])
    fragments = [each for each in dataset.get_fragments() if each.fragment_id not in same]
    live = np.empty(0, np.int64)
    if fragments:
        scanner = dataset.scanner(columns=[], fragments=fragments, with_row_address=True)
        live = _addresses(scanner.to_table())
    is_present = np.isin(addresses[candidates], live) & np.isin(numbers[candidates], shared)
    new = np.setdiff1d(live, addresses[candidates[is_present]])
    absent = candidates[~is_present]
    if not len(absent) or not len(new):
        return absent, new, np.empty(0, np.int64)
    names = dataset._take_rows(pa.array(new, pa.uint64()), ["id", "content_hash"])
    ids, hashes = (
        pa.array([column[row] for row in absent.tolist()]) for column in (base.ids, base.hashes)
    )
    matches = pc.index_in(names["id"].combine_chunks(), value_set=ids)
    is_same = pc.fill_null(
        pc.equal(names["content_hash"].combine_chunks(), hashes.take(matches)), False
    )
    is_moved = is_same.to_numpy(zero_copy_only=False)
    which = matches.filter(is_same).to_numpy()
    moved = addresses.copy()
    moved[absent] = -1
    moved[absent[which]] = new[is_moved]
    return np.delete(absent, which), new[~is_moved], moved if len(which) else np.empty(0, np.int64)


def _addresses(table: pa.Table) -> Int64:
    """Addresses of a table's rows."""
    addresses: Int64 = table[_ADDRESS].to_numpy().astype(np.int64)
    return addresses


def _from_arrays(
    index: PassageStore, dataset: lance.LanceDataset, arrays: Arrays, addresses: Int64
) -> Corpus:
    ids = unpack_table("ids", arrays)

    def strings(name: str, most: int) -> Sequence[str]:
        """A column, as a list up to so many passages."""
        column = unpack_strings(name, arrays)
        return [*column] if len(ids) <= most else column

    return Corpus(
        version=dataset.version,
        ids=[*ids] if len(ids) <= LISTED else ids,
        titles=strings("titles", LISTED),
        documents=strings("documents", LISTED),
        chunks=arrays["chunks"],
        vectors=arrays["vectors"],
        sentence_vectors=arrays["sentence_vectors"],
        sentence_passage=arrays["sentence_passage"],
        entities=mentions_of("entities", arrays),
        phrases=mentions_of("phrases", arrays),
        hashes=unpack_strings("hashes", arrays),
        two=None,
        _metadata=strings("_metadata", KEPT_FROM - 1),
        _texts=strings("_texts", KEPT_FROM - 1),
        _addresses=addresses,
        _fragments=stamps(dataset),
        _dataset=dataset,
        _folder=index.path,
        _surfaces=index.surfaces,
    )


def mentions_of(name: str, arrays: Arrays) -> Mentions:
    """The mentions of a kind among the arrays of a corpus."""
    sentence, code = arrays[f"{name}.sentence"], arrays[f"{name}.code"]
    return Mentions(sentence, code, unpack_strings(f"{name}.names", arrays))


class AnalysedRows:
    """Collects the analyses of rows, block by block, in order."""

    def __init__(self, dimension: int, folder: Path | None) -> None:
        self._dimension, self._folder = dimension, folder
        self._vectors = GrowingArray(folder, np.float32, (dimension,))
        self._sentence_vectors = GrowingArray(folder, np.float16, (dimension,))
        self._owners = GrowingArray(folder, np.int32)
        self._rows = 0
        self._mentions = {name: MentionReader() for name in MENTION_KINDS}

    def add(self, vectors: pa.FixedSizeListArray, sentences: pa.ListArray) -> None:
        """Add rows of the dataset.

        Their sentences come with texts, since Lance cannot read part of a list's structs; these are
        dropped here.
        """
        flat = sentences.flatten()
        self._vectors.extend(_matrix(vectors, self._dimension))
        self._sentence_vectors.extend(_matrix(flat.field("vector"), self._dimension))
        rows = np.arange(self._rows, self._rows + len(vectors))
        self._owners.extend(np.repeat(rows, lengths_of(sentences)))
        self._rows += len(vectors)
        for name, reader in self._mentions.items():
            reader.add(flat.field(name))

    def read(self) -> Arrays:
        """All arrays, as `_from_arrays` takes them; can be called once."""
        arrays = {
            "vectors": self._vectors.read(),
            "sentence_vectors": self._sentence_vectors.read(),
            "sentence_passage": self._owners.read(),
        }
        for name in MENTION_KINDS:
            mentions = self._mentions.pop(name).read()
            pieces = {f"{name}.sentence": mentions.sentence, f"{name}.code": mentions.code}
            pieces |= pack_strings(f"{name}.names", mentions.names)
            arrays |= {key: on_disk(array, self._folder) for key, array in pieces.items()}
        return arrays


def _matrix(vectors: pa.FixedSizeListArray, dimension: int) -> Float16:
    """(n, d) view of a vector column."""
    matrix: Float16 = vectors.flatten().to_numpy().reshape(-1, dimension)
    return matrix
