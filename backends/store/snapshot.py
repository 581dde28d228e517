"""One version of an index as arrays, in an order that depends on its content alone.

Row i is the passage with the i-th smallest id, so nothing computed from here depends on the order
of a corpus file, of commits or of compactions.

A version that differs little from one that was read before is layered on it: the base is reused,
and what was added since is a corpus of its own (`wye.backends.layers`). So reading a small write
costs what it adds.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from wye.backends.errors import IndexDamagedError
from wye.backends.layers import LayeredRows, LayeredStrings, Layers, Rows16, Rows32
from wye.backends.numerics import ragged
from wye.backends.store.derived import (
    KEPT_FROM,
    PASSAGES,
    Arrays,
    DerivedFiles,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from wye.backends.store.entity_vectors import EntityVectorCache
from wye.backends.store.growing import GrowingArray, GrowingStrings, laid
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import sentence_rows
from wye.backends.store.versions import reading
from wye.backends.strings import Strings, StringTable, joined, positions
from wye.backends.types import AnalysedSentence, Float16, Float32, Int32, Int64, Passage

_BLOCK = 1024
"""Passages that are read from the dataset at a time."""
LISTED = 50_000
"""Up to this many passages ids and titles are lists, which save 1 µs a hit and take 220 bytes.
Below `KEPT_FROM`, where nothing is mapped from the disk, texts and metadata are lists too."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """The mentions in sentences: one entry per mention, repeats kept, in sentence order.

    Attributes:
        sentence: (m,) int32 rows of sentences, ascending.
        code: (m,) int32 positions in `names`.
        names: The distinct names in code point order.
    """

    sentence: Int32
    code: Int32
    names: Strings

    def of(self, sentence: int) -> list[str]:
        """The names in a sentence, in order."""
        # `np.searchsorted` would copy the whole array, since the number has another type.
        first, last = (bisect_left(self.sentence, row) for row in (sentence, sentence + 1))
        return [self.names[code] for code in self.code[first:last].tolist()]


class LayeredMentions:
    """Mentions of a layered corpus. The arrays are built by copying on first use."""

    def __init__(self, layers: Layers, base: "AnyMentions", added: "AnyMentions") -> None:
        self._layers, self._both = layers, (base, added)

    def of(self, sentence: int) -> list[str]:
        """The names in a sentence, in order."""
        is_added, row = self._layers.place(sentence)
        return self._both[is_added].of(row)

    @property
    def sentence(self) -> Int32:
        """See `Mentions`."""
        return self._whole.sentence

    @property
    def code(self) -> Int32:
        """See `Mentions`."""
        return self._whole.code

    @property
    def names(self) -> Strings:
        """See `Mentions`."""
        return self._whole.names

    @cached_property
    def _whole(self) -> Mentions:
        reader = _MentionReader()
        sizes = self._layers.base, len(self._layers.added)
        for mentions, sentences in zip(self._both, sizes, strict=True):
            reader.add_mentions(mentions, sentences)
        return reader.read(self._layers.places)


AnyMentions = Mentions | LayeredMentions


@dataclass(frozen=True)
class Corpus:
    """One version in canonical order: n passages, and s sentences with mentions.

    Texts of sentences stay on disk; `sentence_texts` and `iter_sentence_texts` read them from this
    version, even when the index has moved on. Texts of passages are held: reading five of them from
    the dataset takes a millisecond, and ten if the processors are busy.

    In a layered version, vectors and mentions are layered too. They are indexed like arrays, and
    copied to one array by any other use.

    Attributes:
        ids: n ids, ascending in code point order. Ids, titles and documents are lists, except in a
            large index.
        chunks: (n,) int32 positions within the document.
        vectors: (n, d) float32, contiguous.
        sentence_vectors: (s, d) float16, contiguous.
        sentence_passage: (s,) int32 row of each sentence's passage, ascending.
        entities: Named entities by sentence.
        phrases: Noun phrases by sentence.
        hashes: n content hashes of rows; see `schema.content_hash`.
        two: The two corpora of a layered version; else None.
    """

    version: int
    ids: Sequence[str]
    titles: Sequence[str]
    documents: Sequence[str]
    chunks: Int32
    vectors: Rows32
    sentence_vectors: Rows16
    sentence_passage: Int32
    entities: AnyMentions
    phrases: AnyMentions
    hashes: Sequence[str]
    two: "TwoCorpora | None"
    _metadata: Sequence[str]
    _texts: Sequence[str]
    _addresses: Int64 | LayeredRows[np.int64]  # address of each row in the dataset
    _fragments: "Mapping[int, _Stamp]"
    _dataset: lance.LanceDataset | None  # None for an earlier version that was dropped
    _folder: Path
    _surfaces: EntityVectorCache

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.ids)

    @property
    def metadata(self) -> "ParsedMetadata":
        """Metadata of all passages, parsed on access."""
        return ParsedMetadata(self._metadata, self._folder)

    def surface_vectors(self, surfaces: Sequence[str]) -> Float32:
        """(k, d) vectors of k entity surfaces or titles; rows of NaN for those without one."""
        return self._surfaces.vectors(surfaces)

    def texts(self, rows: Sequence[int] | Int64) -> list[str]:
        """Texts of passages by row, in the given order."""
        return [self._texts[row] for row in np.asarray(rows, np.int64).tolist()]

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Rows of passages by id, in the given order; unknown ids are left out."""
        return [row for row in map(self._row, ids) if row >= 0]

    def _row(self, id_: str) -> int:
        """Row of a passage by id; -1 if it is unknown."""
        if isinstance(self.ids, StringTable):
            return self.ids.find(id_)
        if isinstance(self.ids, LayeredStrings) and self.two:
            row = self.two.added._row(id_)
            if row >= 0:
                return int(self.two.passages.added[row])
            row = self.two.base._row(id_)
            return self.two.passages.number(row) if row >= 0 else -1
        row = bisect_left(self.ids, id_)
        return row if row < len(self.ids) and self.ids[row] == id_ else -1

    def is_of(self, dataset: lance.LanceDataset) -> bool:
        """Whether a version of the dataset has the same rows."""
        return self._fragments == _stamps(dataset)

    def stored(
        self, documents: Collection[str], ids: Collection[str]
    ) -> list[tuple[str, str, str]]:
        """Id, document and content hash of the passages of some documents or with some ids."""
        rows = sorted({*self.rows([*ids]), *self._rows_of(documents)})
        return [(self.ids[row], self.documents[row], self.hashes[row]) for row in rows]

    def _rows_of(self, documents: Collection[str]) -> list[int]:
        """Rows of the passages of some documents."""
        if self.two is None:
            rows: list[int] = positions(self.documents, documents).tolist()
            return rows
        of_base, of_added = (each._rows_of(documents) for each in (self.two.base, self.two.added))
        left = [row for row in map(self.two.passages.number, of_base) if row >= 0]
        return [*left, *self.two.passages.added[of_added].tolist()]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the given order; unknown ids are left out."""
        rows = self.rows(ids)
        return [
            Passage(
                self.ids[row],
                self.titles[row],
                text,
                json.loads(self._metadata[row]),
                self.documents[row],
                int(self.chunks[row]),
            )
            for row, text in zip(rows, self.texts(rows), strict=True)
        ]

    def sentence_texts(self, sentences: Sequence[int] | Int64) -> list[str]:
        """Texts of sentences by row, in the given order, read from disk."""
        wanted = np.asarray(sentences, np.int64)
        passages, which = np.unique(self.sentence_passage[wanted], return_inverse=True)
        lists = self._take(passages, ["sentences"])["sentences"].combine_chunks()
        starts = np.cumsum(lists.value_lengths().to_numpy()) - lists.value_lengths().to_numpy()
        nth = wanted - np.searchsorted(self.sentence_passage, passages)[which]
        column = lists.flatten().field("text").take(pa.array(starts[which] + nth, pa.int64()))
        texts: list[str] = column.to_pylist()
        return texts

    def iter_texts(self) -> Iterator[tuple[str, str]]:
        """Title and text of all passages; one block of them is in memory at a time."""
        for block in self._blocks():
            titles = (self.titles[row] for row in block.tolist())
            yield from zip(titles, self.texts(block), strict=True)

    def iter_sentence_texts(self) -> Iterator[list[str]]:
        """Texts of the sentences of all passages, one list per block of passages."""
        for block in self._blocks():
            lists = self._take(block, ["sentences"])["sentences"].combine_chunks()
            yield lists.flatten().field("text").to_pylist()

    def _blocks(self) -> Iterator[Int64]:
        """All rows in blocks."""
        for start in range(0, len(self), _BLOCK):
            yield np.arange(start, min(start + _BLOCK, len(self)), dtype=np.int64)

    def _take(self, rows: Sequence[int] | Int32 | Int64, columns: list[str]) -> pa.Table:
        """Columns of passages by row, in the given order."""
        if self._dataset is None:
            raise ValueError(f"Version {self.version} has no dataset to read")
        addresses = self._addresses[np.asarray(rows, np.int64)]
        with reading(self._folder):
            return self._dataset._take_rows(pa.array(addresses, pa.uint64()), columns)


class ParsedMetadata(Sequence[dict[str, Any]]):
    """Metadata of passages, parsed on access: as Python objects it takes ten times the memory."""

    def __init__(self, texts: Sequence[str], folder: Path) -> None:
        self._texts, self._folder = texts, folder

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        with reading(self._folder):
            values: dict[str, Any] = json.loads(self._texts[index])
            return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with reading(self._folder):
            yield from map(json.loads, self._texts)


@dataclass(frozen=True)
class TwoCorpora:
    """The two parts of a layered corpus.

    Attributes:
        base: The corpus of an earlier version, including rows that were removed since.
        added: A corpus of the rows that the base lacks.
        passages: The layers of their passages.
        sentences: The layers of their sentences.
    """

    base: Corpus
    added: Corpus
    passages: Layers
    sentences: Layers


@dataclass(frozen=True)
class RefinedCorpus(Corpus):
    """A version in which some passages have other sentences than in the dataset, all in memory."""

    _sentences: Strings

    def sentence_texts(self, sentences: Sequence[int] | Int64) -> list[str]:
        """See `Corpus.sentence_texts`."""
        return [self._sentences[row] for row in np.asarray(sentences, np.int64).tolist()]

    def iter_sentence_texts(self) -> Iterator[list[str]]:
        """See `Corpus.iter_sentence_texts`."""
        for block in self._blocks():
            first, last = np.searchsorted(self.sentence_passage, (block[0], block[-1] + 1)).tolist()
            yield [*self._sentences[first:last]]


def with_sentences(
    corpus: Corpus, rows: Int64, sentences: Sequence[Sequence[AnalysedSentence]]
) -> RefinedCorpus:
    """A copy of a corpus, without layers, in which some passages have other sentences.

    Args:
        rows: (r,) rows of these passages.
        sentences: The sentences of each of them.
    """
    count = len(corpus)
    analysed = _Analysed(corpus.vectors.shape[1], None)
    batch = sentence_rows(np.asarray(corpus.vectors[rows]), sentences)
    analysed.add(batch["vector"], batch["sentences"])
    refined = analysed.read()
    # New sentences are appended, and then all are gathered in row order.
    source = np.arange(count, dtype=np.int64)
    source[rows] = count + np.arange(len(rows), dtype=np.int64)
    owners = corpus.sentence_passage, refined["sentence_passage"]
    sizes = zip(owners, (count, len(rows)), strict=True)
    lengths = np.concatenate([_counts(each, size) for each, size in sizes])
    gather = ragged(lengths, source)
    mentions = {}
    for name in _MENTIONS:
        reader = _MentionReader()
        for each, sentences_of in zip(
            (getattr(corpus, name), _mentions(name, refined)), owners, strict=True
        ):
            reader.add_mentions(each, len(sentences_of))
        mentions[name] = reader.read(gather)
    vectors = np.asarray(corpus.sentence_vectors), refined["sentence_vectors"]
    before = Strings(chain.from_iterable(corpus.iter_sentence_texts()))
    after = Strings(one.text for of_passage in sentences for one in of_passage)
    same: dict[str, Any] = {field.name: getattr(corpus, field.name) for field in fields(Corpus)}
    changed = {
        **mentions,
        "sentence_vectors": np.concatenate(vectors)[gather],
        "sentence_passage": np.repeat(np.arange(count, dtype=np.int32), lengths[source]),
        "two": None,
    }
    return RefinedCorpus(**{**same, **changed, "_sentences": joined(before, after, gather)})


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
_MENTIONS = ("entities", "phrases")

_Value = TypeVar("_Value", bound=np.generic)


def read_corpus(index: PassageStore, base: Corpus | None = None) -> Corpus:
    """Read the version that an index has in view; with a base, only what that lacks.

    A corpus that was read without a base is written beside the dataset, for `kept_corpus`.

    Args:
        base: The corpus of another version, not layered itself.

    Raises:
        IndexDamagedError: The index cannot be read.
    """
    if base is not None:
        with reading(index.path):
            if (layered := _layered(index, base)) is not None:
                return layered
    corpus, keep = read_whole(index)
    keep()
    return kept_corpus(index, index.derived) or corpus


def kept_corpus(index: PassageStore, files: DerivedFiles) -> Corpus | None:
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
        gone, new, _ = _differences(dataset, base, _stamps(dataset))
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

    arrays = _read_arrays(tables(), index.dimension, files.room())
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


def _read_arrays(tables: Iterable[pa.Table], dimension: int, room: Path | None) -> Arrays:
    """The arrays of a corpus; the tables have its rows in order of ids."""
    strings = {
        name: GrowingStrings(room, is_long=name in _LONG)
        for name, column in _COLUMNS.items()
        if name != "chunks"
    }
    chunks = GrowingArray(room, np.int32)
    analysed = _Analysed(dimension, room)
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
    stamps = _stamps(dataset)
    if (base.version, base._fragments) == (index.version, stamps):
        return base
    gone, new, moved = _differences(dataset, base, stamps)
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
            for n, stamp in stamps.items()
        }
        base = replace(base, _addresses=moved, _fragments=marked)
    ids = base.ids.strings if isinstance(base.ids, StringTable) else base.ids
    before = ids.place if isinstance(ids, Strings) else partial(bisect_left, ids)
    left = np.array([*map(before, added.ids)], np.int64)
    left -= np.searchsorted(gone, left)
    passages = Layers(len(base), gone, left + np.arange(len(left)))
    sentences = passages.owned(base.sentence_passage, added.sentence_passage)

    def strings(name: str) -> Sequence[str]:
        both = getattr(base, name), getattr(added, name)
        is_listed = isinstance(both[0], list)
        return passages.listed(*both) if is_listed else LayeredStrings(passages, *both)

    return Corpus(
        version=dataset.version,
        ids=strings("ids"),
        titles=strings("titles"),
        documents=strings("documents"),
        chunks=passages.lay(base.chunks, added.chunks),
        vectors=_rows(passages, base.vectors, added.vectors),
        sentence_vectors=_rows(sentences, base.sentence_vectors, added.sentence_vectors),
        sentence_passage=passages.owners(base.sentence_passage, added.sentence_passage),
        entities=LayeredMentions(sentences, base.entities, added.entities),
        phrases=LayeredMentions(sentences, base.phrases, added.phrases),
        hashes=strings("hashes"),
        two=TwoCorpora(base, added, passages, sentences),
        _metadata=strings("_metadata"),
        _texts=strings("_texts"),
        _addresses=_rows(passages, base._addresses, added._addresses),
        _fragments=stamps,
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
    dataset: lance.LanceDataset, base: Corpus, now: "Mapping[int, _Stamp]"
) -> tuple[Int64, Int64, Int64]:
    """Compare a version, whose stamps are given, with a base.

    Returns:
        Rows of the base that the version lacks, and addresses of rows that the base lacks, both
        ascending; then the new addresses of all rows of the base, -1 for a lacking one, or an empty
        array if none has moved.
    """
    before = base._fragments
    same = [number for number, stamp in now.items() if before.get(number) == stamp]
    there = [n for n, stamp in now.items() if n in before and before[n].files == stamp.files]
    addresses = np.asarray(base._addresses)
    numbers: Int64 = addresses >> _ROW_BITS
    unchanged = np.zeros(max(before, default=0) + 2, bool)  # the last is for rows that were lost
    unchanged[same] = True
    looked = np.flatnonzero(~unchanged[numbers])
    fragments = [each for each in dataset.get_fragments() if each.fragment_id not in same]
    live = np.empty(0, np.int64)
    if fragments:
        scanner = dataset.scanner(columns=[], fragments=fragments, with_row_address=True)
        live = _addresses(scanner.to_table())
    is_left = np.isin(addresses[looked], live) & np.isin(numbers[looked], there)
    new = np.setdiff1d(live, addresses[looked[is_left]])
    lost = looked[~is_left]
    if not len(lost) or not len(new):
        return lost, new, np.empty(0, np.int64)
    names = dataset._take_rows(pa.array(new, pa.uint64()), ["id", "content_hash"])
    ids, hashes = (
        pa.array([column[row] for row in lost.tolist()]) for column in (base.ids, base.hashes)
    )
    matches = pc.index_in(names["id"].combine_chunks(), value_set=ids)
    is_same = pc.fill_null(
        pc.equal(names["content_hash"].combine_chunks(), hashes.take(matches)), False
    )
    stays = is_same.to_numpy(zero_copy_only=False)
    which = matches.filter(is_same).to_numpy()
    moved = addresses.copy()
    moved[lost] = -1
    moved[lost[which]] = new[stays]
    return np.delete(lost, which), new[~stays], moved if len(which) else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The files of a fragment of the dataset."""

    files: tuple[str, ...]
    deletions: str


def _stamps(dataset: lance.LanceDataset) -> dict[int, _Stamp]:
    """The stamp of each fragment, by number."""
    stamps = {}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata  # made anew on each access
        gone = metadata.deletion_file
        files = tuple(file.path for file in metadata.files)
        stamps[metadata.id] = _Stamp(files, gone.path(metadata.id) if gone else "")
    return stamps


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
        own = unpack_strings(name, arrays)
        return [*own] if len(ids) <= most else own

    return Corpus(
        version=dataset.version,
        ids=[*ids] if len(ids) <= LISTED else ids,
        titles=strings("titles", LISTED),
        documents=strings("documents", LISTED),
        chunks=arrays["chunks"],
        vectors=arrays["vectors"],
        sentence_vectors=arrays["sentence_vectors"],
        sentence_passage=arrays["sentence_passage"],
        entities=_mentions("entities", arrays),
        phrases=_mentions("phrases", arrays),
        hashes=unpack_strings("hashes", arrays),
        two=None,
        _metadata=strings("_metadata", KEPT_FROM - 1),
        _texts=strings("_texts", KEPT_FROM - 1),
        _addresses=addresses,
        _fragments=_stamps(dataset),
        _dataset=dataset,
        _folder=index.path,
        _surfaces=index.surfaces,
    )


def _mentions(name: str, arrays: Arrays) -> Mentions:
    sentence, code = arrays[f"{name}.sentence"], arrays[f"{name}.code"]
    return Mentions(sentence, code, unpack_strings(f"{name}.names", arrays))


class _Analysed:
    """Collects the analyses of rows, block by block, in order."""

    def __init__(self, dimension: int, room: Path | None) -> None:
        self._dimension, self._room = dimension, room
        self._vectors = GrowingArray(room, np.float32, (dimension,))
        self._sentence_vectors = GrowingArray(room, np.float16, (dimension,))
        self._owners = GrowingArray(room, np.int32)
        self._rows = 0
        self._mentions = {name: _MentionReader() for name in _MENTIONS}

    def add(self, vectors: pa.FixedSizeListArray, sentences: pa.ListArray) -> None:
        """Add rows of the dataset.

        Their sentences come with texts, since Lance cannot read part of a list's structs; these are
        dropped here.
        """
        flat = sentences.flatten()
        self._vectors.extend(_matrix(vectors, self._dimension))
        self._sentence_vectors.extend(_matrix(flat.field("vector"), self._dimension))
        rows = np.arange(self._rows, self._rows + len(vectors))
        self._owners.extend(np.repeat(rows, _lengths(sentences)))
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
        for name in _MENTIONS:
            mentions = self._mentions.pop(name).read()
            pieces = {f"{name}.sentence": mentions.sentence, f"{name}.code": mentions.code}
            pieces |= pack_strings(f"{name}.names", mentions.names)
            arrays |= {key: laid(array, self._room) for key, array in pieces.items()}
        return arrays


class _MentionReader:
    """Collects one list-of-strings column of the sentences, in order."""

    def __init__(self) -> None:
        self._counts: list[Int32] = [np.empty(0, np.int32)]
        self._names: list[pa.Array] = [pa.array([], pa.string()).dictionary_encode()]

    def add(self, lists: pa.ListArray) -> None:
        """Add the next sentences."""
        self._counts.append(_lengths(lists))
        self._names.append(lists.flatten().dictionary_encode())

    def add_mentions(self, mentions: AnyMentions, sentences: int) -> None:
        """Add the mentions of an earlier version, which has so many sentences."""
        self._counts.append(_counts(mentions.sentence, sentences))
        names = mentions.names.array
        self._names.append(pa.DictionaryArray.from_arrays(pa.array(mentions.code), names))

    def read(self, sentences: Int64 | None = None) -> Mentions:
        """The mentions of some sentences, in the given order, by default of all; callable once."""
        chunked = pa.chunked_array(self._names)
        self._names.clear()
        encoded = chunked.unify_dictionaries().combine_chunks()
        counts = np.concatenate(self._counts)
        taken = encoded.indices.to_numpy()
        if sentences is not None:
            taken, counts = taken[ragged(counts, sentences)], counts[sentences]
        # An earlier version may have names that are no longer mentioned.
        used = np.flatnonzero(np.bincount(taken, minlength=len(encoded.dictionary)))
        names = encoded.dictionary.take(pa.array(used))
        by_name = pc.sort_indices(names).to_numpy().astype(np.int64)
        code = np.full(len(encoded.dictionary), -1, np.int32)
        code[used[by_name]] = np.arange(len(used), dtype=np.int32)
        return Mentions(
            sentence=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            code=code[taken],
            names=Strings(names.take(pa.array(by_name))),
        )


def _matrix(vectors: pa.FixedSizeListArray, dimension: int) -> Float16:
    """(n, d) view of a vector column."""
    matrix: Float16 = vectors.flatten().to_numpy().reshape(-1, dimension)
    return matrix


def _lengths(lists: pa.ListArray) -> Int32:
    lengths: Int32 = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths


def _counts(owners: Int32, size: int) -> Int32:
    """(size,) number of entries of each owner."""
    return np.bincount(owners, minlength=size).astype(np.int32)
