"""Sets of numbers, against Python's own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backends.numerics import distinct, without

values = st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 5), max_size=12)


@given(values, values)
def test_they_are_sets_in_ascending_order(some: list[int], others: list[int]) -> None:
    one, other = distinct(np.array(some, np.int64)), distinct(np.array(others, np.int64))
    assert one.tolist() == sorted(set(some))
    assert without(one, other).tolist() == sorted(set(some) - set(others))
    assert one.dtype == np.int64
