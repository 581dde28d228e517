import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.types import RankedHit, Ranking, RowHits

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
