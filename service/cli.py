"""The `wye` command: what commands there are, and what becomes of their errors."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperArgument, TyperOption

from backends.errors import BackendError
from featurizer.errors import FeaturizerError
from router.errors import RouterError
from service.commands.delete import delete
from service.commands.demo import demo
from service.commands.doctor import doctor
from service.commands.features import features
from service.commands.index import index
from service.commands.info import info
from service.commands.keys import keys
from service.commands.mcp import mcp
from service.commands.migrate import migrate
from service.commands.repair import repair
from service.commands.route import route
from service.commands.search import search
from service.commands.serve import serve
from service.errors import ServiceError
from service.terminal import Bar, say

if TYPE_CHECKING:
    from router.remote_arms import RemoteAsker

GROUP = "wye.commands"
USER_ERROR = 2
INTERRUPTED = 130

Errors = tuple[type[Exception], ...]

COMMANDS: Mapping[Callable[..., None], str] = {
    index: "wye index my-corpus --index my-index",
    delete: "wye delete --document tower.txt --index my-index --dry-run",
    info: "wye info --index my-index",
    search: 'wye search "Who designed the Iron Bridge?" --index demo-index',
    route: 'wye route "Who designed the Iron Bridge?" --index demo-index',
    features: 'wye features "Who designed the Iron Bridge?"',
    serve: "wye serve --index my-index",
    mcp: "wye mcp --index my-index",
    doctor: "wye doctor --index my-index",
    repair: "wye repair my-index",
    migrate: "wye migrate --index my-index",
    demo: "wye demo",
}
"""Each with an example."""

_KINDS: Mapping[type, str] = {bool: "", int: "N", float: "NUMBER"}


def _kind(self: TyperOption, ctx: Any) -> str:  # noqa: ANN401, ARG001 - as Typer calls it
    """What an option takes, for people: they know nothing of Python's types."""
    if self.metavar is not None:
        return self.metavar
    kind = self.type_descriptor.annotation
    kind = (get_args(kind) or (kind,))[0]
    return _KINDS.get(kind, "PATH" if kind is Path else "TEXT")


def _nothing(self: object, ctx: Any = None) -> None:  # noqa: ANN401 - as Typer calls it
    """Stands for the type of an argument, and for the range of a number."""


TyperOption.display_type_rich = _kind  # type: ignore[method-assign]
TyperArgument.display_type_rich = _nothing  # type: ignore[method-assign]
TyperOption._get_number_range_help_str = _nothing  # type: ignore[method-assign]


def build(arguments: Sequence[str] = ()) -> tuple[typer.Typer, Errors]:
    """The commands, and the errors that are the user's to put right.

    Further commands come from the entry points of the group "wye.commands": functions that are
    given the app, something to make progress bars with and what reads files of remote arms, and
    return their base error. To look for them takes a tenth of a second, so they are left out where
    the arguments name another one.
    """
    app = typer.Typer(
        help="One endpoint for mixed-difficulty questions over a text corpus.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command, example in COMMANDS.items():
        app.command(epilog=f"Example: {example}")(command)
    app.add_typer(keys, name="keys")
    errors: list[type[Exception]] = [BackendError, FeaturizerError, RouterError, ServiceError]
    own = {*(command.__name__ for command in COMMANDS), "keys"}
    if next((word for word in arguments if not word.startswith("-")), "") not in own:
        from importlib.metadata import entry_points  # noqa: PLC0415

        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            errors.append(point.load()(app, Bar, open_remote))
    return app, tuple(errors)


def open_remote(path: Path, *, collection: str, has_index: bool) -> "RemoteAsker":
    """The arms of a collection of an arms file, for commands that ask many questions.

    Raises:
        ServiceError: The file is not sound, or has no arms for this collection.
    """
    from service.arms.local import open_arms  # noqa: PLC0415 - few commands need it

    return open_arms(path, collection=collection, has_index=has_index)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the process's own arguments by default.

    Returns:
        Exit code: 0 for success, 2 for a mistake of the user, 130 after Ctrl-C, otherwise what
        the command says.
    """
    app, errors = build(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, prog_name="wye")
    except errors as error:
        say(f"Error: {error}")
        return USER_ERROR
    except SystemExit as end:  # how Typer ends a command, refuses its arguments, and obeys Ctrl-C
        code = end.code if isinstance(end.code, int) else 0
        if code == INTERRUPTED:
            say("Interrupted. All that was committed is kept; the same command does the rest.")
        return code
    return 0


def main() -> None:
    """Entry point of the `wye` script."""
    code = run()
    if code == INTERRUPTED:  # what threads still compute is for nothing: all is committed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(version("wye"))
        raise typer.Exit


def _options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """What `wye` takes before the name of a command."""
