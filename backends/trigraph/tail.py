"""A graph with a tail: a base that was assembled before, and the passages written since.

The tail is assembled by itself, at the cost of its few passages, and knows the base's names: its
sentences mention what they would in a graph of all passages. The base is not looked at again, so
its sentences do not mention a name that only the tail has until both are assembled together, which
the next derivation does. Deleted passages are left out of every list at once.

Entities of the base keep their numbers, and those that are new follow, so nothing is numbered anew.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np

from wye.backends.layers import Layers
from wye.backends.store.corpus import TwoCorpora
from wye.backends.trigraph.graph import (
    Keys,
    Lists,
    Numbers,
    PlainLists,
    TriGraph,
    assemble,
    plain,
    wants_phrases,
)
from wye.backends.trigraph.names import DisplayNames, Link, NameTrie
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
    entities = np.array([*map(remaining.keys.find, tail.keys)], np.int64)
    new = np.flatnonzero(entities < 0)
    entities[new] = len(base) + np.arange(len(new))
    keys = TailedKeys(remaining.keys, [tail.keys[entity] for entity in new.tolist()])
    degrees = np.concatenate([remaining.degrees, np.zeros(len(new), np.int32)])
    degrees[entities] += tail.degrees
    is_named = np.concatenate(
        [~remaining.is_phrase & (remaining.degrees > 0), np.zeros(len(new), bool)]
    )
    is_phrase = np.concatenate([remaining.is_phrase, np.ones(len(new), bool)])
    is_phrase[entities] = tail.is_phrase & ~is_named[entities]
    rows = partial(EntitiesOfRows, two.passages)

    def by_entity(lists: Lists) -> PlainLists:
        """The tail's rows of each entity, with the numbers of both together."""
        entity, row = lists.pairs(np.argsort(entities))
        return PlainLists.from_owners(np.sort(entities)[entity], two.passages.added[row], len(keys))

    return TriGraph(
        keys=keys,
        is_phrase=is_phrase,
        degrees=degrees,
        passages=RowsOfEntities(two.passages, base.passages, by_entity(tail.passages)),
        entities=rows(base.entities, _renumbered(tail.entities, entities)),
        counts=rows(base.counts, tail.counts),
        mentions=EntitiesOfRows(two.sentences, base.mentions, _renumbered(tail.mentions, entities)),
        titled=RowsOfEntities(two.passages, base.titled, by_entity(tail.titled)),
        titles=rows(base.titles, _renumbered(tail.titles, entities)),
        owners=two.owners(),
        names=TailedTrie(remaining.names, tail.names, entities),
        display_names=TailedNames(len(keys), remaining, tail, entities),
    )


def _without_deleted(base: TriGraph, deleted: Int64) -> TriGraph:
    """A base whose degrees and names leave out some passages; its lists still have them."""
    _, entity = base.entities.pairs(deleted)
    degrees = base.degrees.copy()
    np.subtract.at(degrees, entity, 1)
    dead = entity[degrees[entity] == 0]
    return replace(base, degrees=degrees, names=base.names.without({*dead.tolist()}))


def _renumbered(lists: Lists, entities: Int64) -> PlainLists:
    return PlainLists(plain(lists).starts, entities[plain(lists).items])


class _TwoLists:
    """Lists in two layers."""

    def __init__(self, rows: Layers, base: Lists, tail: Lists) -> None:
        """Join the lists of the base and of the tail; `rows` are the rows of both."""
        self._rows, self._base, self._tail = rows, base, tail

    def one(self, which: int) -> Numbers:
        """See `Lists`."""
        return self.pairs(np.array([which], np.int64))[1]

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        raise NotImplementedError


class EntitiesOfRows(_TwoLists):
    """What is listed for each row of two layers, such as the entities of sentences."""

    def __len__(self) -> int:
        """See `Lists`."""
        return len(self._rows)

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        is_added, rows = self._rows.split(chosen)
        of_base, of_tail = np.flatnonzero(~is_added), np.flatnonzero(is_added)
        owners, items = self._base.pairs(rows[of_base])
        if not len(of_tail):
            return owners, items
        tail_owners, tail_items = self._tail.pairs(rows[of_tail])
        owners = np.concatenate([of_base[owners], of_tail[tail_owners]])
        by_owner = np.argsort(owners, kind="stable")
        return owners[by_owner], np.concatenate([items, tail_items])[by_owner]


class RowsOfEntities(_TwoLists):
    """The rows of two layers, such as sentences, that mention each entity.

    The tail has a list for every entity of both, with numbers of rows of both; the base has its
    own rows, for its own entities, which are numbered first.
    """

    def __len__(self) -> int:
        """See `Lists`."""
        return len(self._tail)

    def pairs(self, chosen: Int64) -> tuple[Int64, Numbers]:
        """See `Lists`."""
        of_base = np.flatnonzero(chosen < len(self._base))
        owners, rows = self._base.pairs(chosen[of_base])
        numbers = self._rows.numbers[rows]
        is_left = numbers >= 0
        owners, numbers = of_base[owners[is_left]], numbers[is_left]
        tail_owners, added = self._tail.pairs(chosen)
        if not len(added):
            return owners, numbers
        owners = np.concatenate([owners, tail_owners])
        numbers = np.concatenate([numbers, added])
        ascending = np.lexsort((numbers, owners))
        return owners[ascending], numbers[ascending]


class TailedKeys:
    """The keys of a base, ascending, then those of its tail's new entities, ascending."""

    def __init__(self, base: Keys, new: list[str]) -> None:
        self._base, self._new = base, new
        self._numbers = {key: len(base) + position for position, key in enumerate(new)}

    def __len__(self) -> int:
        return len(self._base) + len(self._new)

    def __getitem__(self, entity: int) -> str:
        size = len(self._base)
        return self._base[entity] if entity < size else self._new[entity - size]

    def __iter__(self) -> Iterator[str]:
        return chain(self._base, self._new)

    def find(self, key: str) -> int:
        """The entity with a key, -1 if there is none."""
        number = self._base.find(key)
        return number if number >= 0 else self._numbers.get(key, -1)


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
