"""Adjacency lists: the passages of entities, the entities of sentences, edges between chunks.

Lists are stored end to end. A caller names a few lists and gets their items, also end to end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wye.backends.layers import Layers
from wye.backends.numerics import spans
from wye.backends.types import Int32, Int64, Mask

Numbers = Int32 | Int64
Values = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PlainLists:
    """Lists as three arrays.

    Attributes:
        starts: (m + 1,) offsets: list i is at starts[i]:starts[i + 1].
        items: Items of all lists, end to end.
        values: Value of each item; empty where items have none.
    """

    starts: Numbers
    items: Numbers
    values: Values = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_lengths(
        cls, lengths: Numbers, items: Numbers, values: Values | None = None
    ) -> "PlainLists":
        """Lists from their lengths and all items, end to end."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(starts, items) if values is None else cls(starts, items, values)

    def __len__(self) -> int:
        """Number of lists."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Numbers:
        """(m,) number of items of each list."""
        return np.diff(self.starts)

    def lengths(self, chosen: Numbers) -> Int64:
        """Number of items of each chosen list."""
        return (self.starts[chosen + 1] - self.starts[chosen]).astype(np.int64)

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        return self.items[self.starts[which] : self.starts[which + 1]]

    def of(self, chosen: Numbers) -> Numbers:
        """The items of the chosen lists, end to end."""
        return self.items[spans(self.starts, chosen)]

    def valued(self, chosen: Numbers) -> tuple[Numbers, Values, Int64]:
        """Items and values of the chosen lists, end to end, and the length of each list."""
        places = spans(self.starts, chosen)
        return self.items[places], self.values[places], self.lengths(chosen)

    def plain(self) -> "PlainLists":
        """The lists themselves."""
        return self


class PatchedLists:
    """Lists of a base, of which a few are replaced and to which a few are added.

    Lists and items get their new numbers on access; nothing of the base is copied.

    Attributes:
        patch: The replacing and the added lists.
    """

    def __init__(
        self, base: "Lists", owners: Layers, items: Layers, patched: Int64, patch: PlainLists
    ) -> None:
        """Put a patch over a base.

        Args:
            owners: Layers of the lists.
            items: Layers of the items.
            patched: (k,) lists in the patch, ascending, including all that the base lacks.
            patch: Those k lists, with items by their new numbers.
        """
        self._base, self._owners, self._items = base, owners, items
        self._patched, self.patch = patched, patch
        self._ended = np.append(patched, -1)

    def __len__(self) -> int:
        """Number of lists."""
        return len(self._owners)

    @cached_property
    def sizes(self) -> Numbers:
        """(m,) number of items of each list."""
        known = self._base.sizes
        found = self._owners.lay(known, np.zeros(len(self._owners.added), known.dtype))
        found[self._patched] = self.patch.sizes
        return found

    def lengths(self, chosen: Numbers) -> Int64:
        """Number of items of each chosen list."""
        return self._lengths(*self._split(chosen))

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        place = int(np.searchsorted(self._patched, which))
        if place < len(self._patched) and self._patched[place] == which:
            return self.patch.one(place)
        return self._items.numbers(self._base.one(self._owners.place(which)[1]))

    def of(self, chosen: Numbers) -> Numbers:
        """The items of the chosen lists, end to end."""
        is_patched, rows = self._split(chosen)
        own = self._items.numbers(self._base.of(rows[~is_patched]))
        if not is_patched.any():
            return own
        mask = np.repeat(is_patched, self._lengths(is_patched, rows))
        return _mixed(mask, self.patch.of(rows[is_patched]), own)

    def valued(self, chosen: Numbers) -> tuple[Numbers, Values, Int64]:
        """Items and values of the chosen lists, end to end, and the length of each list."""
        is_patched, rows = self._split(chosen)
        items, values, lengths = self._base.valued(rows[~is_patched])
        own = self._items.numbers(items)
        if not is_patched.any():
            return own, values, lengths
        more, others, sizes = self.patch.valued(rows[is_patched])
        lengths = _mixed(is_patched, sizes, lengths)
        mask = np.repeat(is_patched, lengths)
        return _mixed(mask, more, own), _mixed(mask, others, values), lengths

    def plain(self) -> PlainLists:
        """All lists as three arrays, which are built on first use."""
        return self._plain

    @cached_property
    def _plain(self) -> PlainLists:
        every = np.arange(len(self), dtype=np.int64)
        if not len(self._base.plain().values) + len(self.patch.values):
            return PlainLists.from_lengths(self.sizes, self.of(every))
        return PlainLists.from_lengths(self.sizes, *self.valued(every)[:2])

    def _split(self, chosen: Numbers) -> tuple[Mask, Int64]:
        """Which chosen lists the patch has, and the position of each there or in the base."""
        place = np.searchsorted(self._patched, chosen)
        is_patched: Mask = self._ended[place] == chosen
        return is_patched, np.where(is_patched, place, self._owners.rows(chosen))

    def _lengths(self, is_patched: Mask, rows: Int64) -> Int64:
        found = np.empty(len(rows), np.int64)
        found[is_patched] = self.patch.lengths(rows[is_patched])
        found[~is_patched] = self._base.lengths(rows[~is_patched])
        return found


Lists = PlainLists | PatchedLists


def patched_lists(
    base: Lists,
    owners: Layers,
    items: Layers,
    patched: Int64,
    *,
    lost: Callable[[Numbers], Mask],
    new: tuple[Int64, Int64, Values | None],
) -> PatchedLists:
    """Lists of a base, some of which lose and gain items.

    Args:
        owners: Layers of the lists.
        items: Layers of the items; each list is ascending.
        patched: Lists that lose or gain items, and all that the base lacks, ascending.
        lost: From items of the base to a mask of those that the patched lists lose.
        new: List, item and value of each gained item, ascending by list and item.
    """
    is_new, rows = owners.split(patched)
    known = np.flatnonzero(~is_new)
    own = np.repeat(known, base.lengths(rows[known]))
    if new[2] is None:
        before, values = base.of(rows[known]), None
    else:
        before, values, _ = base.valued(rows[known])
    kept = ~lost(before)
    size = len(items)
    there = own[kept] * size + items.numbers(before[kept])
    more = np.searchsorted(patched, new[0]) * size + new[1]
    at = np.searchsorted(there, more)
    owner, item = np.divmod(np.insert(there, at, more), size)
    lengths = np.bincount(owner, minlength=len(patched))
    if values is not None and new[2] is not None:
        values = np.insert(values[kept], at, new[2])
    lists = PlainLists.from_lengths(lengths, item.astype(np.int32), values)
    return PatchedLists(base, owners, items, patched, lists)


def _mixed(mask: Mask, some: Values, others: Values) -> Values:
    found = np.empty(len(mask), others.dtype)
    found[mask], found[~mask] = some, others
    return found
