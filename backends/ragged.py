"""Lists of different lengths, laid end to end in one array."""

import numpy as np

from backends.types import Int32, Int64


def ragged(lengths: Int32 | Int64, order: Int64) -> Int64:
    """Where the elements of some lists lie, for the lists taken in an order of one's own.

    Args:
        lengths: (n,) list lengths, as laid out.
        order: (k,) lists.

    Returns:
        One place for each element.
    """
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    taken = lengths[order]
    shift = starts[order] - (np.cumsum(taken, dtype=np.int64) - taken)
    return np.repeat(shift, taken) + np.arange(taken.sum(), dtype=np.int64)
