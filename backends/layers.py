"""Two layers of rows as one list: a large base that stays, and what was added and removed since.

Each row of either layer has a number, its position in the list. Computing numbers copies nothing of
the base. Within a layer, numbers are in the order of rows, so what is sorted stays sorted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from wye.backends.types import Float16, Float32, Int32, Int64, Mask

_MOST_PIECES = 4_096
"""Up to this many slices, arrays are concatenated slice by slice; beyond it, rows are gathered."""
_BITS = 8
"""Positions that are equal without their last 8 bits are a block of `_Shifts`, which has a table
with one entry for each: 32 kB for a million rows. A cut sends 256 positions to the search."""
_NEAR = np.int64(-(2**62))
"""Entry of a block with a cut: a sum with any position stays negative."""

T = TypeVar("T")
_Value = TypeVar("_Value", bound=np.generic)
_Result = TypeVar("_Result", bound=np.generic)


class Layers:
    """Positions in one list of the rows of two layers; a position is called a row's number.

    Attributes:
        base: Number of rows of the base.
        gone: (g,) removed rows of the base, ascending.
        added: (m,) numbers of the added rows, ascending.
    """

    def __init__(self, base: int, gone: Int64, added: Int64) -> None:
        self.base, self.gone, self.added = base, gone, added
        # As positions among the rows of the base that are left.
        self._gone = gone - np.arange(len(gone))
        self._added = added - np.arange(len(added))
        self._ended = np.append(added, -1)
        self._lists = [each.tolist() for each in (gone, added, self._gone, self._added)]

    def owned(self, base: Int32 | Int64, added: Int32 | Int64) -> "Layers":
        """The layers of elements that the rows own, such as sentences.

        Args:
            base: Owning row of each element of the base, ascending.
            added: Owning row, in its layer, of each added element, ascending.
        """
        # Of the same type, since `np.searchsorted` would copy the whole base otherwise.
        rows, follower = (each.astype(base.dtype) for each in (self.gone, self._follower))
        first, last = (np.searchsorted(base, rows, side) for side in ("left", "right"))
        gone = [np.arange(*ends) for ends in zip(first.tolist(), last.tolist(), strict=True)]
        gone_elements = np.concatenate([np.empty(0, np.int64), *gone])
        before = np.searchsorted(base, follower)
        positions = before - np.searchsorted(gone_elements, before)
        return Layers(len(base), gone_elements, positions[added] + np.arange(len(added)))

    def __len__(self) -> int:
        """Number of rows."""
        return self.base - len(self.gone) + len(self.added)

    def split(self, numbers: Int32 | Int64) -> tuple[Mask, Int64]:
        """Whether the rows with some numbers are added ones, and their positions in the layers."""
        rows, near = self._to_rows(numbers)
        is_added = np.zeros(len(rows), bool)
        if len(near[0]):
            near_numbers = numbers[near]
            at = self.added.searchsorted(near_numbers)
            is_added[near] = self._ended[at] == near_numbers
            rows[near] = np.where(is_added[near], at, rows[near])
        return is_added, rows

    def rows(self, numbers: Int32 | Int64) -> Int64:
        """Rows of the base by number; values for added rows are meaningless."""
        return self._to_rows(numbers)[0]

    def _row(self, numbers: Int64) -> Int64:
        positions = numbers - self.added.searchsorted(numbers)
        return positions + self._gone.searchsorted(positions, "right")

    @cached_property
    def _to_rows(self) -> "_Shifts":
        ends = np.minimum(self._number(self.gone), len(self))
        return _Shifts(len(self), np.concatenate([self.added, ends]), self._row)

    def number(self, row: int) -> int:
        """Number of a row of the base; -1 if it was removed."""
        gone, _, _, added = self._lists
        at = bisect_left(gone, row)
        if at < len(gone) and gone[at] == row:
            return -1
        return row - at + bisect_right(added, row - at)

    def locate(self, number: int) -> tuple[bool, int]:
        """Whether the row with a number is an added one, and its position in its layer."""
        _, added, gone, _ = self._lists
        at = bisect_left(added, number)
        if at < len(added) and added[at] == number:
            return True, at
        return False, number - at + bisect_right(gone, number - at)

    def lay(self, base: NDArray[_Value], added: NDArray[_Value], axis: int = 0) -> NDArray[_Value]:
        """Values of the rows of both layers as one array, in order."""
        if len(self._pieces) > _MOST_PIECES:
            return np.concatenate([base, added], axis).take(self.positions, axis)
        both = np.moveaxis(base, axis, 0), np.moveaxis(added, axis, 0)
        parts = [both[layer][start:stop] for layer, start, stop in self._pieces]
        rows = np.concatenate(parts) if parts else both[0][:0]
        return np.moveaxis(rows, 0, axis)

    def listed(self, base: list[T], added: list[T]) -> list[T]:
        """As `lay`, for lists."""
        both = base, added
        parts = (both[layer][start:stop] for layer, start, stop in self._pieces)
        return [*chain.from_iterable(parts)]

    def owners(self, base: Int32, added: Int32) -> Int32:
        """(e,) number of the owning row of each element of both layers; see `owned`."""
        numbers = np.empty(len(base) + len(added), np.int32)
        end = number = 0
        for layer, start, stop in self._pieces:
            owner = added if layer else base
            first, last = np.searchsorted(owner, np.array([start, stop], owner.dtype)).tolist()
            begin, end = end, end + last - first
            np.add(owner[first:last], np.int32(number - start), out=numbers[begin:end])
            number += stop - start
        return numbers[:end]

    @cached_property
    def positions(self) -> Int64:
        """(n,) position of each row in the concatenation of the whole base and the added rows."""
        rows = np.arange(self.base + len(self.added), dtype=np.int64)
        first = 0, self.base
        parts = [rows[first[layer] :][start:stop] for layer, start, stop in self._pieces]
        return np.concatenate([rows[:0], *parts])

    def numbers(self, rows: Int32 | Int64) -> Int32:
        """Numbers of rows of the base, which mean nothing where these are gone."""
        return self._to_numbers(rows)[0].astype(np.int32)

    def _number(self, rows: Int64) -> Int64:
        positions = rows - self.gone.searchsorted(rows)
        return positions + self._added.searchsorted(positions, "right")

    @cached_property
    def _to_numbers(self) -> "_Shifts":
        return _Shifts(self.base, np.concatenate([self.gone, self._follower]), self._number)

    @cached_property
    def _pieces(self) -> list[tuple[int, int, int]]:
        """Slices of the layers in order of numbers: layer (0 is the base), first row, end."""
        pieces: list[tuple[int, int, int]] = []
        row = 0
        cuts = [(row, -1) for row in self.gone.tolist()]
        cuts += [(row, added_row) for added_row, row in enumerate(self._follower.tolist())]
        for cut, added_row in [*sorted(cuts), (self.base, -1)]:
            if row < cut:
                pieces.append((0, row, cut))
            row = cut
            if added_row < 0:
                row += 1
            elif pieces and pieces[-1][0] and pieces[-1][2] == added_row:
                pieces[-1] = 1, pieces[-1][1], added_row + 1
            else:
                pieces.append((1, added_row, added_row + 1))
        return pieces

    @property
    def _follower(self) -> Int64:
        """(m,) row of the base that follows each added one."""
        return self._added + np.searchsorted(self._gone, self._added, "right")


class _Shifts:
    """Maps positions in one list to those in another; their difference changes at a few cuts.

    Away from cuts the difference is that of a whole block, so there is nothing to search.
    """

    def __init__(self, size: int, cuts: Int64, exact: Callable[[Int64], Int64]) -> None:
        """Compute the difference of each block.

        Args:
            size: Greatest position.
            cuts: Positions from which on the difference may be another.
            exact: Maps any positions, by searching.
        """
        starts = np.arange(0, size + 1, 1 << _BITS)
        self._exact, self._differences = exact, exact(starts) - starts
        self._differences[cuts >> _BITS] = _NEAR

    def __call__(self, positions: Int32 | Int64) -> tuple[Int64, tuple[Int64, ...]]:
        """The mapped positions, and the indices of those in a block that has a cut."""
        shifted = self._differences.take(positions >> _BITS)
        shifted += positions
        near = np.nonzero(shifted < 0)
        if len(near[0]):
            shifted[near] = self._exact(positions[near].astype(np.int64))
        return shifted, near


class LayeredRows(Generic[_Value]):
    """An array in two layers. NumPy functions accept it, but copy all rows to one array."""

    def __init__(self, layers: Layers, base: NDArray[_Value], added: NDArray[_Value]) -> None:
        self.layers, self.base, self.added = layers, base, added

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return (len(self.layers), *self.base.shape[1:])

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, rows: slice | Int32 | Int64) -> NDArray[_Value]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return self.by_layer(rows, lambda layer, layer_rows: layer[layer_rows])

    def by_layer(
        self, rows: Int32 | Int64, function: Callable[[NDArray[_Value], Int64], NDArray[_Result]]
    ) -> NDArray[_Result]:
        """(m, ...) result of a function for each of some rows; it takes a layer and rows of it."""
        is_added, layer_rows = self.layers.split(rows)
        if is_added.all():
            return function(self.added, layer_rows)
        if not is_added.any():
            return function(self.base, layer_rows)
        results = function(self.base, np.where(is_added, 0, layer_rows))
        results[is_added] = function(self.added, layer_rows[is_added])
        return results

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[_Value]:  # noqa: ANN401
        return self.layers.lay(self.base, self.added).astype(dtype or self.base.dtype)


Rows16 = Float16 | LayeredRows[np.float16]
Rows32 = Float32 | LayeredRows[np.float32]


class LayeredStrings(Sequence[str]):
    """Strings in two layers."""

    def __init__(self, layers: Layers, base: Sequence[str], added: Sequence[str]) -> None:
        self._layers, self._both = layers, (base, added)

    def __len__(self) -> int:
        return len(self._layers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        is_added, row = self._layers.locate(range(len(self))[index])
        return self._both[is_added][row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers.listed(*([*strings] for strings in self._both)))
