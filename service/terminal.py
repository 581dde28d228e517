"""Consoles and progress bars of the command line."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from wye.backends.files import VISIBLE

EXCERPT = 240
INDENT = 14
# Width of lines in a file or a pipe.
FILE_WIDTH = 120
# Seconds between two lines of progress there.
LINE_SECONDS = 5.0


def output() -> Console:
    """The console for results. Texts are printed as they are: no markup, highlights or emoji."""
    return _console(stderr=False)


def messages() -> Console:
    """The console for everything but results, on standard error."""
    return _console(stderr=True)


def passage_line(
    rank: int, score: float, title: str, id_: str, relevance: float | None, *, marked: bool = False
) -> Text:
    """One line for a passage that was found."""
    line = Text(f"{rank:>3}  ")
    line.append(f"{score:.4f} ", style="cyan")
    line.append("* " if marked else "  ", style="bold green")
    line.append(_flat(title or id_), style="bold green" if marked else "bold")
    line.append(f"  {_flat(id_)}", style="dim")
    if relevance is not None:
        line.append(f"  relevance {relevance:.2f}", style="dim")
    return line


def excerpt(text: str) -> Padding:
    """The beginning of a passage, to print below its line."""
    flat = _flat(text)
    beginning = flat if len(flat) <= EXCERPT else flat[:EXCERPT].rsplit(" ", 1)[0] + " ..."
    return Padding(Text(beginning), (0, 0, 0, INDENT))


def _flat(text: str) -> str:
    return " ".join(text.split())


def say(message: str) -> None:
    """Print a message as one line whatever the width, so that it can be searched for."""
    messages().print(message, soft_wrap=True)


class _Screen(Console):
    """A console that makes control characters in texts visible, so that no terminal obeys them."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
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
    """Progress as a bar with rate and time left, or as lines where there is no terminal."""

    def __init__(self, expected: Callable[[], int] | int | None = None) -> None:
        """Nothing is drawn before `start`.

        Args:
            expected: An estimate of the steps, for stages that start without a total. A function
                is called again as the work proceeds.
        """
        self._expected = expected
        self._console = messages()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._printed = 0.0

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage, and end the present one."""
        self.close()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(label, total=total or self._estimate())
        self._bar.start()
        self._printed = monotonic()

    def advance(self, steps: int) -> None:
        """Count further steps, and raise a total that was too low."""
        if self._bar is None:
            return
        self._bar.advance(self._task, steps)
        task = next(task for task in self._bar.tasks if task.id == self._task)
        if callable(self._expected):
            self._bar.update(self._task, total=self._estimate())
        if task.total is not None and task.completed > task.total:
            self._bar.update(self._task, total=task.completed)
        if self._bar.disable and monotonic() - self._printed > LINE_SECONDS:
            self._printed = monotonic()
            total = f" of {task.total:,.0f}" if task.total is not None else ""
            rate = f", {task.speed:,.1f}/s" if task.speed else ""
            time = task.time_remaining
            remaining = f", {timedelta(seconds=round(time))} left" if time is not None else ""
            say(f"{task.description}: {task.completed:,.0f}{total}{rate}{remaining}")

    def close(self) -> None:
        """End the present stage, finished or not."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _estimate(self) -> int | None:
        return self._expected() if callable(self._expected) else self._expected


class _Rate(ProgressColumn):
    """A column with the steps per second."""

    def render(self, task: Task) -> Text:
        """The rate so far, or nothing before the first step."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "")
