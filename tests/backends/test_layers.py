"""Two layers are as one list that was made at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.layers import LayeredRows, LayeredStrings, Layers
from wye.backends.numerics import products_of, products_of_all

INTEGERS = st.integers(0, 20)


@st.composite
def layers(draw: st.DrawFn) -> Layers:
    base = draw(INTEGERS)
    gone = sorted(draw(st.sets(st.integers(0, base - 1)))) if base else []
    size = base - len(gone) + draw(st.integers(0, 8))
    is_added = draw(
        st.permutations([True] * (size - base + len(gone)) + [False] * (base - len(gone)))
    )
    return Layers(base, np.array(gone, np.int64), np.flatnonzero(np.array(is_added, bool)))


@given(layers(), st.integers(0, 99))
def test_rows_and_strings_are_read_as_from_one_array(given: Layers, seed: int) -> None:
    chance = np.random.default_rng(seed)
    base, added = (
        chance.standard_normal((n, 4)).astype(np.float16) for n in (given.base, len(given.added))
    )
    halves = LayeredRows(given, base, added)
    whole = np.asarray(halves)
    assert whole.dtype == np.float16
    assert whole.shape == halves.shape
    assert len(halves) == len(whole)
    rows = chance.permutation(len(given))
    assert np.array_equal(halves[rows], whole[rows])
    assert np.array_equal(halves[1:-1], whole[1:-1])
    query = chance.standard_normal((3, 4)).astype(np.float32)
    assert np.array_equal(products_of(halves, rows, query[0]), products_of(whole, rows, query[0]))
    floats = LayeredRows(given, base.astype(np.float32), added.astype(np.float32))
    (by_row,) = products_of_all(np.asarray(floats)[rows], query[:1])
    assert np.array_equal(products_of(floats, rows, query[0]), by_row)
    assert np.array_equal(
        products_of_all(floats, query), products_of_all(np.asarray(floats), query)
    )
    words = LayeredStrings(given, [*map(str, base[:, 0])], [*map(str, added[:, 0])])
    assert [*words] == [words[place] for place in range(len(words))] == [*map(str, whole[:, 0])]
    assert words[1:3] == [*words][1:3]
    with pytest.raises(IndexError):
        words[len(words)]
