"""`wye search`: ask an index."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.options import (
    ArmsOption,
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

if TYPE_CHECKING:
    import wye

LOADING_SECONDS = 1.0
"""From here on it is worth saying what took so long."""
LOADED_ONCE = "; `wye serve` loads the models once, and --url asks it"


def search(
    question: QuestionArgument,
    *,
    index: IndexOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="A running `wye serve` to ask, with the API key in WYE_KEY, if it has any. "
            "Nothing is loaded here then, and --json prints its replies.",
            show_default=False,
        ),
    ] = None,
    arms: ArmsOption = None,
    collection: Annotated[
        str | None,
        typer.Option(help="Of that server; its only one by default.", show_default=False),
    ] = None,
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
    if url is not None:
        if index is not None:
            raise ServiceError("Give --url or --index, not both: a question has one place to go.")
        params = {
            "route": route,
            "k": k,
            "filter": parse_filter_option(filter),
            "max_latency_ms": max_latency_ms,
            "min_relevance": min_relevance,
            "point": point,
            "explain": explain,
            "collection": collection,
        }
        _ask_server(url, questions_of(question), params, as_json=as_json)
        return
    import wye
    from router.gateway import EMPTY_INDEX
    from service.settings import load_settings

    started = perf_counter()
    questions = questions_of(question)
    filter_ = parse_filter_option(filter)
    settings = load_settings(index=index)
    if arms is not None:
        if index is not None or min_relevance:
            raise ServiceError(
                "With --arms, where there is no index, leave --index and --min-relevance out."
            )
        from service.arms.local import open_search

        with open_search(arms, settings) as remote:
            answers = [
                remote.search(
                    text,
                    k=k,
                    route=route,
                    filter=filter_,
                    max_latency_ms=max_latency_ms,
                    explain=explain,
                    point=point,
                )
                for text in questions
            ]
        _show(answers, explain=explain, as_json=as_json)
        return
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
    _show(found, explain=explain, as_json=as_json)
    if as_json:
        return
    taken = perf_counter() - started
    loading = taken - sum(sum(hits.seconds.values()) for hits in found)
    hint = LOADED_ONCE if loading > LOADING_SECONDS else ""
    say(f"{taken:.1f} s in all{hint}.")


def _show(found: "Sequence[wye.Hits]", *, explain: bool, as_json: bool) -> None:
    from service.render import hits_json, show_hits

    if as_json:
        typer.echo(hits_json(found, explain=explain))
        return
    console = output()
    for hits in found:
        show_hits(console, hits, explain=explain)


def _ask_server(
    url: str, questions: Sequence[str], params: Mapping[str, object], *, as_json: bool
) -> None:
    from backends.files import rounded_json
    from service.remote import retrieve, show

    replies = retrieve(url, questions, params)
    if as_json:
        typer.echo(rounded_json(replies))
        return
    console = output()
    for reply in replies:
        show(console, reply)
