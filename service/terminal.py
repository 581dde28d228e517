"""What commands share: options and how their values are read, consoles and progress bars."""

import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich import progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from wye.router.routes import Route
from wye.service.errors import ServiceError

if TYPE_CHECKING:
    from wye.router.settings import Settings

FILE_WIDTH = 120  # width of lines in a file or a pipe
LINE_SECONDS = 5.0  # seconds between two lines of progress there


def output() -> Console:
    """The console for results. Texts are printed as they are: no markup, highlights or emoji."""
    return _Screen(stderr=False)


def messages() -> Console:
    """The console for everything but results, on standard error."""
    return _Screen(stderr=True)


def say(message: str) -> None:
    """Print a message as one line whatever the width, so that it can be searched for."""
    messages().print(message, soft_wrap=True)


class _Screen(Console):
    """A console that makes control characters in texts visible, so that no terminal obeys them."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = FILE_WIDTH

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        from wye.backends.files import VISIBLE  # noqa: PLC0415 - `wye --help` needs none of it

        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(segment.text.translate(VISIBLE), segment.style)


class Bar:
    """Progress as a bar with the time left, or as lines where there is no terminal."""

    def __init__(self, expected: Callable[[], int] | int | None = None) -> None:
        """Draw nothing yet; `expected` estimates the steps of stages that start without a total."""
        self._expected = expected
        self._console = messages()
        self._bar: progress.Progress | None = None
        self._printed = 0.0

    def start(self, total: int | None, label: str) -> None:
        """Begin a stage, and end the present one."""
        self.close()
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
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


IndexOption = Annotated[Path | None, typer.Option(help="Folder of the index. Default: WYE_INDEX.")]
IndexesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]DIR",
        help="Index to serve; several need names. Default: WYE_SERVE__INDEXES or WYE_INDEX.",
    ),
]
ServedArmsOption = Annotated[
    Path | None,
    typer.Option(
        help="File that declares remote arms. Default: WYE_ARMS, or wye.toml if it exists."
    ),
]
RouteOption = Annotated[
    str,
    typer.Option(
        metavar="ROUTE", autocompletion=lambda: [*Route], help=f"Route to take: {', '.join(Route)}."
    ),
]
PortOption = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to serve on. Default: 8000.")
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        help="A published system: ea-graphrag, linearrag, clue-rag or zoom-rag. Default: "
        "WYE_PRESET, or Wye's own settings."
    ),
]
QuestionArgument = Annotated[
    str, typer.Argument(metavar="QUESTION", help="Question, or - for one per input line.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; same result, same bytes.")]
FilterOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILTER",
        help="Metadata filter: year<1850, topic=bridges and year>=1800, or JSON as over HTTP.",
    ),
]


KEY = "WYE_KEY"  # variable with the API key for a server, as in `wye.router.settings`


def folder_of(settings: "Settings") -> Path:
    """The folder of the index that a command works on, or a `ServiceError` if none is named."""
    if settings.index is None:
        raise ServiceError("Which index? Give --index DIR, or set WYE_INDEX.")
    return settings.index


def questions_of(argument: str) -> list[str]:
    """The question, or for "-" the lines of standard input that are not blank."""
    from wye.backends.text import is_blank  # noqa: PLC0415 - `wye --help` needs none of it

    if argument != "-":
        return [argument]
    try:
        lines = [line.strip() for line in sys.stdin if not is_blank(line)]
    except UnicodeDecodeError as error:
        raise ServiceError(f"Standard input is not UTF-8 ({error}); convert it.") from None
    if not lines:
        raise ServiceError("There is no question on standard input; write one per line.")
    return lines
