"""`wye search`: ask an index."""

import sys
from typing import Annotated

import typer

from router.types import Route
from service.commands.options import (
    FilterOption,
    IndexOption,
    JsonOption,
    folder_of,
    parse_json,
)
from service.errors import ServiceError
from service.terminal import messages, output


def search(
    question: Annotated[
        str, typer.Argument(help="What to ask; - reads one question a line.", show_default=False)
    ],
    *,
    index: IndexOption = None,
    route: Annotated[Route, typer.Option(help="Which arm answers, or all of them fused.")] = (
        Route.FUSION
    ),
    k: Annotated[int, typer.Option("-k", help="Passages to show.")] = 5,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how the graph came to its ranking.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find passages for a question."""
    from router.container import Container
    from router.gateway import EMPTY_INDEX, check
    from service.render import replies_json, show_reply
    from service.settings import load_settings

    questions = _questions(question)
    check(questions, k)
    filter_ = parse_json(filter)
    settings = load_settings(index=index)
    container = Container(settings, folder_of(settings))
    try:
        with messages().status("Opening the index"):
            replies = container.gateway.search(questions, route, k, filter_, explain=explain)
    finally:
        container.close()
    if any(reply.ranking.degraded == EMPTY_INDEX for reply in replies):
        raise ServiceError(
            f"Index {folder_of(settings)} is empty. Fill it with `wye index SOURCE --index DIR`."
        )
    ids = sorted({hit.id for reply in replies for hit in reply.ranking.hits})
    passages = {passage.id: passage for passage in container.index.fetch(ids)}
    if as_json:
        typer.echo(replies_json(replies, passages))
        return
    console = output()
    for reply in replies:
        show_reply(console, reply, passages)


def _questions(argument: str) -> list[str]:
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
