"""The Tri-Graph of a corpus: passages, sentences, entities, and the mentions between them.

It depends on one version's content alone, not on the order of the corpus file: entities are
numbered by key, passages by id, and two passages are neighbours only if they are consecutive chunks
of one document.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wye.backends.store.derived import Arrays
from wye.backends.store.snapshot import Corpus
from wye.backends.trigraph.full_walk import (
    FullWalk,
    build_full_walk,
    reciprocal,
    share_of_mentions,
    with_edges,
)
from wye.backends.trigraph.graph_sources import GraphSources, Keys
from wye.backends.trigraph.lists import Lists, Numbers, PlainLists
from wye.backends.trigraph.local_walk import LocalWalk
from wye.backends.trigraph.names import DisplayNames, NameTrie
from wye.backends.types import Float32, Float64, Int32, Int64, Mask

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True)
class MentionGraph:
    """Mentions between sentences and entities, in both directions.

    Attributes:
        sentences: For each of e entities, rows of the sentences that mention it, ascending.
        entities: For each of s sentences, the entities that it mentions, ascending.
    """

    sentences: Lists
    entities: Lists

    @classmethod
    def of(cls, mentions: "sparse.csr_array") -> "MentionGraph":
        """From the matrix M (s, e), where sentence i mentions entity j."""
        by_entity = mentions.T.tocsr()
        by_entity.sort_indices()
        by_sentence = mentions.copy()
        by_sentence.sort_indices()
        return cls(
            PlainLists(by_entity.indptr, by_entity.indices),
            PlainLists(by_sentence.indptr, by_sentence.indices),
        )

    def sentences_of(self, entity: int) -> Numbers:
        """Rows of the sentences that mention an entity."""
        return self.sentences.one(entity)

    def entities_of(self, sentence: int) -> list[int]:
        """Entities that a sentence mentions."""
        members: list[int] = self.entities.one(sentence).tolist()
        return members


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences, e entities and j edges between consecutive chunks.

    Attributes:
        keys: e entity keys, ascending.
        is_phrase: (e,) whether an entity is known only as a noun phrase.
        passages: For each of e entities the passages that mention it, ascending, with counts; then
            for each of j edges its two chunks. A chunk edge counts as one mention in both chunks,
            so walks may cross from chunk to chunk.
        totals: (n,) sum of the counts of each passage.
        mentions: M: which sentence mentions which entity.
        titled: For each entity the passages whose title it is, ascending.
        own_sources: What the graph was assembled from; None for an overlay.
    """

    keys: Keys
    is_phrase: Mask
    passages: Lists
    totals: Float64
    mentions: MentionGraph
    titled: Lists
    names: NameTrie
    display_names: DisplayNames
    own_sources: GraphSources | None

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @property
    def sources(self) -> GraphSources:
        """The graph's sources.

        Raises:
            ValueError: The graph is an overlay on another.
        """
        if self.own_sources is None:
            raise ValueError("This graph is an overlay; its base has the sources")
        return self.own_sources

    @property
    def passages_of(self) -> Int32 | Int64:
        """(e,) number of passages that mention an entity."""
        return self.passages.sizes[: len(self)]

    @cached_property
    def chunk_edges(self) -> Int32 | Int64:
        """(j, 2) passages of each edge between consecutive chunks."""
        edges = np.arange(len(self), len(self.passages), dtype=np.int64)
        return self.passages.of(edges).reshape(-1, 2)

    @property
    def counts(self) -> "sparse.csc_array":
        """(n, e + j) CSC float32, C: how often passage i mentions entity j."""
        from scipy import sparse  # noqa: PLC0415 - takes .1 s, which a mapped graph need not pay

        lists = self.passages.plain()
        return sparse.csc_array(
            (lists.values, lists.items, lists.starts), shape=(len(self.totals), len(lists))
        )

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`."""
        counts, titled = self.passages.plain(), self.titled.plain()
        sentences, entities = self.mentions.sentences.plain(), self.mentions.entities.plain()
        arrays: dict[str, NDArray[Any]] = {
            "is_phrase": self.is_phrase,
            "counts.starts": counts.starts,
            "counts.passages": counts.items,
            "counts.values": counts.values,
            "totals": self.totals,
            "titled.starts": titled.starts,
            "titled.passages": titled.items,
            "mentions.sentence_starts": sentences.starts,
            "mentions.sentences": sentences.items,
            "mentions.entity_starts": entities.starts,
            "mentions.entities": entities.items,
        }
        for part in (self.names, self.display_names, self.sources):
            arrays |= part.to_arrays()
        return arrays

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The inverse of `to_arrays`, given the same corpus."""
        sources = GraphSources.from_arrays(arrays)

        def lists(*names: str) -> PlainLists:
            return PlainLists(*(arrays[name] for name in names))

        return cls(
            keys=sources.keys,
            is_phrase=arrays["is_phrase"],
            passages=lists("counts.starts", "counts.passages", "counts.values"),
            totals=arrays["totals"],
            mentions=MentionGraph(
                lists("mentions.sentence_starts", "mentions.sentences"),
                lists("mentions.entity_starts", "mentions.entities"),
            ),
            titled=lists("titled.starts", "titled.passages"),
            names=NameTrie.from_arrays(sources.words, arrays),
            display_names=DisplayNames.from_arrays(corpus, sources.keys, arrays),
            own_sources=sources,
        )


_Value = TypeVar("_Value", bound=np.generic)


class FilteredGraph:
    """The graph of the allowed passages.

    Counts of an entity are computed on demand, and a local walk uses the edges of the whole graph.
    Only full walks, in small corpora, need a graph of the allowed passages alone.

    Attributes:
        allowed: (n,) mask; None for all.
    """

    def __init__(
        self, graph: TriGraph, walk: FullWalk | LocalWalk, allowed: Mask | None = None
    ) -> None:
        """Filter a graph.

        Args:
            walk: The walk on the whole graph; walks on the filtered graph are of the same kind.
        """
        self.allowed = allowed
        self._graph = graph
        self._whole = walk

    def mentions(self, entities: Int64) -> tuple[Numbers, Float32, Int64]:
        """Passages that mention each entity, end to end: rows, counts, and (a,) how many rows."""
        return self._left(*self._graph.passages.valued(entities))

    def titles(self, entities: Int64) -> tuple[Numbers, Int64]:
        """Passages that have each entity as their title, end to end: rows, and (a,) how many."""
        titled = self._graph.titled
        rows = titled.of(entities)
        allowed_rows, _, lengths = self._left(rows, rows, titled.lengths(entities))
        return allowed_rows, lengths

    def passages_of(self, entity: int) -> tuple[Numbers, Numbers]:
        """Rows of the passages that mention an entity, and of those that it is the title of."""
        mentioned, titled = self._graph.passages.one(entity), self._graph.titled.one(entity)
        if self.allowed is None:
            return mentioned, titled
        return mentioned[self.allowed[mentioned]], titled[self.allowed[titled]]

    def degree(self, entities: Int64) -> Int64:
        """(a,) number of allowed passages that mention each entity."""
        if self.allowed is None:
            return self._graph.passages.lengths(entities)
        return self.mentions(entities)[2]

    def among(self, allowed: Mask) -> "FilteredGraph":
        """The whole graph under another filter."""
        return FilteredGraph(self._graph, self._whole, allowed)

    @cached_property
    def walk(self) -> FullWalk | LocalWalk:
        """The walk on the allowed passages."""
        if self.allowed is None:
            return self._whole
        if isinstance(self._whole, LocalWalk):
            return self._whole.among(self.allowed, *self._without_half_edges(self.allowed))
        return build_full_walk(share_of_mentions(self.counts))

    @property
    def counts(self) -> "sparse.csc_array":
        """(n, e + j) how often allowed passages mention each entity; computed on each access."""
        counts = self._graph.counts
        if self.allowed is None:
            return counts
        counts = with_edges(counts, self.allowed[counts.indices])
        # A chunk edge with a single allowed end leads nowhere.
        ends = np.diff(counts.indptr)
        whole = ends == 2
        whole[: len(self._graph)] = True
        return counts if whole.all() else with_edges(counts, np.repeat(whole, ends))

    def _left(
        self, rows: Numbers, values: NDArray[_Value], lengths: Int64
    ) -> tuple[Numbers, NDArray[_Value], Int64]:
        """The allowed entries of some entities: rows, values, and the number for each entity."""
        if self.allowed is None:
            return rows, values, lengths
        is_allowed = self.allowed[rows]
        owners = np.repeat(np.arange(len(lengths)), lengths)[is_allowed]
        return rows[is_allowed], values[is_allowed], np.bincount(owners, minlength=len(lengths))

    def _without_half_edges(self, allowed: Mask) -> tuple[Float64 | None, Mask | None]:
        """`growth` and `is_left` of `LocalWalk.among`: cut chunk edges with one allowed end."""
        graph, size = self._graph, len(self._graph)
        half = allowed[graph.chunk_edges].sum(axis=1) == 1
        if not half.any():
            return None, None
        lost_counts = np.bincount(graph.chunk_edges[half].ravel(), minlength=len(allowed))
        is_left = np.ones(len(graph.passages), bool)
        is_left[size:] = ~half
        return graph.totals * reciprocal(graph.totals - lost_counts), is_left
