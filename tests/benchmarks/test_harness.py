import numpy as np
import pytest

from benchmarks.harness import Table, intervals, number, percentiles, print_header


def test_header_names_machine_commit_seed_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    print_header("Speed", seed=None, data="2 passages")
    printed = capsys.readouterr().out
    assert printed.startswith("# Speed\n# machine  ")
    assert "# commit   " in printed
    assert "# seed     none\n# data     2 passages\n" in printed


def test_table_aligns_names_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(["arm", "p50 ms", "passages"], width=6)
    table.row("dense", 0.25, 6119)
    assert capsys.readouterr().out.splitlines() == [
        "arm        p50 ms   passages",
        "------  ---------  ---------",
        "dense       0.250      6,119",
    ]
    with pytest.raises(ValueError, match="longer than"):
        table.row("dense")


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.1234, "0.123"),
        (12.3456, "12.346"),
        (123.45, "123.5"),
        (12345.6, "12,346"),
        (6119, "6,119"),
        (0.0, "0.0"),
        (np.nan, "-"),
    ],
)
def test_numbers(value: float, printed: str) -> None:
    assert number(value) == printed


def test_percentiles_are_milliseconds() -> None:
    assert percentiles([0.001, 0.002, 0.003]) == pytest.approx((2.0, 2.9, 2.98))


def test_a_star_marks_a_difference_that_excludes_zero() -> None:
    base = np.tile([[0.0], [1.0]], (50, 1))
    values = np.hstack([base, base + 0.5, 1 - base])
    same, better, other = intervals(values, np.hstack([base] * 3), seed=0)
    assert same.startswith("0.500 [0.4")
    assert same.endswith("] ")
    assert better.startswith("1.000 [0.9")
    assert better.endswith("]*")
    assert other.endswith("] ")
