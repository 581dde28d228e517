from importlib.util import find_spec

import pytest

from benchmarks.__main__ import STANDARD, Standard, main, usage


def test_every_standard_benchmark_exists() -> None:
    for standard in STANDARD:
        assert find_spec(f"benchmarks.{standard.name}") is not None


def test_an_unknown_name_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sprint"]) == 2
    assert usage() in capsys.readouterr().err
    assert main(["../x"]) == 2


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "crash --moments" in capsys.readouterr().out


@pytest.mark.parametrize("standard", STANDARD, ids=lambda standard: standard.name)
def test_a_benchmark_starts(standard: Standard, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([standard.name, "--help"]) == 0
    assert "usage" in capfd.readouterr().out
