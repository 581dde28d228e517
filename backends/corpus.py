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
        hashes: n hashes of all that a row is made from.
        origin: (n,) row of each passage in the version that this one was read after, or -1 where it
            is new or was changed since; None when it was read from nothing.
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
    hashes: pa.Array
    origin: Int64 | None
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

    @property
    def changed(self) -> Int64:
        """Rows that the version which this one was read after did not have, ascending."""
        if self.origin is None:
            return np.arange(len(self), dtype=np.int64)
        return np.flatnonzero(self.origin < 0)

    def places_after(self, size: int) -> Int64:
        """(n,) where each passage lies when the changed ones are laid behind an earlier version.

        Args:
            size: Passages of the version that this one was read after.

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

    def _take(self, rows: Sequence[int] | Int32 | Int64, columns: list[str]) -> pa.Table:
        """Columns of passages by row, in the order asked for."""
        places = self._places[np.asarray(rows, np.int64)]
        return self._dataset.take(pa.array(places), columns=columns)
