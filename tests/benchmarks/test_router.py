import pytest

from benchmarks import router


def test_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    router.main(["--questions", "80", "--features", "12", "--members", "1"])
    printed = capsys.readouterr().out
    for row in ("linear", "attention-mlp", "solve, all pairs", "bootstrap, 200 resamples"):
        assert row in printed
