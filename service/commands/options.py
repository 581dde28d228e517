"""Options that several commands share, and how their values are read."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.router.routes import Route
from wye.service.errors import ServiceError

if TYPE_CHECKING:
    from wye.router.settings import Settings

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


KEY = "WYE_KEY"
"""Variable with the API key for a server, as in `wye.router.settings`, which takes .3 s to load."""


def folder_of(settings: "Settings") -> Path:
    """The folder of the index that a command works on, or a `ServiceError` if none is named."""
    if settings.index is None:
        raise ServiceError("Which index? Give --index DIR, or set WYE_INDEX.")
    return settings.index


def questions_of(argument: str) -> list[str]:
    """The question, or for "-" the lines of standard input that are not blank."""
    from wye.backends.text import is_blank

    if argument != "-":
        return [argument]
    try:
        lines = [line.strip() for line in sys.stdin if not is_blank(line)]
    except UnicodeDecodeError as error:
        raise ServiceError(f"Standard input is not UTF-8 ({error}); convert it.") from None
    if not lines:
        raise ServiceError("There is no question on standard input; write one per line.")
    return lines
