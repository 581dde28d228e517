"""`wye search`: ask an index."""

from typing import Annotated

import typer

from router.types import Route
from service.commands.options import (
    FilterOption,
    IndexOption,
    JsonOption,
    folder_of,
    parse_json,
    questions_of,
)
from service.errors import ServiceError
from service.terminal import messages, output


def search(
    question: Annotated[
        str, typer.Argument(help="What to ask; - reads one question a line.", show_default=False)
    ],
    *,
    index: IndexOption = None,
    route: Annotated[Route, typer.Option(help="Which arm answers, or fusion, or auto.")] = (
        Route.AUTO
    ),
    k: Annotated[int, typer.Option("-k", help="Passages to show.")] = 5,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    max_latency_ms: Annotated[
        float | None,
        typer.Option(
            help="Most milliseconds for an answer, where the router chooses.", show_default=False
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say how route and ranking came about."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find passages for a question."""
    from router.gateway import EMPTY_INDEX, check
    from router.session import Session
    from service.render import replies_json, show_reply
    from service.settings import load_settings

    questions = questions_of(question)
    check(questions, k)
    filter_ = parse_json(filter)
    settings = load_settings(index=index)
    with (
        messages().status("Opening the index"),
        Session.open(settings, folder_of(settings)) as session,
    ):
        replies = session.gateway.search(
            questions, route, k, filter_, max_latency_ms=max_latency_ms, explain=explain
        )
    if any(reply.ranking.degraded == EMPTY_INDEX for reply in replies):
        raise ServiceError(
            f"Index {folder_of(settings)} is empty. Fill it with `wye index SOURCE --index DIR`."
        )
    ids = sorted({hit.id for reply in replies for hit in reply.ranking.hits})
    passages = {passage.id: passage for passage in session.index.fetch(ids)}
    if as_json:
        typer.echo(replies_json(replies, passages))
        return
    console = output()
    for reply in replies:
        show_reply(console, reply, passages)
