"""Adjacency lists: the sentences of entities, the entities of sentences, titles.

Lists are stored end to end. A caller names a few lists and gets their items, also end to end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wye.backends.layers import Layers
from wye.backends.numerics import spans
from wye.backends.types import Int32, Int64, Mask

Numbers = Int32 | Int64


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
        of_base = self._items.numbers(self._base.of(rows[~is_patched]))
        if not is_patched.any():
            return of_base
        mask = np.repeat(is_patched, self._lengths(is_patched, rows))
        return _mixed(mask, self.patch.of(rows[is_patched]), of_base)

    def plain(self) -> PlainLists:
        """All lists as three arrays, which are built on first use."""
        return self._plain

    @cached_property
    def _plain(self) -> PlainLists:
        return PlainLists.from_lengths(self.sizes, self.of(np.arange(len(self), dtype=np.int64)))

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
    new: tuple[Int64, Int64],
) -> PatchedLists:
    """Lists of a base, some of which lose and gain items.

    Args:
        owners: Layers of the lists.
        items: Layers of the items; each list is ascending.
        patched: Lists that lose or gain items, and all that the base lacks, ascending.
        lost: From items of the base to a mask of those that the patched lists lose.
        new: List and item of each gained item, ascending by both.
    """
    is_new, rows = owners.split(patched)
    base_lists = np.flatnonzero(~is_new)
    owner = np.repeat(base_lists, base.lengths(rows[base_lists]))
    before = base.of(rows[base_lists])
    stays = ~lost(before)
    size = len(items)
    pairs = owner[stays] * size + items.numbers(before[stays])
    more = np.searchsorted(patched, new[0]) * size + new[1]
    owner, item = np.divmod(np.insert(pairs, np.searchsorted(pairs, more), more), max(size, 1))
    return PatchedLists(
        base, owners, items, patched, PlainLists.from_owners(owner, item, len(patched))
    )


def _mixed(mask: Mask, some: Numbers, others: Numbers) -> Numbers:
    mixed = np.empty(len(mask), others.dtype)
    mixed[mask], mixed[~mask] = some, others
    return mixed
