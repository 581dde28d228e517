import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from router.policy import Policy
from router.types import Thresholds
from tests.training.made import HAND, logged, rated
from training.log_replay.reading import read_log
from training.log_replay.replay import LogReplay
from training.log_replay.show import show_proposed, show_replay


@pytest.fixture
def console() -> Console:
    return Console(width=130, file=io.StringIO(), record=True)


@pytest.fixture
def replay(write_log: Callable[..., Path]) -> LogReplay:
    lines = [logged(str(n), n / 20, "dense" if n <= 8 else "fusion", ms=n) for n in range(1, 20)]
    forced = logged("x", asked="graph", score=None)
    path = write_log(*lines, forced, rated("1", "a"), rated("lost", "a"))
    return LogReplay(read_log([path], HAND), Policy(Thresholds(0.4, 1.0)))


def rows(console: Console, start: str) -> list[str]:
    """Lines that begin so, with single spaces."""
    lines = (" ".join(line.split()) for line in console.export_text(clear=False).splitlines())
    return [line for line in lines if line.startswith(start)]


def test_what_was_read_is_told(console: Console, replay: LogReplay) -> None:
    show_replay(console, replay)
    text = " ".join(console.export_text(clear=False).split())
    assert "19 decisions by hand/v1 for collection 'default', 19 different questions" in text
    assert (
        "from 2026-11-10 08:00 to 2026-11-10 08:00 UTC, index version 3 (22 lines, 1 file)" in text
    )
    assert "Compared with the thresholds 0.400 and 0.600 (19)." in text
    assert "1 route named by the caller" in text
    assert "Requests with feedback: 2; different questions with passages" in text
    assert "1 an unknown request, or that of another key" in text
    assert not rows(console, "lexical")
    assert rows(console, "dense") == ["dense 8 8 4.5 4.0 8.0 50.0 50.0"]
    assert rows(console, "0.40") == [f"0.40 {'█' * 20} 1 5.3% low 0.400"]
    assert rows(console, "0.95") == [f"0.95 {'█' * 20} 1 5.3% high 1.000"]


def test_thresholds_stand_side_by_side(console: Console, replay: LogReplay) -> None:
    show_replay(console, replay, ["0.2,1", "0,0"])
    rules = (line.strip() for line in console.export_text(clear=False).split("\n"))
    assert max(len(rule) for rule in rules if rule.startswith("──")) < 80
    assert rows(console, "low") == ["low 0.400 0.200 0.000"]
    assert rows(console, "share of fusion") == ["share of fusion 57.9% 57.9% 78.9% 0.0%"]
    assert rows(console, "mean ms")[0].endswith(" unknown")
    assert rows(console, "now -> 0.2,1") == ["now -> 0.2,1 dense fusion 4 21.1%"]
    assert rows(console, "as served -> now") == ["as served -> now 0"]
    assert "How long graph would take is unknown: no request" in console.export_text()


def test_a_proposal_stands_beside_what_serves(console: Console, replay: LogReplay) -> None:
    show_proposed(console, replay, Policy(Thresholds(0.4, 1)))
    text = console.export_text()
    assert "No request changes its route (now -> proposed)." in text
    assert "as served" not in text
