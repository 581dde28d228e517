"""`wye route`: which route questions would take, and why."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from wye.service.commands.options import (
    IndexOption,
    JsonOption,
    LatencyOption,
    PointOption,
    PresetOption,
    QuestionArgument,
    questions_of,
)
from wye.service.terminal import messages, output


def route(
    question: QuestionArgument,
    *,
    index: IndexOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each feature adds to the score.")
    ] = False,
    max_latency_ms: LatencyOption = None,
    point: PointOption = "",
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
    params: dict[str, Any] = {"explain": explain, "point": point}
    settings = load_settings(index=index, preset=preset)
    with messages().status("Loading the models"):
        if settings.router.route != Route.AUTO:
            forced = Decision(Route(settings.router.route), None, None, None, FORCED)
            decisions = [forced] * len(questions)
        elif settings.index is None:
            if settings.router.model == DEFAULT_ROUTER:
                routing = replace(settings.router, model=SYNTAX_ROUTER)
                settings = settings.model_copy(update={"router": routing})
            with ModelCache() as models:
                decisions = decide_without_index(
                    questions,
                    models.analyser(settings.analyser),
                    open_router(settings, models),
                    Ask(max_latency_ms=max_latency_ms, **params),
                )
        else:
            with wye.open(settings.index, settings=settings) as opened:
                decisions = opened.route_many(questions, max_latency_ms=max_latency_ms, **params)
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
