"""Adjacency lists: the sentences of entities, the entities of sentences, titles.

Lists are stored end to end. A caller names a few lists and gets their items, also end to end.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wye.backends.layers import Layers
from wye.backends.numerics import located, ranges
from wye.backends.types import Int32, Int64

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
        # An empty span at the end has no row to look up.
        is_added, rows = self._rows.split(np.minimum(begin, max(len(self) - 1, 0)))
        owners: list[Int64] = []
        items: list[Numbers] = []
        for lists, which in ((self._base, ~is_added), (self._tail, is_added)):
            chosen = np.flatnonzero(which & (end > begin))
            first = rows[chosen]
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
        is_left = ~located(rows, self._rows.gone)[1]
        owners, numbers = owners[is_left], self._rows.numbers(rows[is_left])
        position, is_in_tail = located(chosen, self._in_tail)
        if not is_in_tail.any():
            return owners, numbers
        of_tail = np.flatnonzero(is_in_tail)
        tail_owners, added = self._tail.pairs(self._order[position[of_tail]])
        owners = np.concatenate([owners, of_tail[tail_owners]])
        numbers = np.concatenate([numbers, self._rows.added[added]])
        ascending = np.lexsort((numbers, owners))
        return owners[ascending], numbers[ascending]
