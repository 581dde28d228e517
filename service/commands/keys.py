"""`wye keys`: make API keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.errors import ServiceError
from service.terminal import say

if TYPE_CHECKING:
    from service.http.keys import Scope

keys = typer.Typer(help="Make API keys for `wye serve`.", no_args_is_help=True)


@keys.command(epilog="Example: wye keys new --scopes read,write --file keys.txt")
def new(
    *,
    name: Annotated[
        str, typer.Option("--name", help="Whose key it is; for logs and rate limits.")
    ] = "default",
    scopes: Annotated[
        str, typer.Option("--scopes", help="What it may do: read, write, admin, with commas.")
    ] = "read",
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection",
            help="See this collection only; give it again for more.",
            show_default=False,
        ),
    ] = None,
    filter: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            "--filter",
            help="See only passages that this metadata filter (JSON) lets through. Such a key "
            "only reads.",
            show_default=False,
        ),
    ] = None,
    max_cost_per_day: Annotated[
        float | None,
        typer.Option(
            "--max-cost-per-day",
            help="Most that its questions may cost in remote arms, from midnight to midnight UTC.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Add its hash to this file.", show_default=False),
    ] = None,
) -> None:
    """Make a key. It is printed once and never stored; only its hash is.

    To withdraw the key, delete its line from the file; a running server follows.
    """
    from service.commands.options import parse_filter_option
    from service.http.keys import append_key, new_key

    bound = collections or (), parse_filter_option(filter), max_cost_per_day
    secret, key = new_key(name, _scopes(scopes), *bound)
    if file is not None:
        append_key(file, key)
        say(f"Added '{key.name}' to {file}. Serve with WYE_SERVE__KEYS_FILE={file}.")
    else:
        say(f"Put this line into the file of WYE_SERVE__KEYS_FILE, or into WYE_SERVE__KEYS:\n{key}")
    typer.echo(secret)


def _scopes(text: str) -> list["Scope"]:
    from service.http.keys import Scope

    found = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in found if part not in {*map(str, Scope)}]
    if unknown:
        raise ServiceError(f"There is no scope '{unknown[0]}'; name some of {', '.join(Scope)}.")
    return [Scope(part) for part in found]
