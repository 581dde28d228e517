"""A graph with a tail: a base that was assembled before, and the passages written since.

The tail is assembled by itself, at the cost of its few passages, and knows the base's names: its
sentences mention what they would in a graph of all passages. The base is not looked at again, so
its sentences do not mention a name that only the tail has until both are assembled together, which
the next derivation does. Deleted passages are left out of every list at once.

Entities of the base keep their numbers, and those that are new follow, so nothing is numbered anew.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from wye.backends.layers import Layers
from wye.backends.store.corpus import TwoCorpora
from wye.backends.strings import Words
from wye.backends.trigraph.graph import (
    DisplayNames,
    Lists,
    Numbers,
    PlainLists,
    TriGraph,
    assemble,
    plain,
    wants_phrases,
)
from wye.backends.trigraph.names import Link, NameTrie
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Int64


def with_tail(two: TwoCorpora, base: TriGraph, settings: AssemblySettings) -> TriGraph:
    """The graph of two corpora.

    Args:
        base: The graph of the first, with the same settings and without a tail.
    """
    remaining = _without_deleted(base, two.passages.deleted)
    phrases: Literal["on", "off"] = "on" if wants_phrases(settings, two.base) else "off"
    tail = assemble(two.added, replace(settings, noun_phrases=phrases), base=remaining)
    keys = Words(remaining.keys)
    entities = np.array([*map(keys.number, tail.keys)], np.int64)
    new = (0, len(keys) - len(base))
    is_named = np.pad(~remaining.is_phrase & (remaining.degrees > 0), new)
    is_phrase = np.pad(remaining.is_phrase, new, constant_values=True)
    is_phrase[entities] = tail.is_phrase & ~is_named[entities]
    degrees = np.pad(remaining.degrees, new)
    degrees[entities] += tail.degrees

    def by_entity(lists: Lists) -> PlainLists:
        """The tail's rows of each entity, with the numbers of both together."""
        entity, row = lists.pairs(np.argsort(entities))
        return PlainLists.from_owners(np.sort(entities)[entity], two.passages.added[row], len(keys))

    return TriGraph(
        keys=keys,
        is_phrase=is_phrase,
        degrees=degrees,
        passages=_of_entities(two.passages, base.passages, by_entity(tail.passages)),
        mentions=_of_rows(two.sentences, base.mentions, _renumbered(tail.mentions, entities)),
        titled=_of_entities(two.passages, base.titled, by_entity(tail.titled)),
        titles=_of_rows(two.passages, base.titles, _renumbered(tail.titles, entities)),
        owners=two.owners,
        names=TailedTrie(remaining.names, tail.names, entities),
        display_names=TailedNames(len(keys), remaining, tail, entities),
    )


def _without_deleted(base: TriGraph, deleted: Int64) -> TriGraph:
    """A base whose degrees and names leave out some passages; its lists still have them."""
    _, entity, _ = base.mentioned_in(deleted)
    degrees = base.degrees.copy()
    np.subtract.at(degrees, entity, 1)
    dead = entity[degrees[entity] == 0]
    return replace(base, degrees=degrees, names=base.names.without({*dead.tolist()}))


def _renumbered(lists: Lists, entities: Int64) -> PlainLists:
    return PlainLists(plain(lists).starts, entities[plain(lists).items])


class TailedLists:
    """Lists of two layers together, made when they are read."""

    def __init__(self, size: int, pairs: Callable[[Int64], tuple[Int64, Numbers]]) -> None:
        """Have so many lists, of which a function gives what `Lists.pairs` does."""
        self._size, self._pairs = size, pairs

    def __len__(self) -> int:
        """See `Lists`."""
        return self._size

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        return self._pairs(np.array([which], np.int64))[1]

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        return self._pairs(chosen)


def _of_rows(rows: Layers, base: Lists, tail: Lists) -> TailedLists:
    """What is listed for each row of two layers, such as the entities of sentences."""

    def pairs(chosen: Int64) -> tuple[Int64, Numbers]:
        is_added, of_layer = rows.split(chosen)
        of_base, of_tail = np.flatnonzero(~is_added), np.flatnonzero(is_added)
        owners, items = base.pairs(of_layer[of_base])
        if not len(of_tail):
            return owners, items
        tail_owners, tail_items = tail.pairs(of_layer[of_tail])
        owners = np.concatenate([of_base[owners], of_tail[tail_owners]])
        by_owner = np.argsort(owners, kind="stable")
        return owners[by_owner], np.concatenate([items, tail_items])[by_owner]

    return TailedLists(len(rows), pairs)


def _of_entities(rows: Layers, base: Lists, tail: Lists) -> TailedLists:
    """The rows of two layers, such as sentences, that mention each entity.

    The tail has a list for every entity of both, with numbers of rows of both; the base has its
    own rows, for its own entities, which are numbered first.
    """

    def pairs(chosen: Int64) -> tuple[Int64, Numbers]:
        of_base = np.flatnonzero(chosen < len(base))
        owners, base_rows = base.pairs(chosen[of_base])
        numbers = rows.numbers[base_rows]
        is_left = numbers >= 0
        owners, numbers = of_base[owners[is_left]], numbers[is_left]
        tail_owners, added = tail.pairs(chosen)
        if not len(added):
            return owners, numbers
        owners = np.concatenate([owners, tail_owners])
        numbers = np.concatenate([numbers, added])
        ascending = np.lexsort((numbers, owners))
        return owners[ascending], numbers[ascending]

    return TailedLists(len(tail), pairs)


class TailedTrie(NameTrie):
    """Finds the longest names of a base and of its tail; both have one vocabulary."""

    def __init__(self, base: NameTrie, tail: NameTrie, entities: Int64) -> None:
        """Join two tries.

        Args:
            entities: Number of each entity of the tail.
        """
        self.words = tail.words
        self._base, self._tail, self._entities = base, tail, entities

    def without(self, entities: Collection[int]) -> "TailedTrie":
        """See `NameTrie`."""
        in_tail = np.flatnonzero(np.isin(self._entities, [*entities]))
        tail = self._tail.without(in_tail.tolist())
        return TailedTrie(self._base.without(entities), tail, self._entities)

    def _longest_from(self, codes: Sequence[int], start: int) -> Link | None:
        known = self._base._longest_from(codes, start)
        link = self._tail._longest_from(codes, start)
        if link is None or (known is not None and known.length >= link.length):
            return known
        return Link(int(self._entities[link.entity]), start, link.length)


class TailedNames(DisplayNames):
    """Display names of a base, and of what only its tail mentions."""

    def __init__(self, size: int, remaining: TriGraph, tail: TriGraph, entities: Int64) -> None:
        """Join two graphs' names.

        Args:
            size: Number of entities in both together.
            remaining: The base, without deleted passages.
            entities: Number of each entity of the tail.
        """
        self._size, self._remaining, self._tail = size, remaining, tail
        self._in_tail = {number: entity for entity, number in enumerate(entities.tolist())}

    def of(self, entity: int) -> str:
        """See `DisplayNames`."""
        is_in_base = entity < len(self._remaining) and self._remaining.degrees[entity] > 0
        if not is_in_base and entity in self._in_tail:
            return self._tail.display_names.of(self._in_tail[entity])
        return self._remaining.display_names.of(entity)
