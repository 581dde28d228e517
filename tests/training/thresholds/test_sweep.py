import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wye.router.policy import bands
from wye.router.types import Thresholds
from wye.training.thresholds.sweep import Cuts, sums

score = st.one_of(st.sampled_from([0.2, 0.5, math.nextafter(0.5, 1), 0.8]), st.floats(0.01, 0.99))


@given(st.lists(score, min_size=1, max_size=8), st.data())
def test_sums_over_every_pair_are_those_of_the_routes(
    scores: list[float], data: st.DataObject
) -> None:
    n = len(scores)
    values = np.random.default_rng(n).integers(-5, 5, (n, 3)).astype(float)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), float)
    found = np.array(scores)
    cuts = Cuts.of(found)
    table = sums(cuts, values, counts)
    for i, low in enumerate(cuts.positions.tolist()):
        for j, high in enumerate(cuts.positions.tolist()[i:], start=i):
            codes = bands(found, cuts.thresholds(low, high))
            expected = sum(values[row, codes[row]] * counts[row] for row in range(n))
            assert table[i, j] == expected
    assert (sums(cuts, values) == sums(cuts, values, np.ones(n))).all()


@given(st.lists(score, min_size=1, max_size=30), st.integers(2, 10))
def test_cuts_reach_from_nothing_to_everything(scores: list[float], most: int) -> None:
    for cuts in (Cuts.of(np.array(scores)), Cuts.of(np.array(scores), most)):
        assert cuts.positions[0] == 0
        assert cuts.positions[-1] == len(set(scores))
        assert (np.diff(cuts.positions) > 0).all()
    assert len(Cuts.of(np.array(scores), most).positions) <= most


def test_a_border_lies_midway_between_scores() -> None:
    cuts = Cuts.of(np.array([0.2, 0.4, 0.8]))
    assert cuts.thresholds(0, 3) == Thresholds(0, 1)
    assert cuts.thresholds(1, 2) == Thresholds(0.2 + 0.1, 0.4 + 0.2)
