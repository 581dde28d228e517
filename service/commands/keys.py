"""`wye keys`: make API keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.service.errors import ServiceError
from wye.service.terminal import say

if TYPE_CHECKING:
    from wye.service.http.edge import Scope

keys = typer.Typer(help="Make API keys for `wye serve`.", no_args_is_help=True)


@keys.command(epilog="Example: wye keys new --scopes read,write --file keys.txt")
def new(
    *,
    name: Annotated[
        str, typer.Option(help="Name of the key, for logs and rate limits.")
    ] = "default",
    scopes: Annotated[
        str, typer.Option(help="Scopes, separated by commas: read, write, admin.")
    ] = "read",
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", help="Collection that the key is limited to. May be repeated."
        ),
    ] = None,
    filter: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            help="Metadata filter, as in acl=public: the key sees only what it lets through, and "
            "cannot write.",
        ),
    ] = None,
    max_cost_per_day: Annotated[
        float | None,
        typer.Option(
            help="Daily limit (UTC) on what its questions may cost in remote arms.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="File to add the key's hash to."),
    ] = None,
) -> None:
    """Make a key. It is printed once; only its hash is stored.

    To revoke a key, remove its line from the file; a running server follows.
    """
    from wye.backends.filters import as_json
    from wye.service.http.keys import append_key, new_key

    bound = collections or (), as_json(filter), max_cost_per_day
    secret, key = new_key(name, _scopes(scopes), *bound)
    if file is not None:
        append_key(file, key)
        say(f"Added '{key.name}' to {file}. Serve with WYE_SERVE__KEYS_FILE={file}.")
    else:
        say(f"Put this line into the file of WYE_SERVE__KEYS_FILE, or into WYE_SERVE__KEYS:\n{key}")
    typer.echo(secret)


def _scopes(text: str) -> list["Scope"]:
    from wye.service.http.edge import Scope

    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in {*map(str, Scope)}]
    if unknown:
        raise ServiceError(f"There is no scope '{unknown[0]}'; use some of {', '.join(Scope)}.")
    return [Scope(name) for name in names]
