import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import main
from benchmarks.papers import TABLES, gain_at


def test_a_table_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", "x", "--indexes", "x", "--tables", "recall,prices"]) == 2
    assert f"No table 'prices'; there is {', '.join(TABLES)}." in capsys.readouterr().err


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_the_gain_of_a_share_is_that_of_its_first_questions_and_the_mean_of_equal_ones(
    rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    taken = data.draw(st.integers(0, len(rows)))
    # Questions with equal scores are as good as their mean.
    means = {s: np.mean([gain for gain, own in rows if own == s]) for _, s in rows}
    first = sorted((score for _, score in rows), reverse=True)[:taken]
    gains, scores = np.array(rows, float).T
    slow = sum(means[score] for score in first) / len(rows)
    assert gain_at(gains, scores, taken / len(rows)) == pytest.approx(slow, abs=1e-9)
