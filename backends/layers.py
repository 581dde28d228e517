"""Two layers of rows as one list: a large base that stays, and what was added and removed since.

Each row of either layer has a number, its position in the list. Within a layer, numbers are in the
order of rows, so what is sorted stays sorted.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from wye.backends.filters import Columns, Comparison
from wye.backends.types import Float16, Float32, Int32, Int64, Mask

_Value = TypeVar("_Value", bound=np.generic)
_Result = TypeVar("_Result", bound=np.generic)


class Layers:
    """Positions in one list of the rows of two layers; a position is called a row's number.

    Attributes:
        base: Number of rows of the base.
        deleted: (g,) removed rows of the base, ascending.
        added: (m,) numbers of the added rows, ascending.
        positions: (n,) position of each row in the whole base followed by the added rows.
    """

    def __init__(self, base: int, deleted: Int64, added: Int64) -> None:
        self.base, self.deleted, self.added = base, deleted, added
        is_added = np.zeros(base - len(deleted) + len(added), bool)
        is_added[added] = True
        self.positions = np.empty(len(is_added), np.int64)
        self.positions[~is_added] = np.delete(np.arange(base), deleted)
        self.positions[added] = base + np.arange(len(added))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.positions)

    @cached_property
    def numbers(self) -> Int32:
        """Number of each row of the base, -1 for a removed one."""
        numbers = np.full(self.base + len(self.added), -1, np.int32)
        numbers[self.positions] = np.arange(len(self), dtype=np.int32)
        return numbers[: self.base]

    def split(self, numbers: Int32 | Int64) -> tuple[Mask, Int64]:
        """Whether the rows with some numbers are added ones, and their positions in the layers."""
        rows = self.positions[numbers]
        is_added = rows >= self.base
        rows[is_added] -= self.base
        return is_added, rows

    def locate(self, number: int) -> tuple[bool, int]:
        """Whether the row with a number is an added one, and its position in its layer."""
        position = int(self.positions[number])
        return position >= self.base, position - self.base * (position >= self.base)

    def lay(self, base: NDArray[_Value], added: NDArray[_Value], axis: int = 0) -> NDArray[_Value]:
        """Values of the rows of both layers as one array, in order."""
        return np.concatenate([base, added], axis).take(self.positions, axis)


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

    def __getitem__(self, rows: Int32 | Int64) -> NDArray[_Value]:
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
        both = [*self._both[0], *self._both[1]]
        return map(both.__getitem__, self._layers.positions.tolist())


class LayeredColumns(Columns):
    """Columns of passages in two layers, which reuse those of the base."""

    def __init__(self, layers: Layers, base: Columns, added: Columns) -> None:
        self._layers, self._base, self._added = layers, base, added
        self._kinds: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self._layers)

    def mask(self, comparison: Comparison) -> Mask:
        """(n,) mask of the passages that satisfy a comparison."""
        return self._layers.lay(self._base.mask(comparison), self._added.mask(comparison))

    def keys(self) -> set[str]:
        """Keys that some passage has."""
        return {key for key in self._base.keys() | self._added.keys() if self.kinds(key)}

    def kinds(self, key: str) -> set[int]:
        """The kinds of a key's values; none if no passage has the key."""
        if key not in self._kinds:
            column = self._base.column(key)
            left = column.codes[self._layers.numbers[column.rows] >= 0]
            spans = column.spans.items()
            base_kinds = {kind for kind, (a, b) in spans if ((left >= a) & (left < b)).any()}
            self._kinds[key] = base_kinds | self._added.kinds(key)
        return self._kinds[key]
