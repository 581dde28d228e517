"""All of one index version as arrays, in an order that only its content decides.

Row i is the passage with the i-th smallest id, so neither the order of a corpus file nor that of
commits and compactions shows in anything computed from here.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.index import Index
from backends.surfaces import Surfaces
from backends.types import Float16, Float32, Int32, Int64, Passage

_TEXT_BLOCK = 4096


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
    names: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """One version, in canonical order: n passages, s sentences that mention something.

    Texts stay on disk; `texts`, `sentence_texts` and `iter_texts` read them from this version, even
    when the index has moved on.

    Attributes:
        version: Of the index.
        ids: n ids, ascending in code point order.
        titles: n titles.
        documents: n document ids.
        chunks: (n,) int32 places within the document.
        vectors: (n, d) float32, contiguous.
        sentence_vectors: (s, d) float16, contiguous.
        sentence_passage: (s,) int32 row of each sentence's passage, ascending.
        entities: Named entities by sentence.
        phrases: Noun phrases by sentence.
    """

    version: int
    ids: list[str]
    titles: list[str]
    documents: list[str]
    chunks: Int32
    vectors: Float32
    sentence_vectors: Float16
    sentence_passage: Int32
    entities: Mentions
    phrases: Mentions
    _metadata: pa.ChunkedArray
    _places: Int64  # of each row in the dataset
    _dataset: lance.LanceDataset
    _surfaces: Surfaces

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.ids)

    @cached_property
    def metadata(self) -> list[dict[str, Any]]:
        """Metadata of every passage, parsed on first use."""
        return [json.loads(text) for text in self._metadata.to_pylist()]

    def surface_vectors(self, surfaces: Sequence[str]) -> Float32:
        """Vectors of entity surfaces or titles.

        Args:
            surfaces: k surfaces, in any order.

        Returns:
            (k, d) float32; a row of NaN for a surface whose vector is not stored.
        """
        return self._surfaces.vectors(surfaces)

    def texts(self, rows: Sequence[int] | Int64) -> list[str]:
        """Texts of passages by row, in the order asked for, read from disk."""
        texts: list[str] = self._take(rows, ["text"])["text"].to_pylist()
        return texts

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Passages of this version by id, in the order asked for, their texts read from disk.

        Ids that it lacks are left out.
        """
        places = [(id_, bisect_left(self.ids, id_)) for id_ in ids]
        rows = [row for id_, row in places if row < len(self.ids) and self.ids[row] == id_]
        metadata = self._metadata.take(pa.array(rows, pa.int64())).to_pylist()
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

    def iter_texts(self) -> Iterator[tuple[str, str]]:
        """Title and text of every passage in row order, a block in memory at a time."""
        for rows in self._blocks():
            yield from zip(self.titles[rows[0] : rows[-1] + 1], self.texts(rows), strict=True)

    def iter_sentence_texts(self) -> Iterator[list[str]]:
        """Texts of all sentences in row order, a block in memory at a time."""
        for rows in self._blocks():
            lists = self._take(rows, ["sentences"])["sentences"].combine_chunks()
            yield lists.flatten().field("text").to_pylist()

    def _blocks(self) -> Iterator[Int64]:
        """All rows, some at a time."""
        for start in range(0, len(self), _TEXT_BLOCK):
            yield np.arange(start, min(start + _TEXT_BLOCK, len(self)), dtype=np.int64)

    def _take(self, rows: Sequence[int] | Int32 | Int64, columns: list[str]) -> pa.Table:
        """Columns of passages by row, in the order asked for."""
        places = self._places[np.asarray(rows, np.int64)]
        return self._dataset.take(pa.array(places), columns=columns)


def read_corpus(index: Index) -> Corpus:
    """Read the version that an index has in view."""
    dataset = index.snapshot()
    columns = ["id", "title", "document", "chunk", "metadata"]
    table = dataset.to_table(columns=columns, scan_in_order=True)
    order: Int64 = pc.sort_indices(table["id"]).to_numpy().astype(np.int64)
    table = table.take(pa.array(order))
    sentences = _read_sentences(dataset, index.dimension, order)
    return Corpus(
        version=index.version,
        ids=table["id"].to_pylist(),
        titles=table["title"].to_pylist(),
        documents=table["document"].to_pylist(),
        chunks=table["chunk"].to_numpy(),
        vectors=_read_vectors(dataset, index.dimension, order),
        sentence_vectors=sentences.vectors,
        sentence_passage=sentences.passage,
        entities=sentences.entities,
        phrases=sentences.phrases,
        _metadata=table["metadata"],
        _places=order,
        _dataset=dataset,
        _surfaces=index.surfaces,
    )


@dataclass(frozen=True, slots=True)
class _Sentences:
    """The sentence side of a corpus."""

    vectors: Float16
    passage: Int32
    entities: Mentions
    phrases: Mentions


def _read_vectors(dataset: lance.LanceDataset, dimension: int, order: Int64) -> Float32:
    """(n, d) passage vectors in canonical order."""
    vectors = np.empty((len(order), dimension), np.float32)
    target = _inverse(order)
    start = 0
    for batch in dataset.to_batches(columns=["vector"], scan_in_order=True):
        end = start + batch.num_rows
        vectors[target[start:end]] = _matrix(batch["vector"], dimension)
        start = end
    return vectors


def _read_sentences(dataset: lance.LanceDataset, dimension: int, order: Int64) -> _Sentences:
    """Sentences in canonical order.

    Their texts are read along, for Lance cannot read part of a list's structs, but dropped batch by
    batch.
    """
    blocks: list[Float16] = [np.empty((0, dimension), np.float16)]
    counts: list[pa.Array] = [pa.array([], pa.int32())]
    names: dict[str, _MentionReader] = {"entities": _MentionReader(), "phrases": _MentionReader()}
    for batch in dataset.to_batches(columns=["sentences"], scan_in_order=True):
        column = batch["sentences"]
        counts.append(pc.list_value_length(column))
        flat = column.flatten()
        blocks.append(_matrix(flat.field("vector"), dimension).copy())
        for name, reader in names.items():
            reader.add(flat.field(name))
    lengths = pa.concat_arrays(counts).to_numpy()
    gather = _ragged(lengths, order)
    return _Sentences(
        vectors=_scatter(blocks, _inverse(gather)),
        passage=np.repeat(np.arange(len(order), dtype=np.int32), lengths[order]),
        entities=names["entities"].read(gather),
        phrases=names["phrases"].read(gather),
    )


class _MentionReader:
    """Collects one list-of-strings column of the sentences, in the order of the dataset."""

    def __init__(self) -> None:
        self._counts: list[pa.Array] = [pa.array([], pa.int32())]
        self._names: list[pa.Array] = [pa.array([], pa.string()).dictionary_encode()]

    def add(self, lists: pa.ListArray) -> None:
        """Take in the next sentences."""
        self._counts.append(pc.list_value_length(lists))
        self._names.append(lists.flatten().dictionary_encode())

    def read(self, sentences: Int64) -> Mentions:
        """All mentions, with sentences reordered as given."""
        encoded = pa.chunked_array(self._names).unify_dictionaries().combine_chunks()
        by_name = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
        code = _inverse(by_name).astype(np.int32)[encoded.indices.to_numpy()]
        counts = pa.concat_arrays(self._counts).to_numpy()
        return Mentions(
            sentence=np.repeat(np.arange(len(counts), dtype=np.int32), counts[sentences]),
            code=code[_ragged(counts, sentences)],
            names=tuple(encoded.dictionary.take(pa.array(by_name)).to_pylist()),
        )


def _scatter(blocks: list[Float16], target: Int64) -> Float16:
    """Rows of the blocks at their target rows; blocks are freed on the way, to need room once."""
    out = np.empty((len(target), blocks[0].shape[1]), np.float16)
    start = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        out[target[start : start + len(block)]] = block
        start += len(block)
    return out


def _matrix(vectors: pa.FixedSizeListArray, dimension: int) -> Float16:
    """(n, d) view of a vector column."""
    matrix: Float16 = vectors.flatten().to_numpy().reshape(-1, dimension)
    return matrix


def _ragged(lengths: Int32, order: Int64) -> Int64:
    """Where the elements of lists laid end to end lie, for the lists taken in another order.

    Args:
        lengths: (n,) list lengths, as laid out.
        order: (n,) permutation of the lists.

    Returns:
        One place for each element.
    """
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    taken = lengths[order]
    shift = starts[order] - (np.cumsum(taken, dtype=np.int64) - taken)
    return np.repeat(shift, taken) + np.arange(taken.sum(), dtype=np.int64)


def _inverse(permutation: Int64) -> Int64:
    """The permutation that undoes one."""
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation), dtype=np.int64)
    return inverse
