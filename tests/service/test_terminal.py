import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wye.backends.files import VISIBLE
from wye.service import terminal
from wye.service.terminal import Bar


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
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


def test_what_is_expected_may_be_known_better_later(screen: io.StringIO) -> None:
    estimates = iter([90, 7])
    bar = Bar(expected=lambda: next(estimates))
    bar.start(None, "passages")
    bar.advance(2)
    bar.close()
    assert "2/7" in screen.getvalue()


def test_a_file_gets_a_line_every_few_seconds_without_the_time_of_loading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(terminal, "monotonic", lambda: now)
    bar = Bar(expected=1_000)
    bar.start(None, "passages")
    for seconds, steps in ((9, 1), (6, 50), (3, 0), (3, 69)):
        now += seconds
        bar.advance(steps)
    bar.close()
    assert capsys.readouterr().err.splitlines() == [
        "passages: 1 of 1,000",
        "passages: 51 of 1,000, 8.3/s, 0:01:54 left",
        "passages: 120 of 1,000, 9.9/s, 0:01:29 left",
    ]


def test_no_file_is_drawn_into_outside_a_stage(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(expected=2)
    bar.advance(1)
    bar.start(None, "passages")
    bar.advance(1)
    bar.close()
    assert capsys.readouterr() == ("", "")


@given(st.text() | st.just("\x1b]0;owned\x07\x9b31m\u202etxt"))
def test_a_terminal_obeys_nothing_of_a_text(text: str) -> None:
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        console = terminal.output()
        console.print(Text(text, style="bold"), Padding(text, (0, 0, 0, 2)), soft_wrap=True)
        table = Table("a")
        table.add_row(Text(text))
        console.print(table)
    shown = written.getvalue()
    assert not any(ord(each) in VISIBLE for each in shown), shown
