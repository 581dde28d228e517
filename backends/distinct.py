"""Sets of numbers as ascending arrays."""

import numpy as np

from backends.types import Int64


def distinct(values: Int64) -> Int64:
    """Each value once, ascending.

    NumPy's `unique` goes through a hash table for integers, which is thirty times slower than
    sorting half a million of them.
    """
    ascending: Int64 = np.sort(values)
    return ascending[np.flatnonzero(np.diff(ascending, prepend=ascending[:1] - 1))]


def without(values: Int64, others: Int64) -> Int64:
    """The values that are not among the others; both as of `distinct`."""
    if not len(others):
        return values
    place = np.searchsorted(others, values)
    place[place == len(others)] = 0
    kept: Int64 = values[others[place] != values]
    return kept
