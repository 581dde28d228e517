import pytest

from benchmarks import traffic


def test_it_starts(capfd: pytest.CaptureFixture[str]) -> None:
    assert traffic.main(["--lines", "300", "--max-latency-ms", "20"]) == 0
    printed = capfd.readouterr().out
    assert "300 decisions by router-en/v1" in printed
    assert "wye tune --from-log, peak memory" in printed
