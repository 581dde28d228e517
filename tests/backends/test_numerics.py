"""Rankings, hits, inner sets and ragged lists, beside loops that say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wye.backends.arrays import distinct, located, ranges, without
from wye.backends.numerics import products_of, products_of_all, top_rows
from wye.backends.types import RankedHit, Ranking, RowHits


@given(
    arrays(np.float32, st.integers(0, 40), elements=st.sampled_from([-1.5, 0.0, 0.25, 0.5, 2.0])),
    st.integers(1, 50),
)
def test_top_rows_equals_a_full_sort(scores: np.ndarray, k: int) -> None:
    slow = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
    with pytest.MonkeyPatch.context() as patch:
        for parts in (1, 3, 1024):
            patch.setattr("wye.backends.numerics._GROUPS", parts)
            assert top_rows(scores, k).tolist() == slow


def test_ranks_count_from_one() -> None:
    hits = RowHits(["a", "b", "c"], np.array([2, 0]), np.array([0.5, 0.25]))
    ranking = Ranking("dense", hits, 3)
    assert ranking == Ranking("dense", (RankedHit("c", 0.5, 1), RankedHit("a", 0.25, 2)), 3, "")
    assert type(ranking.hits[0].score) is float


HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def test_every_finite_half_is_read_exactly() -> None:
    finite = HALVES[np.isfinite(HALVES)]
    one = np.ones(1, np.float32)
    rows = np.arange(len(finite), dtype=np.int64)
    result = products_of(np.ascontiguousarray(finite[:, None]), rows, one)
    assert np.array_equal(result, finite.astype(np.float32))


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from([1, 3, 24]))
def test_halves_give_what_their_float32_give(seed: int, count: int, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(scale=0.05, size=(30, dimension)).astype(np.float16)
    query = rng.normal(size=dimension).astype(np.float32)
    rows = rng.integers(0, 30, size=count)
    (expected,) = products_of_all(vectors[rows].astype(np.float32), query[None])
    assert np.array_equal(products_of(vectors, rows, query), expected)


values = st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 5), max_size=12)
few = st.lists(st.integers(-3, 30), max_size=20)


@given(few, few)
def test_values_are_located_in_an_ascending_list(some: list[int], others: list[int]) -> None:
    ascending = sorted(set(others))
    for listed in (np.array(ascending, np.int32), np.arange(len(ascending))):
        places, known = located(np.array(some, np.int64), listed)
        members = listed.tolist()
        assert known.tolist() == [value in members for value in some]
        assert places[known].tolist() == [members.index(v) for v in some if v in members]


@given(values, values)
def test_they_are_sets_in_ascending_order(some: list[int], others: list[int]) -> None:
    one, other = distinct(np.array(some, np.int64)), distinct(np.array(others, np.int64))
    assert one.tolist() == sorted(set(some))
    assert without(one, other).tolist() == sorted(set(some) - set(others))
    assert one.dtype == np.int64


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_ranges_name_the_elements_of_lists(lengths: list[int], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))
    last = np.cumsum(lengths)[order].astype(np.int64)
    first = last - np.array(lengths, np.int32)[order]
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    assert ranges(first, last).tolist() == [number for pair in pairs for number in range(*pair)]


IDS = [f"p{row}" for row in range(9)]


@given(
    st.lists(st.integers(0, 8), unique=True, max_size=9),
    st.one_of(st.integers(-9, 8), st.slices(9)),
)
def test_hits_of_rows_are_the_hits(rows: list[int], place: int | slice) -> None:
    scores = np.linspace(1, 0, len(rows), dtype=np.float32)
    found = RowHits(IDS, np.array(rows, np.int64), scores)
    told = tuple(
        RankedHit(IDS[row], score, rank)
        for rank, (row, score) in enumerate(zip(rows, scores.tolist(), strict=True), start=1)
    )
    if isinstance(place, int) and -len(rows) <= place < len(rows):
        assert found[place] == told[place]  # made alone, since no hit was made yet
    assert [*found] == [*told]
    assert (found == told, len(found)) == (True, len(told))
    assert (hash(found), repr(found)) == (hash(told), repr(told))
    if isinstance(place, slice) or -len(rows) <= place < len(rows):
        assert found[place] == told[place]
    assert found != [*told]
    places = [*range(len(rows))][::2]
    assert Ranking("", found).at(places) == Ranking("", told).at(places) == told[::2]
    assert Ranking("", found).ids(3) == Ranking("", told).ids(3) == [hit.id for hit in told[:3]]
    assert Ranking("", found).ids() == Ranking("", told).ids() == [hit.id for hit in told]
    np.testing.assert_array_equal(Ranking("", found).scores, Ranking("", told).scores)
