"""`wye search` and `wye route`: ask an index, or only see which route a question would take."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Annotated, Any

import typer

from wye.service.errors import ServiceError
from wye.service.terminal import (
    KEY,
    FilterOption,
    IndexOption,
    JsonOption,
    PresetOption,
    QuestionArgument,
    RouteOption,
    folder_of,
    messages,
    output,
    questions_of,
    say,
)

_TIMEOUT = 120.0
LOADING_SECONDS = 1.0  # if loading took longer than this, the command says how to avoid it
LOADED_ONCE = "; `wye serve` loads once, and --url asks it"


def search(
    question: QuestionArgument,
    *,
    index: IndexOption = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="URL of a running `wye serve` to ask, with the API key in WYE_KEY, if set. No "
            "model is loaded here, and --json prints its replies, explanations included."
        ),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Collection of that server. Default: its only one.")
    ] = None,
    route: RouteOption = "auto",
    k: Annotated[int, typer.Option("-k", "--top-k", help="Number of passages to show.")] = 5,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    min_relevance: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Omit passages less likely to be relevant than this."),
    ] = 0.0,
    preset: PresetOption = None,
    duplicates: Annotated[str, typer.Option(help="`keep` near-duplicates in place.")] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the route and the ranking.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find passages for a question."""
    if url is not None and index is not None:
        raise ServiceError("Give --url or --index, not both.")
    started = perf_counter()
    questions = questions_of(question)
    params: dict[str, Any] = {"k": k, "route": route, "filter": filter, "explain": explain}
    params |= {"min_relevance": min_relevance, "duplicates": duplicates}
    if url is not None:
        params["collection"] = collection
        _ask_server(url, questions, params, as_json=as_json)
        return
    import wye
    from wye.router.gateway import EMPTY_INDEX
    from wye.service.render import hits_json, show_hits
    from wye.service.settings import load_settings

    settings = load_settings(index=index, preset=preset)
    folder = folder_of(settings)
    with messages().status("Opening the index"), wye.open(folder, settings=settings) as opened:
        if not as_json:  # load what this route needs, so that the times shown are those of searches
            opened.search_many(questions[:1], **params)
        loading = perf_counter() - started
        replies = opened.search_many(questions, **params)
    if any(hits.degraded == EMPTY_INDEX for hits in replies):
        raise ServiceError(
            opened.fault or f"Index {folder} is empty. Fill it with `wye index SOURCE --index DIR`."
        )
    if opened.fault:
        say(opened.fault)
    if as_json:
        typer.echo(hits_json(replies, explain=explain))
        return
    console = output()
    for hits in replies:
        show_hits(console, hits, explain=explain)
    hint = LOADED_ONCE if loading > LOADING_SECONDS else ""
    say(f"Loading took {loading:.1f} s{hint}.")


def _ask_server(
    url: str, questions: Sequence[str], params: Mapping[str, object], *, as_json: bool
) -> None:
    """Print what a running `wye serve` replies; `params` go with each question."""
    from wye.backends.files import rounded_json

    address = f"{url.rstrip('/')}/v1/retrieve"
    replies = [_post(address, {"question": text, **params}) for text in questions]
    if as_json:
        typer.echo(rounded_json(replies))
        return
    from wye.service.render import show_reply

    for reply in replies:
        try:
            show_reply(output(), reply)
        except (KeyError, TypeError) as error:
            raise ServiceError(
                f"{address} answered, but not as this version's `wye serve` does (see {error})."
            ) from None


def _post(url: str, body: Mapping[str, object]) -> dict[str, Any]:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"content-type": "application/json"}
    if key := os.environ.get(KEY):
        headers["authorization"] = f"Bearer {key}"
    try:
        request = Request(url, json.dumps(body).encode(), headers)
        with urlopen(request, timeout=_TIMEOUT) as response:
            reply: dict[str, Any] = json.load(response)
            return reply
    except HTTPError as error:
        try:
            reason = str(json.load(error)["detail"])
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            reason = str(error.reason)
        raise ServiceError(f"{url} answered {error.code}: {reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise ServiceError(
            f"No `wye serve` answers at {url} ({cause}). Start it, or give --index DIR."
        ) from None


def route(
    question: QuestionArgument,
    *,
    index: IndexOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each feature adds to the score.")
    ] = False,
    preset: PresetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which route a question takes, without answering it.

    Without an index, a router decides that looks at the question's syntax alone.
    """
    from rich.text import Text

    import wye
    from wye.backends.files import plain, rounded_json
    from wye.router.gateway import check
    from wye.router.policy import FORCED
    from wye.router.session import ModelCache, decide_without_index, open_router
    from wye.router.settings import DEFAULT_ROUTER, SYNTAX_ROUTER
    from wye.router.types import Ask, Decision, Route
    from wye.service.render import decision_value, show_decision, show_plan
    from wye.service.settings import load_settings

    questions = questions_of(question)
    check(questions, k=1)
    settings = load_settings(index=index, preset=preset)
    with messages().status("Loading the models"):
        if settings.router.route != Route.AUTO:
            forced = Decision(Route(settings.router.route), None, None, None, FORCED)
            decisions = [forced] * len(questions)
        elif settings.index is None:
            if settings.router.model == DEFAULT_ROUTER:
                routing = replace(settings.router, model=SYNTAX_ROUTER)
                settings = settings.model_copy(update={"router": routing})
            ask = Ask(explain=explain)
            with ModelCache() as models:
                analyser, router = models.analyser(settings.analyser), open_router(settings, models)
                decisions = decide_without_index(questions, analyser, router, ask)
        else:
            with wye.open(settings.index, settings=settings) as opened:
                decisions = opened.route_many(questions, explain=explain)
    if as_json:
        values = [plain(decision_value(decision, explain=explain)) for decision in decisions]
        rows = zip(questions, values, strict=True)
        typer.echo(rounded_json([{"question": text, "decision": value} for text, value in rows]))
        return
    console = output()
    for text, decision in zip(questions, decisions, strict=True):
        console.print(Text(text, style="bold"))
        show_decision(console, decision)
        show_plan(console, text, decision.plan)
        console.print()
