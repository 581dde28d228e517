"""One version of an index as arrays, in an order that depends on its content alone.

Row i is the passage with the i-th smallest id, so nothing computed from here depends on the order
of a corpus file, of commits or of compactions.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, overload

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.layers import LayeredRows, LayeredStrings, Layers, Rows16, Rows32
from wye.backends.store.entity_vectors import EntityVectorCache
from wye.backends.store.versions import reading
from wye.backends.strings import Strings, StringTable, positions
from wye.backends.types import Float32, Int32, Int64, Passage

_BLOCK = 1024
"""Passages that are read from the dataset at a time."""


@dataclass(slots=True)
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


class MentionReader:
    """Collects one list-of-strings column of the sentences, in order."""

    def __init__(self) -> None:
        self._counts: list[Int32] = [np.empty(0, np.int32)]
        self._names: list[pa.Array] = [pa.array([], pa.string()).dictionary_encode()]

    def add(self, lists: pa.ListArray) -> None:
        """Add the next sentences."""
        self._counts.append(lengths_of(lists))
        self._names.append(lists.flatten().dictionary_encode())

    def read(self) -> Mentions:
        """All mentions; can be called once."""
        chunked = pa.chunked_array(self._names)
        self._names.clear()
        encoded = chunked.unify_dictionaries().combine_chunks()
        counts = np.concatenate(self._counts)
        names = encoded.dictionary
        by_name = pc.sort_indices(names).to_numpy().astype(np.int64)
        code = np.empty(len(names), np.int32)
        code[by_name] = np.arange(len(names), dtype=np.int32)
        return Mentions(
            sentence=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            code=code[encoded.indices.to_numpy()],
            names=Strings(names.take(pa.array(by_name))),
        )


class LayeredMentions(Mentions):
    """Mentions of a layered corpus by sentence; it has no arrays of all, which nothing needs."""

    def __init__(self, layers: Layers, base: Mentions, added: Mentions) -> None:
        self._layers, self._both = layers, (base, added)

    def of(self, sentence: int) -> list[str]:
        """The names in a sentence, in order."""
        is_added, row = self._layers.locate(sentence)
        return self._both[is_added].of(row)


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
    entities: Mentions
    phrases: Mentions
    hashes: Sequence[str]
    two: "TwoCorpora | None"
    _metadata: Sequence[str]
    _texts: Sequence[str]
    _addresses: Int64 | LayeredRows[np.int64]  # address of each row in the dataset
    _fragments: "Mapping[int, Stamp]"
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
            return int(self.two.passages.numbers[row]) if row >= 0 else -1
        row = bisect_left(self.ids, id_)
        return row if row < len(self.ids) and self.ids[row] == id_ else -1

    def is_of(self, dataset: lance.LanceDataset) -> bool:
        """Whether a version of the dataset has the same rows."""
        return self._fragments == stamps(dataset)

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
        numbers = self.two.passages.numbers[of_base]
        return [*numbers[numbers >= 0].tolist(), *self.two.passages.added[of_added].tolist()]

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
        rows = np.asarray(sentences, np.int64)
        passages, which = np.unique(self.sentence_passage[rows], return_inverse=True)
        lists = self._take(passages, ["sentences"])["sentences"].combine_chunks()
        starts = np.cumsum(lists.value_lengths().to_numpy()) - lists.value_lengths().to_numpy()
        nth = rows - np.searchsorted(self.sentence_passage, passages)[which]
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

    @classmethod
    def of(cls, base: Corpus, added: Corpus, passages: Layers) -> Self:
        """Two corpora whose passages have these layers."""
        owners = base.sentence_passage, added.sentence_passage
        return cls(base, added, passages, Layers.of_owned(passages, *owners))

    def owners(self) -> Int32:
        """(s,) number of the passage of each sentence, ascending."""
        layers = self.passages
        base = layers.numbers[self.base.sentence_passage]
        added = layers.added[self.added.sentence_passage].astype(np.int32)
        return self.sentences.lay(base, added)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The files of a fragment of the dataset."""

    files: tuple[str, ...]
    deletions: str


def stamps(dataset: lance.LanceDataset) -> dict[int, Stamp]:
    """The stamp of each fragment, by number."""
    stamps = {}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata  # made anew on each access
        gone = metadata.deletion_file
        files = tuple(file.path for file in metadata.files)
        stamps[metadata.id] = Stamp(files, gone.path(metadata.id) if gone else "")
    return stamps


def lengths_of(lists: pa.ListArray) -> Int32:
    """Number of items of each list."""
    lengths: Int32 = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return lengths
