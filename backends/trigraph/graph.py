"""The Tri-Graph of a corpus: passages, sentences, entities, and the mentions between them.

A graph that is assembled depends on one version's content alone, not on the order of the corpus
file: entities are numbered by key, passages by id. In one with a tail (`tail`) the numbers of
entities also depend on its base.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wye.backends.layers import Layers
from wye.backends.numerics import located, ranges
from wye.backends.store.corpus import Corpus
from wye.backends.store.derived import (
    Arrays,
    pack_strings,
    pack_table,
    unpack_strings,
    unpack_table,
)
from wye.backends.strings import Words
from wye.backends.trigraph.names import DisplayNames, NameTrie
from wye.backends.types import Int32, Int64, Mask

Numbers = Int32 | Int64


class Lists(Protocol):
    """m lists of numbers. Rows in a list are ascending."""

    def __len__(self) -> int:
        """Number of lists."""
        ...

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        ...

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """Of each item in the chosen lists, end to end: its list's position in `chosen`, and it."""
        ...


class RowLists(Lists, Protocol):
    """The entities of rows, such as sentences."""

    def spans(self, begin: Int64, end: Int64) -> tuple[Int64, Numbers]:
        """The items of the lists begin[i] to end[i], for each i.

        The rows of a span, such as the sentences of a passage, are all of one layer.

        Returns:
            Of each item its span, and the item; where there is a tail, in any order.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlainLists:
    """Lists as two arrays.

    Attributes:
        starts: (m + 1,) offsets: list i is at starts[i]:starts[i + 1].
        items: Items of all lists, end to end.
    """

    starts: Numbers
    items: Numbers

    @classmethod
    def from_lengths(cls, lengths: Numbers, items: Numbers) -> "PlainLists":
        """Lists from their lengths and all items, end to end."""
        return cls(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), items)

    @classmethod
    def from_owners(cls, owners: Numbers, items: Numbers, size: int) -> "PlainLists":
        """`size` lists from the list of each item, ascending, and the items."""
        return cls.from_lengths(np.bincount(owners, minlength=size), items.astype(np.int32))

    def __len__(self) -> int:
        """See `Lists`."""
        return len(self.starts) - 1

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        return self.items[self.starts[which] : self.starts[which + 1]]

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        return self.spans(chosen, chosen + 1)

    def spans(self, begin: Int64, end: Int64) -> tuple[Int64, Numbers]:
        """See `RowLists`."""
        first, last = self.starts[begin], self.starts[end]
        return np.repeat(np.arange(len(begin)), last - first), self.items[ranges(first, last)]


def plain(lists: Lists) -> PlainLists:
    """Lists that are known to be plain.

    Raises:
        TypeError: They have a tail.
    """
    if not isinstance(lists, PlainLists):
        raise TypeError("A graph with a tail is neither stored nor a base")
    return lists


class EntitiesOfRows:
    """The entities of each row of two layers, such as sentences."""

    def __init__(self, rows: Layers, base: RowLists, tail: RowLists) -> None:
        """Join the lists of the base's rows, and those of the added rows."""
        self._rows, self._base, self._tail = rows, base, tail

    def __len__(self) -> int:
        """See `Lists`."""
        return len(self._rows)

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        is_added, row = self._rows.locate(which)
        return (self._tail if is_added else self._base).one(row)

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        owners, items = self.spans(chosen, chosen + 1)
        by_owner = np.argsort(owners, kind="stable")
        return owners[by_owner], items[by_owner]

    def spans(self, begin: Int64, end: Int64) -> tuple[Int64, Numbers]:
        """See `RowLists`."""
        filled = np.flatnonzero(end > begin)
        is_added, rows = self._rows.split(begin[filled])
        owners: list[Int64] = []
        items: list[Numbers] = []
        for lists, which in ((self._base, ~is_added), (self._tail, is_added)):
            chosen, first = filled[which], rows[which]
            position, of_layer = lists.spans(first, first + (end - begin)[chosen])
            owners.append(chosen[position])
            items.append(of_layer)
        return np.concatenate(owners), np.concatenate(items, dtype=np.int64)


class RowsOfEntities:
    """The rows of two layers, such as sentences, that mention each entity."""

    def __init__(self, rows: Layers, base: Lists, tail: Lists, entities: Int64, size: int) -> None:
        """Join the lists of the base's entities and those of the tail's.

        Args:
            base: Rows of the base that mention each of its entities, which are numbered first.
            tail: Added rows that mention each entity of the tail.
            entities: Number of each entity of the tail; an entity may be in both.
            size: Number of entities in both together.
        """
        self._rows, self._base, self._tail, self._size = rows, base, tail, size
        self._order = np.argsort(entities)
        self._in_tail = entities[self._order]

    def __len__(self) -> int:
        """See `Lists`."""
        return self._size

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        return self.pairs(np.array([which], np.int64))[1]

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        of_base = np.flatnonzero(chosen < len(self._base))
        base_owners, rows = self._base.pairs(chosen[of_base])
        owners = of_base[base_owners]
        numbers = self._rows.numbers[rows]
        is_left = numbers >= 0
        owners, numbers = owners[is_left], numbers[is_left]
        position, is_in_tail = located(chosen, self._in_tail)
        if not is_in_tail.any():
            return owners, numbers
        of_tail = np.flatnonzero(is_in_tail)
        tail_owners, added = self._tail.pairs(self._order[position[of_tail]])
        owners = np.concatenate([owners, of_tail[tail_owners]])
        numbers = np.concatenate([numbers, self._rows.added[added]])
        ascending = np.lexsort((numbers, owners))
        return owners[ascending], numbers[ascending]


class Keys(Protocol):
    """The keys of e entities."""

    def __len__(self) -> int: ...
    def __getitem__(self, entity: int) -> str: ...
    def __iter__(self) -> Iterator[str]: ...

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class MentionGraph:
    """Mentions between sentences and entities, in both directions.

    Attributes:
        sentences: For each of e entities, rows of the sentences that mention it, ascending.
        entities: For each of s sentences, the entities that it mentions, ascending.
    """

    sentences: Lists
    entities: RowLists

    @classmethod
    def of(cls, sentence: Int64, entity: Int64, sizes: tuple[int, int]) -> "MentionGraph":
        """From the pairs of a sentence and an entity, ascending by both.

        Args:
            sizes: s and e.
        """
        by_entity = np.argsort(entity, kind="stable")
        return cls(
            PlainLists.from_owners(entity[by_entity], sentence[by_entity], sizes[1]),
            PlainLists.from_owners(sentence, entity, sizes[0]),
        )

    def entities_of(self, sentence: int) -> list[int]:
        """Entities that a sentence mentions."""
        members: list[int] = self.entities.one(sentence).tolist()
        return members


@dataclass(frozen=True)
class TriGraph:
    """n passages, s sentences and e entities.

    A passage mentions the entities of its title and those of its sentences, all the more often the
    more of its sentences mention them.

    Attributes:
        keys: e entity keys, ascending.
        is_phrase: (e,) whether an entity is known only as a noun phrase.
        degrees: (e,) number of passages that mention an entity.
        mentions: Which sentence mentions which entity.
        titled: For each entity the passages whose title it is, ascending.
        titles: For each passage the entities of its title.
        owners: (s,) row of each sentence's passage, ascending.
    """

    keys: Keys
    is_phrase: Mask
    degrees: Int32
    mentions: MentionGraph
    titled: Lists
    titles: RowLists
    owners: Int32
    names: NameTrie
    display_names: DisplayNames

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @cached_property
    def has_phrases(self) -> bool:
        """Whether noun phrases are entities."""
        return bool(self.is_phrase.any())

    @cached_property
    def _sentence_starts(self) -> Int64:
        """(n + 1,) row of each passage's first sentence."""
        counts = np.bincount(self.owners, minlength=len(self.titles))
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def passages_of(self, entities: Int64) -> tuple[Int64, Int64, Int64]:
        """Passages that mention each of some entities, end to end, ascending for each.

        Returns:
            Their rows, how often each mentions the entity, and (a,) the number for each entity.
        """
        in_text, sentences = self.mentions.sentences.pairs(entities)
        in_titles, titled = self.titled.pairs(entities)
        rows = np.concatenate([self.owners[sentences], titled], dtype=np.int64)
        owner = np.concatenate([in_text, in_titles])
        position, passages, counts = counted(owner, rows, len(self.titles))
        return passages, counts, np.bincount(position, minlength=len(entities))

    def entities_of(self, passages: Int64) -> tuple[Int64, Int64]:
        """Entities that some passages mention.

        Returns:
            For each mention its passage, as a position in `passages`, and the entity. A passage
            mentions an entity once for each sentence that does, and once for its title.
        """
        starts = self._sentence_starts
        in_sentences, entities = self.mentions.entities.spans(
            starts[passages], starts[passages + 1]
        )
        in_titles, titles = self.titles.pairs(passages)
        mentioned = np.concatenate([entities, titles], dtype=np.int64)
        return np.concatenate([in_sentences, in_titles]), mentioned

    def to_arrays(self) -> Arrays:
        """All fields as arrays, for `from_arrays`. A graph with a tail has none."""
        arrays: dict[str, NDArray[Any]] = {"is_phrase": self.is_phrase, "degrees": self.degrees}
        for name, lists in self._lists().items():
            arrays[f"{name}.starts"] = plain(lists).starts
            arrays[f"{name}.items"] = plain(lists).items
        arrays |= pack_strings("keys", self.keys)
        arrays |= pack_table("words", self.names.words.table)
        return {**arrays, **self.names.to_arrays(), **self.display_names.to_arrays()}

    @classmethod
    def from_arrays(cls, corpus: Corpus, arrays: Arrays) -> "TriGraph":
        """The inverse of `to_arrays`, given the same corpus."""
        keys = unpack_strings("keys", arrays)

        def lists(name: str) -> PlainLists:
            return PlainLists(arrays[f"{name}.starts"], arrays[f"{name}.items"])

        return cls(
            keys=keys,
            is_phrase=arrays["is_phrase"],
            degrees=arrays["degrees"],
            mentions=MentionGraph(lists("sentences"), lists("entities")),
            titled=lists("titled"),
            titles=lists("titles"),
            owners=corpus.sentence_passage,
            names=NameTrie.from_arrays(Words(unpack_table("words", arrays)), arrays),
            display_names=DisplayNames.from_arrays(corpus, keys, arrays),
        )

    def _lists(self) -> dict[str, Lists]:
        return {
            "sentences": self.mentions.sentences,
            "entities": self.mentions.entities,
            "titled": self.titled,
            "titles": self.titles,
        }


class FilteredGraph:
    """The mentions of the allowed passages, counted on demand.

    Attributes:
        allowed: (n,) mask; None for all.
    """

    def __init__(self, graph: TriGraph, allowed: Mask | None = None) -> None:
        self.allowed = allowed
        self._graph = graph

    def mentions(self, entities: Int64) -> tuple[Int64, Int64, Int64]:
        """`TriGraph.passages_of`, among the allowed passages."""
        rows, counts, lengths = self._graph.passages_of(entities)
        if self.allowed is None:
            return rows, counts, lengths
        is_left = self.allowed[rows]
        return rows[is_left], counts[is_left], _left(lengths, is_left)

    def titles(self, entities: Int64) -> tuple[Numbers, Int64]:
        """Passages that have each entity as their title, end to end: rows, and (a,) how many."""
        owners, rows = self._graph.titled.pairs(entities)
        lengths = np.bincount(owners, minlength=len(entities))
        if self.allowed is None:
            return rows, lengths
        is_left = self.allowed[rows]
        return rows[is_left], _left(lengths, is_left)

    def degree(self, entities: Int64) -> Int64:
        """(a,) number of allowed passages that mention each entity."""
        if self.allowed is None:
            return self._graph.degrees[entities].astype(np.int64)
        return self.mentions(entities)[2]


def _left(lengths: Int64, is_left: Mask) -> Int64:
    """Lengths of lists, given end to end, of which a mask leaves some items."""
    owners = np.repeat(np.arange(len(lengths)), lengths)[is_left]
    return np.bincount(owners, minlength=len(lengths))


def counted(owners: Int64, items: Int64, size: int) -> tuple[Int64, Int64, Int64]:
    """Each pair of an owner and an item below `size` once, ascending, and how often it occurs."""
    bits = max(size - 1, 1).bit_length()  # shifting takes a tenth of the time of dividing
    pairs, counts = np.unique(owners << bits | items, return_counts=True)
    return pairs >> bits, pairs & (1 << bits) - 1, counts
