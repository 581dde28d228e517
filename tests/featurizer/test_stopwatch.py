import pytest

from wye.featurizer.stopwatch import Stopwatch


def test_a_stopwatch_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 1.0, 3.0, 3.0, 7.0])
    monkeypatch.setattr("wye.featurizer.stopwatch.perf_counter", lambda: next(ticks))
    clock = Stopwatch("zero", "one")
    for name in ("two", "one", "two"):
        with clock.stage(name):
            pass
    assert clock.seconds == {"zero": 0, "one": 2, "two": 5}
    assert [*clock.seconds] == ["zero", "one", "two"]


def test_time_is_counted_even_when_a_stage_fails() -> None:
    clock = Stopwatch()
    with pytest.raises(KeyError), clock.stage("failing"):
        raise KeyError
    assert clock.seconds["failing"] > 0
