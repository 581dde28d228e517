"""All of one index version as arrays, in an order that only its content decides.

Row i is the passage with the i-th smallest id, so neither the order of a corpus file nor that of
commits and compactions shows in anything computed from here.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.numerics import ragged
from backends.store.derived import (
    Arrays,
    DerivedFiles,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from backends.store.entity_vectors import EntityVectorCache
from backends.store.index import PassageStore
from backends.store.versions import reading
from backends.types import Float16, Float32, Int32, Int64, Passage
from backends.words import Strings, StringTable

_TEXT_BLOCK = 4096
LISTED = 50_000
"""Passages up to which ids and titles are lists: quicker by a microsecond a hit, and 220 bytes."""


@dataclass(frozen=True, slots=True)
class Mentions:
    """Which sentence mentions what; one entry a mention, repeats kept, in sentence order.

    Attributes:
        sentence: (m,) int32 rows of sentences, ascending.
        code: (m,) int32 places in `names`.
        names: Each distinct name once, in code point order.
    """

    sentence: Int32
    code: Int32
    names: Strings


@dataclass(frozen=True)
class Corpus:
    """One version, in canonical order: n passages, s sentences that mention something.

    Texts of sentences stay on disk; `sentence_texts` and `iter_sentence_texts` read them from this
    version, even when the index has moved on. Those of passages are held: to read five of them from
    the dataset takes a millisecond, and ten where the processors are busy.

    Attributes:
        ids: n ids, ascending in code point order. These, titles and documents are lists, but in a
            large index that was mapped.
        chunks: (n,) int32 places within the document.
        vectors: (n, d) float32, contiguous.
        sentence_vectors: (s, d) float16, contiguous.
        sentence_passage: (s,) int32 row of each sentence's passage, ascending.
        entities: Named entities by sentence.
        phrases: Noun phrases by sentence.
        hashes: n hashes of all that a row is made from.
        origin: (n,) row of each passage in the version that this one was read after, or -1 where it
            is new or was changed since; None when it was read from nothing.
    """

    version: int
    ids: Sequence[str]
    titles: Sequence[str]
    documents: Sequence[str]
    chunks: Int32
    vectors: Float32
    sentence_vectors: Float16
    sentence_passage: Int32
    entities: Mentions
    phrases: Mentions
    hashes: Strings
    origin: Int64 | None
    _metadata: Strings
    _texts: Strings
    _places: Int64  # of each row in the dataset
    _dataset: lance.LanceDataset | None  # none of an earlier version that only files are left of
    _folder: Path
    _surfaces: EntityVectorCache

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.ids)

    @cached_property
    def metadata(self) -> list[dict[str, Any]]:
        """Metadata of every passage, parsed on first use."""
        with reading(self._folder):
            return [json.loads(text) for text in self._metadata]

    def surface_vectors(self, surfaces: Sequence[str]) -> Float32:
        """(k, d) vectors of k entity surfaces or titles; rows of NaN for those not stored."""
        return self._surfaces.vectors(surfaces)

    def texts(self, rows: Sequence[int] | Int64) -> list[str]:
        """Texts of passages by row, in the order asked for."""
        return self._values(self._texts, rows)

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Rows of passages by id, in the order asked for; ids that it lacks are left out."""
        if isinstance(self.ids, StringTable):
            found = map(self.ids.find, ids)
            return [row for row in found if row >= 0]
        places = [(id_, bisect_left(self.ids, id_)) for id_ in ids]
        return [row for id_, row in places if row < len(self.ids) and self.ids[row] == id_]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the order asked for; ids that this version lacks are left out."""
        rows = self.rows(ids)
        metadata = self._values(self._metadata, rows)
        return [
            Passage(
                self.ids[row],
                self.titles[row],
                text,
                json.loads(found),
                self.documents[row],
                int(self.chunks[row]),
            )
            for row, text, found in zip(rows, self.texts(rows), metadata, strict=True)
        ]

    def sentence_texts(self, sentences: Sequence[int] | Int64) -> list[str]:
        """Texts of sentences by their row, in the order asked for, read from disk."""
        wanted = np.asarray(sentences, np.int64)
        passages, which = np.unique(self.sentence_passage[wanted], return_inverse=True)
        lists = self._take(passages, ["sentences"])["sentences"].combine_chunks()
        starts = np.cumsum(lists.value_lengths().to_numpy()) - lists.value_lengths().to_numpy()
        nth = wanted - np.searchsorted(self.sentence_passage, passages)[which]
        found = lists.flatten().field("text").take(pa.array(starts[which] + nth, pa.int64()))
        texts: list[str] = found.to_pylist()
        return texts

    @property
    def changed(self) -> Int64:
        """Rows that the version which this one was read after did not have, ascending."""
        if self.origin is None:
            return np.arange(len(self), dtype=np.int64)
        return np.flatnonzero(self.origin < 0)

    def places_after(self, size: int) -> Int64:
        """(n,) where each passage lies when the changed ones are laid behind an earlier version.

        `size` is the number of passages of that version.

        Raises:
            ValueError: It was read from nothing.
        """
        if self.origin is None:
            raise ValueError("This version was read from nothing")
        places = self.origin.copy()
        changed = self.changed
        places[changed] = size + np.arange(len(changed), dtype=np.int64)
        return places

    def iter_texts(self, rows: Int64 | None = None) -> Iterator[tuple[str, str]]:
        """Title and text of passages in the order asked for, by default of all in row order.

        A block of them is in memory at a time.
        """
        for block in self._blocks(rows):
            titles = (self.titles[row] for row in block.tolist())
            yield from zip(titles, self.texts(block), strict=True)

    def iter_sentence_texts(self, rows: Int64 | None = None) -> Iterator[list[str]]:
        """Texts of the sentences of passages, likewise; a block of them together."""
        for block in self._blocks(rows):
            lists = self._take(block, ["sentences"])["sentences"].combine_chunks()
            yield lists.flatten().field("text").to_pylist()

    def _blocks(self, rows: Int64 | None) -> Iterator[Int64]:
        """Rows, some at a time."""
        wanted = np.arange(len(self), dtype=np.int64) if rows is None else rows
        for start in range(0, len(wanted), _TEXT_BLOCK):
            yield wanted[start : start + _TEXT_BLOCK]

    def _values(self, column: Strings, rows: Sequence[int] | Int64) -> list[str]:
        """Of some rows, one by one: Arrow's `take` of five needs ten times as long to begin."""
        with reading(self._folder):
            return [column[row] for row in np.asarray(rows, np.int64).tolist()]

    def _take(self, rows: Sequence[int] | Int32 | Int64, columns: list[str]) -> pa.Table:
        """Columns of passages by row, in the order asked for."""
        places = self._places[np.asarray(rows, np.int64)]
        if self._dataset is None:
            raise ValueError(f"Version {self.version} is not there to be read")
        with reading(self._folder):
            return self._dataset.take(pa.array(places), columns=columns)


# Reading takes over what an earlier version has in memory. A row is known by the hash of all that
# it is made from; where an earlier version has a row with the same one, its vectors and mentions
# are copied, and a version that differs in a few passages costs a few reads. The arrays are the
# same as when all of it is read.

# With more to read than this share of the rows, one pass over all of them is quicker.
_MOST_READ = 0.25
# Rows that follow each other in both versions, on average, from which on they are copied together.
_RUN = 16
_COLUMNS = ["id", "title", "document", "chunk", "metadata", "content_hash", "text"]
_LONG = ("metadata", "text")
"""Those that together may be longer than 32 bits can count."""
_DERIVED = ["vector", "sentences"]
PART = "passages"
_STRINGS = ("titles", "documents", "hashes", "_metadata", "_texts")
_ARRAYS = ("chunks", "vectors", "sentence_vectors", "sentence_passage", "_places")
_MENTIONS = ("entities", "phrases")

_T = TypeVar("_T", Float16, Float32)
_Rows = NDArray[np.floating[Any]]


def read_corpus(index: PassageStore, before: Corpus | None = None) -> Corpus:
    """Read the version that an index has in view; after an earlier one, what differs from it.

    What was read from nothing is kept beside the dataset, and mapped from there the next time.

    Raises:
        IndexDamagedError: It cannot be read.
    """
    with reading(index.path):
        files = index.derived
        if (arrays := files.read(PART)) is not None:
            corpus = _from_arrays(index, arrays, files.version, index.snapshot())
            if before is None:
                return corpus
            return replace(corpus, origin=_origin(before, corpus.hashes))
        corpus = _read(index, before)
        if corpus.origin is None:
            files.write(PART, _to_arrays(corpus))
        return corpus


def earlier_corpus(index: PassageStore) -> tuple[Corpus, DerivedFiles] | None:
    """The earlier version that files were kept of, to be read after; None if there is none."""
    files = index.derived.earlier(PART)
    arrays = files.read(PART) if files else None
    return (_from_arrays(index, arrays, files.version, None), files) if files and arrays else None


def _read(index: PassageStore, before: Corpus | None) -> Corpus:
    dataset = index.snapshot()
    table = dataset.to_table(columns=_COLUMNS, scan_in_order=True)
    for name in _LONG:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(pa.large_string()))
    order: Int64 = pc.sort_indices(table["id"]).to_numpy().astype(np.int64)
    table = table.take(pa.array(order))
    hashes = Strings(table["content_hash"].combine_chunks())
    origin = None if before is None else _origin(before, hashes)
    blocks = _Blocks(index.dimension)
    if before is None or origin is None:
        for batch in dataset.to_batches(columns=_DERIVED, scan_in_order=True):
            blocks.add(batch)
        source = order
    else:
        new = np.flatnonzero(origin < 0)
        blocks.add_corpus(before)
        for batch in _taken(dataset, order[new]):
            blocks.add(batch)
        source = origin.copy()
        source[new] = len(before) + np.arange(len(new), dtype=np.int64)
    derived = blocks.read(source)
    return Corpus(
        version=index.version,
        ids=table["id"].to_pylist(),
        titles=table["title"].to_pylist(),
        documents=table["document"].to_pylist(),
        chunks=table["chunk"].to_numpy(),
        vectors=derived.vectors,
        sentence_vectors=derived.sentence_vectors,
        sentence_passage=derived.sentence_passage,
        entities=derived.entities,
        phrases=derived.phrases,
        hashes=hashes,
        origin=origin,
        _metadata=Strings(table["metadata"].combine_chunks()),
        _texts=Strings(table["text"].combine_chunks()),
        _places=order,
        _dataset=dataset,
        _folder=index.path,
        _surfaces=index.surfaces,
    )


def _to_arrays(corpus: Corpus) -> Arrays:
    arrays = {name: getattr(corpus, name) for name in _ARRAYS}
    arrays |= pack_table("ids", StringTable.of(Strings(corpus.ids)))
    for name in _STRINGS:
        arrays |= pack_strings(name, getattr(corpus, name))
    for name in _MENTIONS:
        mentions = getattr(corpus, name)
        arrays |= {f"{name}.sentence": mentions.sentence, f"{name}.code": mentions.code}
        arrays |= pack_strings(f"{name}.names", mentions.names)
    return arrays


def _from_arrays(
    index: PassageStore, arrays: Arrays, version: int, dataset: lance.LanceDataset | None
) -> Corpus:
    def strings(name: str) -> Strings:
        return unpack_strings(name, arrays)

    def mentions(name: str) -> Mentions:
        sentence, code = arrays[f"{name}.sentence"], arrays[f"{name}.code"]
        return Mentions(sentence, code, strings(f"{name}.names"))

    ids = unpack_table("ids", arrays)
    is_small = len(ids) <= LISTED
    return Corpus(
        version=version,
        ids=[*ids] if is_small else ids,
        titles=[*strings("titles")] if is_small else strings("titles"),
        documents=[*strings("documents")] if is_small else strings("documents"),
        chunks=arrays["chunks"],
        vectors=arrays["vectors"],
        sentence_vectors=arrays["sentence_vectors"],
        sentence_passage=arrays["sentence_passage"],
        entities=mentions("entities"),
        phrases=mentions("phrases"),
        hashes=strings("hashes"),
        origin=None,
        _metadata=strings("_metadata"),
        _texts=strings("_texts"),
        _places=arrays["_places"],
        _dataset=dataset,
        _folder=index.path,
        _surfaces=index.surfaces,
    )


def _origin(before: Corpus, hashes: Strings) -> Int64 | None:
    """(n,) row with the same content in an earlier version, or -1; None where few have one."""
    found = pc.fill_null(pc.index_in(hashes.array, value_set=before.hashes.array), -1)
    origin: Int64 = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return origin if (origin < 0).sum() <= _MOST_READ * len(origin) else None


def _taken(dataset: lance.LanceDataset, places: Int64) -> Iterator[pa.RecordBatch]:
    """Rows of a dataset by place, in the order asked for."""
    if len(places):
        taken = dataset.take(pa.array(places), columns=_DERIVED)
        yield from taken.combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class _Derived:
    """What the analyser found, in canonical order; the attributes of `Corpus`."""

    vectors: Float32
    sentence_vectors: Float16
    sentence_passage: Int32
    entities: Mentions
    phrases: Mentions


class _Blocks:
    """Rows as they come in, block by block, to be put in order at the end."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._vectors: list[_Rows] = []
        self._sentence_vectors: list[_Rows] = []
        self._sentences: list[Int32] = [np.empty(0, np.int32)]
        self._entities = _MentionReader()
        self._phrases = _MentionReader()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows of the dataset.

        Texts are read along, for Lance cannot read part of a list's structs, but dropped here.
        """
        column = batch["sentences"]
        flat = column.flatten()
        self._vectors.append(_matrix(batch["vector"], self._dimension).copy())
        self._sentence_vectors.append(_matrix(flat.field("vector"), self._dimension).copy())
        self._sentences.append(_lengths(column))
        self._entities.add(flat.field("entities"))
        self._phrases.add(flat.field("phrases"))

    def add_corpus(self, corpus: Corpus) -> None:
        """Take in all rows of an earlier version, which stays as it is."""
        sentences = len(corpus.sentence_passage)
        self._vectors.append(corpus.vectors)
        self._sentence_vectors.append(corpus.sentence_vectors)
        self._sentences.append(_counts(corpus.sentence_passage, len(corpus)))
        self._entities.add_mentions(corpus.entities, sentences)
        self._phrases.add_mentions(corpus.phrases, sentences)

    def read(self, source: Int64) -> _Derived:
        """The rows at some places, of those that came in, in the order asked for."""
        lengths = np.concatenate(self._sentences)
        gather = ragged(lengths, source)
        vectors = np.empty((len(source), self._dimension), np.float32)
        sentence_vectors = np.empty((len(gather), self._dimension), np.float16)
        return _Derived(
            vectors=_gather(self._vectors, source, vectors),
            sentence_vectors=_gather(self._sentence_vectors, gather, sentence_vectors),
            sentence_passage=np.repeat(np.arange(len(source), dtype=np.int32), lengths[source]),
            entities=self._entities.read(gather),
            phrases=self._phrases.read(gather),
        )


class _MentionReader:
    """Collects one list-of-strings column of the sentences, in the order in which they come in."""

    def __init__(self) -> None:
        self._counts: list[Int32] = [np.empty(0, np.int32)]
        self._names: list[pa.Array] = [pa.array([], pa.string()).dictionary_encode()]

    def add(self, lists: pa.ListArray) -> None:
        """Take in the next sentences."""
        self._counts.append(_lengths(lists))
        self._names.append(lists.flatten().dictionary_encode())

    def add_mentions(self, mentions: Mentions, sentences: int) -> None:
        """Take in those of an earlier version."""
        self._counts.append(_counts(mentions.sentence, sentences))
        names = mentions.names.array
        self._names.append(pa.DictionaryArray.from_arrays(pa.array(mentions.code), names))

    def read(self, sentences: Int64) -> Mentions:
        """The mentions of some sentences, in the order asked for."""
        encoded = pa.chunked_array(self._names).unify_dictionaries().combine_chunks()
        counts = np.concatenate(self._counts)
        taken = encoded.indices.to_numpy()[ragged(counts, sentences)]
        # An earlier version may bring names that nothing mentions any more.
        used = np.flatnonzero(np.bincount(taken, minlength=len(encoded.dictionary)))
        names = encoded.dictionary.take(pa.array(used))
        by_name = pc.sort_indices(names).to_numpy().astype(np.int64)
        code = np.full(len(encoded.dictionary), -1, np.int32)
        code[used[by_name]] = np.arange(len(used), dtype=np.int32)
        return Mentions(
            sentence=np.repeat(np.arange(len(sentences), dtype=np.int32), counts[sentences]),
            code=code[taken],
            names=Strings(names.take(pa.array(by_name))),
        )


def _gather(blocks: list[_Rows], source: Int64, out: _T) -> _T:
    """Rows of the blocks, end to end, by place; blocks are freed on the way, to need room once."""
    order = np.argsort(source, kind="stable")
    ascending = source[order]
    # After an earlier version most rows follow each other as they did: they are copied together.
    ends = np.flatnonzero((np.diff(ascending) != 1) | (np.diff(order) != 1)) + 1
    is_runs = len(ends) * _RUN < len(source)
    start = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        first, last = np.searchsorted(ascending, [start, start + len(block)]).tolist()
        if is_runs:
            bounds: Int64 = ends[
                np.searchsorted(ends, first, "right") : np.searchsorted(ends, last)
            ]
            for one, other in pairwise([first, *bounds.tolist(), last]):
                if one < other:
                    place, row = int(order[one]), int(ascending[one]) - start
                    out[place : place + other - one] = block[row : row + other - one]
        else:
            out[order[first:last]] = block[ascending[first:last] - start]
        start += len(block)
    return out


def _matrix(vectors: pa.FixedSizeListArray, dimension: int) -> Float16:
    """(n, d) view of a vector column."""
    matrix: Float16 = vectors.flatten().to_numpy().reshape(-1, dimension)
    return matrix


def _lengths(lists: pa.ListArray) -> Int32:
    lengths: Int32 = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths


def _counts(owners: Int32, size: int) -> Int32:
    """(size,) how many entries each owner has."""
    return np.bincount(owners, minlength=size).astype(np.int32)
