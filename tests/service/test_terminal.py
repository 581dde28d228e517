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
    ("expected", "stages", "count", "shows"),
    [
        (10, [(None, "passages")], 4, "4/10"),
        (2, [(None, "passages")], 5, "5/5"),
        (None, [(3, "one"), (4, "two")], 1, "1/4"),
    ],
    ids=["to what is expected", "an estimate that is too low is raised", "a stage after another"],
)
def test_a_bar_counts(
    screen: io.StringIO,
    expected: int | None,
    stages: list[tuple[int | None, str]],
    count: int,
    shows: str,
) -> None:
    bar = Bar(expected=expected)
    for stage in stages:
        bar.start(*stage)
    bar.advance(count)
    bar.close()
    assert shows in screen.getvalue()
    assert all(name in screen.getvalue() for _, name in stages[-1:])


def test_nothing_is_drawn_into_a_file_or_outside_a_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bar = Bar(expected=2)
    bar.advance(1)
    bar.start(None, "passages")
    bar.advance(1)
    bar.close()
    assert capsys.readouterr() == ("", "")
