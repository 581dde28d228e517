"""Options that several commands have, and what is behind them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.errors import ServiceError

if TYPE_CHECKING:
    from router.settings import Settings

IndexOption = Annotated[
    Path | None,
    typer.Option("--index", help="Folder of the index. Default: WYE_INDEX.", show_default=False),
]
IndexesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="[NAME=]DIR",
        help="Index to serve, for several with names. Default: WYE_SERVE__INDEXES or WYE_INDEX.",
        show_default=False,
    ),
]
RoutersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--router",
        metavar="[NAME=]MODEL",
        help="Router of a collection, as name/version or a folder. Default: WYE_SERVE__ROUTERS or "
        "WYE_ROUTER__MODEL.",
        show_default=False,
    ),
]
ThresholdsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--thresholds",
        metavar="[NAME=]FILE",
        help="Thresholds of a collection, as `wye tune` writes them; followed when they change. "
        "Default: WYE_SERVE__THRESHOLDS or WYE_ROUTER__THRESHOLDS.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, the same bytes every time.")]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help='Metadata filter, as in {"type": "eq", "key": "year", "value": 1887}.',
        show_default=False,
    ),
]


def folder_of(settings: "Settings") -> Path:
    """The index a command is about.

    Raises:
        ServiceError: Nobody said.
    """
    if settings.index is None:
        raise ServiceError("Which index? Give --index DIR, or set WYE_INDEX.")
    return settings.index


def parse_json(text: str | None) -> object | None:
    """A filter as given on the command line.

    Raises:
        ServiceError: It is not JSON.
    """
    if text is None:
        return None
    try:
        parsed: object = json.loads(text)
    except ValueError as error:
        raise ServiceError(
            f"--filter is not JSON ({error}); write it like "
            '{"type": "eq", "key": "year", "value": 1887}, in single quotes for the shell.'
        ) from None
    return parsed


def questions_of(argument: str) -> list[str]:
    """The question, or those that stand on standard input, without blank lines.

    Raises:
        ServiceError: There is none on standard input.
    """
    if argument != "-":
        return [argument]
    found = [line.strip() for line in sys.stdin if line.strip()]
    if not found:
        raise ServiceError("There is no question on standard input; write one a line.")
    return found
