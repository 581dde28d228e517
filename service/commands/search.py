"""`wye search`: ask an index."""

from time import perf_counter
from typing import Annotated

import typer

from service.commands.options import (
    FilterOption,
    IndexOption,
    JsonOption,
    LatencyOption,
    PointOption,
    QuestionArgument,
    RouteOption,
    folder_of,
    parse_filter_option,
    questions_of,
)
from service.errors import ServiceError
from service.terminal import messages, output, say

LOADING_SECONDS = 1.0
"""From here on it is worth saying what took so long."""


def search(
    question: QuestionArgument,
    *,
    index: IndexOption = None,
    route: RouteOption = "auto",
    k: Annotated[int, typer.Option("-k", "--top-k", help="Passages to show.")] = 5,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    max_latency_ms: LatencyOption = None,
    min_relevance: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Leave out what is less likely to be relevant."),
    ] = 0.0,
    point: PointOption = "",
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

    started = perf_counter()
    questions = questions_of(question)
    filter_ = parse_filter_option(filter)
    settings = load_settings(index=index)
    folder = folder_of(settings)
    with messages().status("Opening the index"), wye.open(folder, settings=settings) as opened:
        found = opened.search_many(
            questions,
            k=k,
            route=route,
            filter=filter_,
            max_latency_ms=max_latency_ms,
            min_relevance=min_relevance,
            explain=explain,
            point=point,
        )
    if any(hits.degraded == EMPTY_INDEX for hits in found):
        raise ServiceError(
            opened.fault or f"Index {folder} is empty. Fill it with `wye index SOURCE --index DIR`."
        )
    if opened.fault:
        say(opened.fault)
    if as_json:
        typer.echo(hits_json(found, explain=explain))
        return
    console = output()
    for hits in found:
        show_hits(console, hits, explain=explain)
    taken = perf_counter() - started
    loading = taken - sum(sum(hits.seconds.values()) for hits in found)
    hint = "; `wye serve` loads the models once" if loading > LOADING_SECONDS else ""
    say(f"{taken:.1f} s in all{hint}.")
