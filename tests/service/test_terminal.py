import io

import pytest
from rich.console import Console

from service import terminal
from service.terminal import Bar


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal would show."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(terminal, "messages", lambda: console)
    return written


def test_a_bar_counts_to_what_is_expected(screen: io.StringIO) -> None:
    bar = Bar(expected=10)
    bar.start(None, "passages")
    bar.advance(4)
    bar.close()
    assert "passages" in screen.getvalue()
    assert "4/10" in screen.getvalue()


def test_an_estimate_that_is_too_low_is_raised(screen: io.StringIO) -> None:
    bar = Bar(expected=2)
    bar.start(None, "passages")
    bar.advance(5)
    bar.close()
    assert "5/5" in screen.getvalue()


def test_a_stage_may_follow_another(screen: io.StringIO) -> None:
    bar = Bar()
    bar.start(3, "one")
    bar.start(4, "two")
    bar.advance(1)
    bar.close()
    assert "1/4" in screen.getvalue()


def test_counting_outside_a_stage_does_nothing() -> None:
    bar = Bar()
    bar.advance(1)
    bar.close()


def test_nothing_is_drawn_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(expected=2)
    bar.start(None, "passages")
    bar.advance(1)
    bar.close()
    assert capsys.readouterr() == ("", "")
