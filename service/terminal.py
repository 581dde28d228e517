"""Consoles and progress bars of the command line."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

FILE_WIDTH = 120
"""Width of lines in a file or a pipe."""
LINE_SECONDS = 5.0
"""Seconds between two lines of progress there."""


def output() -> Console:
    """The console for results. Texts are printed as they are: no markup, highlights or emoji."""
    return _console(stderr=False)


def messages() -> Console:
    """The console for everything but results, on standard error."""
    return _console(stderr=True)


def say(message: str) -> None:
    """Print a message as one line whatever the width, so that it can be searched for."""
    messages().print(message, soft_wrap=True)


class _Screen(Console):
    """A console that makes control characters in texts visible, so that no terminal obeys them."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        from wye.backends.files import VISIBLE  # noqa: PLC0415 - `wye --help` needs none of it

        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(segment.text.translate(VISIBLE), segment.style)


def _console(*, stderr: bool) -> Console:
    console = _Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


class Bar:
    """Progress as a bar with the time left, or as lines where there is no terminal."""

    def __init__(self, expected: Callable[[], int] | int | None = None) -> None:
        """Nothing is drawn before `start`.

        Args:
            expected: An estimate of the steps, for stages that start without a total. A function
                is called again as the work proceeds.
        """
        self._expected = expected
        self._console = messages()
        self._bar: Progress | None = None
        self._printed = 0.0

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage, and end the present one."""
        self.close()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            get_time=monotonic,
        )
        self._bar.add_task(label, total=total or self._estimate())
        self._bar.start()
        self._printed = monotonic()

    def advance(self, steps: int) -> None:
        """Count further steps, and raise a total that was too low."""
        if self._bar is None:
            return
        (task,) = self._bar.tasks
        self._bar.advance(task.id, steps)
        if callable(self._expected):
            task.total = self._estimate()
        if task.total is not None:
            task.total = max(task.total, task.completed)
        if self._bar.disable and monotonic() - self._printed > LINE_SECONDS:
            self._printed = monotonic()
            line = f"{task.description}: {task.completed:,.0f}"
            if task.total is not None:
                line += f" of {task.total:,.0f}"
            if task.speed:
                line += f", {task.speed:,.1f}/s"
            if task.time_remaining:
                line += f", {timedelta(seconds=task.time_remaining)} left"
            say(line)

    def close(self) -> None:
        """End the present stage, finished or not."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _estimate(self) -> int | None:
        return self._expected() if callable(self._expected) else self._expected
