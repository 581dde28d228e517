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


@pytest.mark.parametrize(
    ("expected", "totals", "steps", "shown"),
    [
        (10, [None], 4, "4/10"),  # counts to what is expected
        (2, [None], 5, "5/5"),  # an estimate that is too low is raised
        (None, [3, 4], 1, "1/4"),  # a stage may follow another
    ],
)
def test_a_bar_counts(
    screen: io.StringIO, expected: int | None, totals: list[int | None], steps: int, shown: str
) -> None:
    bar = Bar(expected)
    for total in totals:
        bar.start(total, "passages")
    bar.advance(steps)
    bar.close()
    assert "passages" in screen.getvalue()
    assert shown in screen.getvalue()


def test_nothing_is_drawn_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(expected=2)
    bar.advance(1)  # outside a stage, it does nothing
    bar.start(None, "passages")
    bar.advance(1)
    bar.close()
    assert capsys.readouterr() == ("", "")
