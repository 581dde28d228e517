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
    import wye
    from router.gateway import EMPTY_INDEX
    from service.render import hits_json, show_hits
    from service.settings import load_settings

    questions = questions_of(question)
    filter_ = parse_json(filter)
    settings = load_settings(index=index)
    folder = folder_of(settings)
    with messages().status("Opening the index"), wye.open(folder, settings=settings) as opened:
        found = opened.search_many(
            questions,
            k=k,
            route=route,
            filter=filter_,
            max_latency_ms=max_latency_ms,
            explain=explain,
        )
    if any(hits.degraded == EMPTY_INDEX for hits in found):
        raise ServiceError(f"Index {folder} is empty. Fill it with `wye index SOURCE --index DIR`.")
    if as_json:
        typer.echo(hits_json(found))
        return
    console = output()
    for hits in found:
        show_hits(console, hits)
