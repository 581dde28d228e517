import math

import pytest

from training.evaluation.bootstrap import Interval
from training.reporting.formats import milliseconds, percent, share, signed, signed_spread, spread


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.8874, ".887"), (1.0, "1.00"), (0.0, ".000"), (-0.25, "-.250"), (math.nan, "-")],
)
def test_shares(value: float, text: str) -> None:
    assert share(value) == text


def test_intervals() -> None:
    assert spread(Interval(0.5, 0.25, 1.0)) == ".500 [.250 1.00]"
    assert signed(Interval(0.5, 0.25, 1.0)) == "+.500*"
    assert signed(Interval(-0.5, -1.0, 0.0)) == "-.500"
    assert signed_spread(Interval(-0.5, -1.25, -0.25)) == "-.500 [-1.250 -.250]*"


def test_other_numbers() -> None:
    assert percent(0.375) == "38 %"
    assert percent(math.nan) == "-"
    assert milliseconds(12.34) == "12.3"
    assert milliseconds(123.4) == "123"
