"""`wye doctor`: check everything that serving needs."""

import typer
from rich.text import Text

from wye.service.commands.options import (
    IndexesOption,
    JsonOption,
    PortOption,
    RoutersOption,
    ServedArmsOption,
    ThresholdsOption,
)
from wye.service.terminal import messages, output

FAILED = 1
_MARKS = {"good": "ok     ", "warning": "warning", "bad": "BAD    "}


def doctor(
    *,
    index: IndexesOption = None,
    router: RoutersOption = None,
    thresholds: ThresholdsOption = None,
    port: PortOption = None,
    arms: ServedArmsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check models, router, indexes, keys, address, generator and remote arms; say what to fix.

    Remote arms that cost nothing are asked a question.

    Exits with code 1 if something would keep `wye serve` from working.
    """
    from dataclasses import replace

    from wye.backends.files import plain, rounded_json
    from wye.service.arms.file import settings_with_arms
    from wye.service.doctor import Health, examine

    settings = settings_with_arms(arms)
    own = settings.serve
    serve = replace(
        own,
        indexes=tuple(index or own.indexes),
        routers=tuple(router or own.routers),
        thresholds=tuple(thresholds or own.thresholds),
        port=own.port if port is None else port,
    )
    settings = settings.model_copy(update={"serve": serve})
    found = []
    with messages().status("Looking"):
        for finding in examine(settings):
            found.append(finding)
            if not as_json:
                line = Text(f"{_MARKS[finding.state.value]}  {finding.subject}: ", style="bold")
                output().print(line + Text(finding.says, style="not bold"), soft_wrap=True)
    if as_json:
        typer.echo(rounded_json([plain(finding) for finding in found]))
    if any(finding.state == Health.BAD for finding in found):
        raise typer.Exit(FAILED)
