"""The `wye` command: its subcommands and the handling of their errors."""

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperArgument, TyperOption

from wye.backends.errors import BackendError
from wye.featurizer.errors import EXTRAS, FeaturizerError, how_to_install
from wye.router.errors import RouterError
from wye.service.commands.contents import delete, info, repair
from wye.service.commands.demo import demo
from wye.service.commands.index import index
from wye.service.commands.search import route, search
from wye.service.commands.serve import keys, mcp, serve
from wye.service.errors import ServiceError
from wye.service.terminal import Bar, say

if TYPE_CHECKING:
    from wye.router.remote import RemoteAsker

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
    serve: "wye serve --index my-index",
    mcp: "wye mcp --index my-index",
    repair: "wye repair my-index",
    demo: "wye demo",
}
"""Commands, each with an example."""

_KINDS: Mapping[type, str] = {bool: "", int: "N", float: "NUMBER"}


def _kind(self: TyperOption, ctx: Any) -> str:  # noqa: ANN401, ARG001 - as Typer calls it
    """The placeholder for an option's value in a help text, instead of a Python type."""
    if self.metavar is not None:
        return self.metavar
    kind = self.type_descriptor.annotation
    kind = (get_args(kind) or (kind,))[0]
    return _KINDS.get(kind, "PATH" if kind is Path else "TEXT")


def _nothing(self: object, ctx: Any = None) -> None:  # noqa: ANN401 - as Typer calls it
    """Hide the type of an argument and the range of a number in help texts."""


TyperOption.display_type_rich = _kind  # type: ignore[method-assign]
TyperArgument.display_type_rich = _nothing  # type: ignore[method-assign]
TyperOption._get_number_range_help_str = _nothing  # type: ignore[method-assign]


def build(arguments: Sequence[str] = ()) -> tuple[typer.Typer, Errors]:
    """Build the app, and collect the errors that the user can correct.

    Further commands come from the entry points of the group "wye.commands". Such a function takes
    the app, the class of progress bars and `open_remote`, and returns its base error. Looking for
    entry points takes a tenth of a second, so it is skipped if the arguments name a command of
    this package.
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
    ours = BackendError, FeaturizerError, RouterError, ServiceError
    errors: list[type[Exception]] = [*ours, MemoryError]
    names = {*(command.__name__ for command in COMMANDS), "keys"}
    if next((word for word in arguments if not word.startswith("-")), "") not in names:
        from importlib.metadata import entry_points  # noqa: PLC0415

        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            errors.append(point.load()(app, Bar, open_remote))
    return app, tuple(errors)


def open_remote(path: Path) -> "AbstractContextManager[RemoteAsker]":
    """Open remote arms; see `wye.service.arms.file.open_arms`."""
    from wye.service.arms.file import open_arms  # noqa: PLC0415 - few commands need it

    return open_arms(path)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default with the process' arguments, and return the exit code.

    That is 0 for success, 2 for a user's mistake or a file that cannot be read or written, 130
    after Ctrl-C, otherwise that of the command.
    """
    app, errors = build(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, prog_name="wye")
    except errors as error:
        fault = str(error) or "There is not enough memory for this."
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        fault = f"{error.name} is not installed; {how_to_install(EXTRAS[error.name])}."
    except OSError as error:
        reason = error.strerror or str(error).partition(", /")[0]  # without Lance's source line
        subject = f"{error.filename} cannot be read or written: " if error.filename else ""
        fault = f"{subject}{reason}. Check the permissions and the free space on the disk. "
        fault += "What was committed is kept."
    except SystemExit as end:  # Typer raises it at the end, for bad arguments and after Ctrl-C
        code = end.code if isinstance(end.code, int) else 0
        if code == INTERRUPTED:
            say("Interrupted. What was committed is kept, and the same command goes on from there.")
        return code
    else:
        return 0
    say(f"Error: {fault}")
    return USER_ERROR


def main() -> None:
    """Entry point of the `wye` script."""
    code = run()
    if code == INTERRUPTED:  # do not wait for threads: everything is committed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    gc.freeze()  # ending takes a tenth of a second less if Python looks for no garbage once more
    sys.exit(code)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(version("wye"))
        raise typer.Exit


def _options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Options of `wye` that come before a command."""
