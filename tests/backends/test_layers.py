"""Two layers are as one list that was made at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.layers import LayeredRows, LayeredStrings, Layers
from wye.backends.numerics import products, products_of, products_of_all
from wye.backends.types import Int32

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


def one_list(given: Layers) -> list[tuple[bool, int]]:
    """Which layer each row is of, and its row there, one by one."""
    left = iter([row for row in range(given.base) if row not in given.deleted])
    added = {number: row for row, number in enumerate(given.added.tolist())}
    return [(True, added[n]) if n in added else (False, next(left)) for n in range(len(given))]


@given(layers())
def test_rows_have_the_numbers_of_one_list(given: Layers) -> None:
    expected = one_list(given)
    assert [given.locate(number) for number in range(len(given))] == expected
    is_added, rows = given.split(np.arange(len(given)))
    assert [*zip(is_added.tolist(), rows.tolist(), strict=True)] == expected
    base, added = np.arange(given.base), -1 - np.arange(len(given.added))
    laid = [-1 - row if is_added else row for is_added, row in expected]
    assert given.lay(base, added).tolist() == laid
    assert given.lay(np.stack([base] * 2), np.stack([added] * 2), axis=1).tolist() == [laid] * 2
    assert given.positions.tolist() == [row if row >= 0 else given.base - 1 - row for row in laid]
    numbers = {row: number for number, (is_added, row) in enumerate(expected) if not is_added}
    assert given.numbers.tolist() == [numbers.get(row, -1) for row in range(given.base)]


@given(layers(), st.data())
def test_what_rows_own_is_laid_with_them(given: Layers, data: st.DataObject) -> None:
    def owners(size: int) -> Int32:
        lengths = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
        return np.repeat(np.arange(size, dtype=np.int32), lengths)

    both = owners(given.base), owners(len(given.added))
    owned = Layers.of_owned(given, *both)
    expected = [
        (is_added, place)
        for is_added, row in one_list(given)
        for place in np.flatnonzero(both[is_added] == row).tolist()
    ]
    assert one_list(owned) == expected


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
    assert np.array_equal(products(floats, query[0]), products(np.asarray(floats), query[0]))
    assert np.array_equal(
        products_of(floats, rows, query[0]), products(np.asarray(floats)[rows], query[0])
    )
    assert np.array_equal(
        products_of_all(floats, query), products_of_all(np.asarray(floats), query)
    )
    words = LayeredStrings(given, [*map(str, base[:, 0])], [*map(str, added[:, 0])])
    assert [*words] == [words[place] for place in range(len(words))] == [*map(str, whole[:, 0])]
    assert words[1:3] == [*words][1:3]
    with pytest.raises(IndexError):
        words[len(words)]
