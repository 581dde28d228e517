"""One version of an index as arrays, in an order that depends on its content alone.

Row i is the passage with the i-th smallest id, so nothing computed from here depends on the order
of a corpus file, of commits or of compactions.

A version that differs little from one that was read before has that one as its base: the base's
rows come first, the late ones follow in the order of their ids, and rows of the base that the
version lacks are not `present`. So no number changes, and reading a small write costs what it adds.
Rows of fragments that changed since, by a deletion or a compaction, are matched by id and hash.

All functions raise an `IndexDamagedError` if the index cannot be read.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.arrays import GrowingArray, Strings, joined, pack_strings, taken, unpack_strings
from wye.backends.numerics import JoinedRows, Rows16, Rows32
from wye.backends.store.derived import PASSAGES, DerivedFiles
from wye.backends.store.index import DERIVED_FROM, PassageStore
from wye.backends.store.schema import NAMES
from wye.backends.store.versions import read_record, sizes_in
from wye.backends.types import Arrays, Float32, Int32, Int64, Mask, Passage

STRINGS = {
    "ids": "id",
    "titles": "title",
    "documents": "document",
    "hashes": "content_hash",
    "metadata": "metadata",
    "_texts": "text",
}
"""Field of a corpus -> column of the dataset."""
MENTIONS = ("entities", "phrases")
NUMBERS = ("chunks", "vectors", "sentence_vectors", "sentence_passage")
COLUMNS = [*STRINGS.values(), "chunk", "vector", "sentences"]  # those that `read_arrays` takes
_BLOCK = 1024  # passages that are read from the dataset at a time
LISTED = 50_000
"""Up to this many passages ids and titles are lists, which save 1 µs a hit and take 220 bytes.
Below `DERIVED_FROM`, where nothing is mapped from the disk, texts and metadata are lists too."""
_MOST = 0.25  # largest share of the base's rows that a version may remove, or add
_ROW_BITS = 32
_ADDRESSES, _FRAGMENTS = "addresses", "fragments"


@dataclass(slots=True)
class Mentions:
    """The mentions in sentences: one entry per mention, repeats kept, in sentence order."""

    sentence: Int32  # (m,) rows of sentences, ascending
    code: Int32  # (m,) positions in `names`
    names: Strings  # distinct, in code point order
    late: "Mentions | None" = None  # those in late sentences, which have no part in the arrays
    first: int = 0  # number of the first late sentence

    def of(self, sentence: int) -> list[str]:
        """The names in a sentence, in order."""
        if self.late is not None and sentence >= self.first:
            return self.late.of(sentence - self.first)
        # `np.searchsorted` would copy the whole array, since the number has another type.
        first, last = (bisect_left(self.sentence, row) for row in (sentence, sentence + 1))
        return [self.names[code] for code in self.code[first:last].tolist()]


@dataclass(frozen=True)
class Corpus:
    """One version in canonical order: n passages, and s sentences with mentions.

    Texts of sentences stay on disk; `sentence_texts` and `iter_sentence_texts` read them from this
    version, even when the index has moved on. Texts of passages are held: reading five of them from
    the dataset takes a millisecond, and ten if the processors are busy.

    In a version with a base, vectors are in two arrays. They are indexed like one, and copied to
    one by any other use.

    Attributes:
        ids: n ids, ascending in code point order, or those of the base and then the late ones. Ids,
            titles and documents are lists, except in a large index.
        parts: The base, a corpus of an earlier version whose rows come first, and a corpus of the
            rows that it lacks; None without a base.
        order: (n,) position of each row among all in the order of ids; None if they are in it.
    """

    version: int
    ids: Sequence[str]
    titles: Sequence[str]
    documents: Sequence[str]
    chunks: Int32  # (n,) positions within the document
    vectors: Rows32  # (n, d), contiguous
    sentence_vectors: Rows16  # (s, d), contiguous
    sentence_passage: Int32  # (s,) row of each sentence's passage, ascending
    entities: Mentions  # named entities by sentence
    phrases: Mentions  # noun phrases by sentence
    hashes: Sequence[str]  # see `ingest.content_hash`
    metadata: Sequence[str]  # n JSON objects: as Python objects they take ten times the memory
    addresses: Int64  # (n,) where each row is in the dataset; -1 for one that is not there
    _texts: Sequence[str]
    _known: Int64  # addresses when the corpus was first read, which the next is about
    _fragments: Mapping[int, tuple[str, ...]]  # see `fragments_of`
    _dataset: lance.LanceDataset
    _index: PassageStore
    parts: "tuple[Corpus, Corpus] | None" = None
    present: Mask | None = None  # (n,) which rows the version has; None for all
    order: Int64 | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def by_id(self) -> Int64:
        """The rows that the version has, in the order of their ids."""
        rows = np.arange(len(self)) if self.order is None else np.argsort(self.order)
        return rows if self.present is None else rows[self.present[rows]]

    def surface_vectors(self, surfaces: Sequence[str]) -> Float32:
        """(k, d) vectors of k names, read from disk; rows of NaN for those without one."""
        distinct = pa.array(surfaces, pa.string()).dictionary_encode()
        vectors: Float32 = np.full((len(distinct.dictionary), self._index.dimension), np.nan, "f4")
        has_names = NAMES in self._dataset.schema.names
        with self._index.reading():
            for batch in self._dataset.to_batches([NAMES]) if has_names else ():
                stored = batch[NAMES].flatten()
                rows = pc.index_in(stored.field("name"), value_set=distinct.dictionary)
                matches = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
                flat = stored.field("vector").flatten().to_numpy()
                matrix = flat.reshape(len(rows), vectors.shape[1])
                vectors[rows.take(pa.array(matches)).to_numpy()] = matrix[matches]
        order: Int32 = distinct.indices.to_numpy()
        return vectors[order]

    def texts(self, rows: Sequence[int] | Int64) -> list[str]:
        """Texts of passages by row, in the given order."""
        return [self._texts[row] for row in np.asarray(rows, np.int64).tolist()]

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Rows of passages by id, in the given order; unknown ids are left out."""
        return [row for row in map(self._row, ids) if row >= 0]

    def _row(self, id_: str) -> int:
        """Row of a passage by id; -1 if it is unknown."""
        if self.parts:
            base, late = self.parts
            row = late._row(id_)
            if row >= 0:
                return len(base) + row
            row = base._row(id_)
            return row if row < 0 or self.present is None or self.present[row] else -1
        if isinstance(self.ids, Strings):
            return self.ids.find(id_)
        row = bisect_left(self.ids, id_)
        return row if row < len(self.ids) and self.ids[row] == id_ else -1

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the given order; unknown ids are left out."""
        rows, passages = self.rows(ids), list[Passage]()
        for row, text in zip(rows, self.texts(rows), strict=True):
            content = self.titles[row], text, json.loads(self.metadata[row])
            origin = self.documents[row], int(self.chunks[row])
            passages.append(Passage(self.ids[row], *content, *origin))
        return passages

    def sentence_texts(self, sentences: Sequence[int] | Int64) -> list[str]:
        """Texts of sentences by row, in the given order, read from disk."""
        rows = np.asarray(sentences, np.int64)
        passages, which = np.unique(self.sentence_passage[rows], return_inverse=True)
        lists = self._sentences(passages)
        starts = np.cumsum(lists.value_lengths().to_numpy()) - lists.value_lengths().to_numpy()
        nth = rows - np.searchsorted(self.sentence_passage, passages)[which]
        column = lists.flatten().field("text").take(pa.array(starts[which] + nth, pa.int64()))
        texts: list[str] = column.to_pylist()
        return texts

    def iter_texts(self) -> Iterator[tuple[str, str]]:
        """Title and text of all passages."""
        return zip(self.titles, self._texts, strict=True)

    def iter_sentence_texts(self) -> Iterator[list[str]]:
        """Texts of the sentences of all rows, one list per block of passages; "" for gone ones."""
        for start in range(0, len(self), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(self)))
            here = rows[self.addresses[rows] >= 0]
            texts = iter(self._sentences(here).flatten().field("text").to_pylist())
            ends = rows[0], rows[-1] + 1
            first, last = (bisect_left(self.sentence_passage, row) for row in ends)
            is_here = np.isin(self.sentence_passage[first:last], here).tolist()
            yield [next(texts) if each else "" for each in is_here]

    def _sentences(self, rows: Int32 | Int64) -> pa.ListArray:
        """The sentences of passages by row, in the given order, read from disk."""
        addresses = pa.array(self.addresses[rows], pa.uint64())
        with self._index.reading():
            return self._dataset._take_rows(addresses, ["sentences"])["sentences"].combine_chunks()


def fragments_of(dataset: lance.LanceDataset) -> dict[int, tuple[str, ...]]:
    """Number of each fragment -> its data files and deletion file, whose names are never reused."""
    return {each.fragment_id: (*sizes_in([each.metadata]),) for each in dataset.get_fragments()}


def read_corpus(index: PassageStore, base: Corpus | None = None) -> Corpus:
    """Read a version; with a base, the corpus of another one without a base, only what that lacks.

    A corpus that was read without a base is written beside the dataset, for `stored_corpus`.
    """
    if base is not None and index.is_large:
        with index.reading():
            if (corpus := _on(index, base)) is not None:
                return corpus
    corpus, keep = read_whole(index)
    if (files := index.derived) is None:
        return corpus
    keep()
    return stored_corpus(index, files) or corpus


def stored_corpus(index: PassageStore, files: DerivedFiles) -> Corpus | None:
    """The corpus of derived files, to be a base; None if it cannot be read."""
    if (arrays := files.read(PASSAGES)) is None:
        return None
    dataset, stored = index.snapshot(), json.loads(arrays[_FRAGMENTS].tobytes())
    fragments = {int(number): tuple(names) for number, names in stored.items()}
    base = _from_arrays(index, dataset, arrays, arrays[_ADDRESSES])
    base = replace(base, version=files.version, _fragments=fragments)
    with index.reading():
        return replace(base, addresses=_differences(dataset, base)[0])


def read_whole(index: PassageStore) -> tuple[Corpus, Callable[[], None]]:
    """Read all of the version in view; also returns a function that writes it beside the dataset.

    The arrays are on disk, as far as there is room; memory holds one block at a time.
    """
    dataset, files = index.snapshot(), index.derived
    index.check_files(read_record(index.path).digests)  # all bytes are read here anyway
    with index.reading():
        id_table = dataset.to_table(columns=["id"], with_row_address=True, scan_in_order=True)
    order: Int64 = pc.sort_indices(id_table["id"]).to_numpy().astype(np.int64)
    addresses = _addresses(id_table)[order]

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(addresses), _BLOCK):
            block = pa.array(addresses[start : start + _BLOCK], pa.uint64())
            with index.reading():
                table = dataset._take_rows(block, COLUMNS)
            yield table

    def read(folder: Path | None) -> Arrays:
        return read_arrays(tables(), index.dimension, folder)

    arrays = files.with_room(read) if files else read(None)
    pa.default_memory_pool().release_unused()  # Arrow would only do so after a while
    corpus = _from_arrays(index, dataset, arrays, addresses)
    fragments = np.frombuffer(json.dumps(corpus._fragments).encode(), np.uint8)
    arrays = {**arrays, _ADDRESSES: addresses, _FRAGMENTS: fragments}
    return corpus, lambda: files.write(PASSAGES, arrays) if files else None


def _from_arrays(
    index: PassageStore, dataset: lance.LanceDataset, arrays: Arrays, addresses: Int64
) -> Corpus:
    """The corpus with some arrays; `addresses` are those of its rows."""
    columns: dict[str, Any] = {name: arrays[name] for name in NUMBERS}
    for name in STRINGS:
        strings = unpack_strings(name, arrays)
        most = LISTED if name in ("ids", "titles", "documents") else DERIVED_FROM - 1
        columns[name] = [*strings] if len(addresses) <= most else strings
    for kind in MENTIONS:
        names = unpack_strings(f"{kind}.names", arrays)
        columns[kind] = Mentions(arrays[f"{kind}.sentence"], arrays[f"{kind}.code"], names)
    return Corpus(
        **columns,
        version=dataset.version,
        addresses=addresses,
        _known=addresses,
        _fragments=fragments_of(dataset),
        _dataset=dataset,
        _index=index,
    )


def corpus_of(index: PassageStore, rows: pa.RecordBatch) -> Corpus:
    """Rows that are not written yet as a corpus; an address is a position in the batch."""
    dataset = lance.write_dataset(pa.Table.from_batches([rows]), "memory://")
    order = pc.sort_indices(rows.column("id"))
    arrays = read_arrays([dataset.to_table(columns=COLUMNS).take(order)], index.dimension, None)
    return _from_arrays(index, dataset, arrays, order.to_numpy().astype(np.int64))


def _on(index: PassageStore, base: Corpus) -> Corpus | None:
    """A version on a base, or the base itself; None if they differ too much."""
    dataset = index.snapshot()
    if base.version == index.version and base._fragments == fragments_of(dataset):
        return base
    addresses, new = _differences(dataset, base)
    if max(int((addresses < 0).sum()), len(new)) > _MOST * len(base):
        return None
    table = dataset._take_rows(pa.array(new, pa.uint64()), COLUMNS)
    by_id = pc.sort_indices(table["id"])
    arrays = read_arrays([table.take(by_id)], index.dimension, None)
    late = _from_arrays(index, dataset, arrays, new[by_id.to_numpy()])
    return with_late(base, late, addresses)


def with_late(base: Corpus, late: Corpus, addresses: Int64) -> Corpus:
    """The corpus of a version with rows of a base, which are at some addresses, and late ones."""
    size, ids, present = len(base), base.ids, np.ones(len(base) + len(late), bool)
    present[:size] = addresses >= 0
    before = ids.insertion_point if isinstance(ids, Strings) else partial(bisect_left, ids)
    points, rows = np.array([*map(before, late.ids)], np.int64), np.arange(size)
    order = [rows + points.searchsorted(rows, "right"), points + np.arange(len(points))]
    columns: dict[str, Any] = {
        name: joined(getattr(base, name), getattr(late, name)) for name in STRINGS
    }
    for kind in MENTIONS:
        first = len(base.sentence_passage)
        columns[kind] = replace(getattr(base, kind), late=getattr(late, kind), first=first)
    for name in ("vectors", "sentence_vectors"):
        columns[name] = JoinedRows(getattr(base, name), getattr(late, name))
    owners = base.sentence_passage, late.sentence_passage + np.int32(size)
    return Corpus(
        **columns,
        version=late.version,
        chunks=np.concatenate([base.chunks, late.chunks]),
        sentence_passage=np.concatenate(owners),
        addresses=np.concatenate([addresses, late.addresses]),
        _known=np.concatenate([base._known, late._known]),
        _fragments=late._fragments,
        _dataset=late._dataset,
        _index=late._index,
        parts=(base, late),
        present=None if present.all() else present,
        order=np.concatenate(order) if len(late) else None,
    )


def _differences(dataset: lance.LanceDataset, base: Corpus) -> tuple[Int64, Int64]:
    """Compare a version with a base: only fragments that the base does not know as they are now.

    Returns the address of each row of the base, -1 for one that the version lacks; and the
    addresses, ascending, of rows that the base lacks.
    """
    now = fragments_of(dataset)
    same = [number for number, files in now.items() if base._fragments.get(number) == files]
    rows = np.flatnonzero(~np.isin(base._known >> _ROW_BITS, same))
    addresses = base._known.copy()
    addresses[rows] = -1
    changed = [each for each in dataset.get_fragments() if each.fragment_id not in same]
    if not changed:
        return addresses, np.empty(0, np.int64)
    columns = ["id", "content_hash"]
    scanner = dataset.scanner(columns=columns, fragments=changed, with_row_address=True)
    table = scanner.to_table().combine_chunks()
    at, ids, hashes = _addresses(table), *(table[name].combine_chunks() for name in columns)
    base_ids, base_hashes = (taken(column, rows) for column in (base.ids, base.hashes))
    matches = pc.index_in(ids, value_set=base_ids)
    is_same = pc.fill_null(pc.equal(hashes, base_hashes.take(matches)), False)
    is_known = is_same.to_numpy(zero_copy_only=False)
    addresses[rows[matches.filter(is_same).to_numpy()]] = at[is_known]
    return addresses, np.sort(at[~is_known])


def _addresses(table: pa.Table) -> Int64:
    addresses: Int64 = table["_rowaddr"].to_numpy().astype(np.int64)
    return addresses


def read_arrays(tables: Iterable[pa.Table], dimension: int, folder: Path | None) -> Arrays:
    """The arrays of a corpus; the tables have its rows in order of ids.

    Texts of sentences are dropped here, since Lance cannot read part of a list's structs.
    """
    growing = {
        "vectors": GrowingArray(folder, np.float32, (dimension,)),
        "sentence_vectors": GrowingArray(folder, np.float16, (dimension,)),
        **{name: GrowingArray(folder, np.int32) for name in ("chunks", "sentence_passage")},
        **{f"{name}.starts": GrowingArray(folder, np.int64) for name in STRINGS},  # lengths so far
        **{f"{name}.text": GrowingArray(folder, np.uint8) for name in STRINGS},
    }
    mentions: dict[str, list[tuple[Int32, pa.DictionaryArray]]] = {kind: [] for kind in MENTIONS}
    rows = 0
    for table in tables:
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        for name, column in STRINGS.items():
            starts, text = pack_strings("", Strings(columns[column])).values()
            growing[f"{name}.starts"].extend(np.diff(starts))
            growing[f"{name}.text"].extend(text)
        sentences = columns["sentences"].flatten()
        owners = np.repeat(np.arange(rows, rows + len(table)), _lengths(columns["sentences"]))
        growing["chunks"].extend(columns["chunk"].to_numpy())
        growing["vectors"].extend(columns["vector"].flatten().to_numpy())
        growing["sentence_vectors"].extend(sentences.field("vector").flatten().to_numpy())
        growing["sentence_passage"].extend(owners)
        rows += len(table)
        for kind, lists in mentions.items():
            names = sentences.field(kind)
            lists.append((_lengths(names), names.flatten().dictionary_encode()))
    arrays = {name: array.read() for name, array in growing.items()}
    for kind in MENTIONS:
        arrays |= _mention_arrays(kind, mentions.pop(kind))
    for name in STRINGS:
        ends = np.cumsum(arrays[f"{name}.starts"])
        arrays[f"{name}.starts"] = np.concatenate([np.zeros(1, np.int64), ends])
    return arrays


def _lengths(lists: pa.ListArray) -> Int32:
    lengths: Int32 = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths


def _mention_arrays(kind: str, lists: Sequence[tuple[Int32, pa.DictionaryArray]]) -> Arrays:
    """The arrays of mentions; each block has the sentences' numbers of names, and all of these."""
    no_names = pa.array([], pa.string()).dictionary_encode()
    chunked = pa.chunked_array([no_names, *(names for _, names in lists)])
    encoded = chunked.unify_dictionaries().combine_chunks()
    counts = np.concatenate([np.empty(0, np.int32), *(counts for counts, _ in lists)])
    by_name = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    code = np.empty(len(by_name), np.int32)
    code[by_name] = np.arange(len(by_name), dtype=np.int32)
    return {
        f"{kind}.sentence": np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        f"{kind}.code": code[encoded.indices.to_numpy()],
        **pack_strings(f"{kind}.names", Strings(encoded.dictionary.take(pa.array(by_name)))),
    }
