"""Lists of numbers end to end: the passages of entities, the entities of sentences, edges.

What two sides of the graph have to do with each other is such lists, one way or both. Whoever asks
names a few lists, and is given their items end to end.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backends.numerics import spans
from backends.types import Int32, Int64

Numbers = Int32 | Int64
Values = NDArray[Any]


class Lists(Protocol):
    """m lists of items, each item with a value where there are values."""

    def __len__(self) -> int:
        """How many lists there are."""
        ...

    @property
    def sizes(self) -> Numbers:
        """(m,) how many items each list has."""
        ...

    def lengths(self, chosen: Numbers) -> Int64:
        """How many items each of some lists has."""
        ...

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        ...

    def of(self, chosen: Numbers) -> Numbers:
        """The items of some lists, end to end."""
        ...

    def valued(self, chosen: Numbers) -> tuple[Numbers, Values]:
        """The same with the value of each."""
        ...

    def plain(self) -> "PlainLists":
        """All of them as three arrays."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLists:
    """Lists as three arrays.

    Attributes:
        starts: (m + 1,) list i lies at starts[i]:starts[i + 1].
        items: Of all lists.
        values: Of all items; empty where they have none.
    """

    starts: Numbers
    items: Numbers
    values: Values = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_lengths(
        cls, lengths: Numbers, items: Numbers, values: Values | None = None
    ) -> "PlainLists":
        """Lists of these lengths."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(starts, items) if values is None else cls(starts, items, values)

    def __len__(self) -> int:
        """How many lists there are."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Numbers:
        """(m,) how many items each list has."""
        return np.diff(self.starts)

    def lengths(self, chosen: Numbers) -> Int64:
        """How many items each of some lists has."""
        return (self.starts[chosen + 1] - self.starts[chosen]).astype(np.int64)

    def one(self, which: int) -> Numbers:
        """The items of one list."""
        return self.items[self.starts[which] : self.starts[which + 1]]

    def of(self, chosen: Numbers) -> Numbers:
        """The items of some lists, end to end."""
        return self.items[spans(self.starts, chosen)]

    def valued(self, chosen: Numbers) -> tuple[Numbers, Values]:
        """The same with the value of each."""
        places = spans(self.starts, chosen)
        return self.items[places], self.values[places]

    def plain(self) -> "PlainLists":
        """Themselves."""
        return self
