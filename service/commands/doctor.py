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
    """Check models, router, indexes, keys, address and arms file, and say what to fix.

    Exits with code 1 if something would keep `wye serve` from working.
    """
    from dataclasses import replace

    from wye.backends.files import plain, rounded_json
    from wye.service.arms.file import settings_with_arms
    from wye.service.doctor import Health, examine

    settings = settings_with_arms(arms)
    base = settings.serve
    serve = replace(
        base,
        indexes=tuple(index or base.indexes),
        routers=tuple(router or base.routers),
        thresholds=tuple(thresholds or base.thresholds),
        port=base.port if port is None else port,
    )
    settings = settings.model_copy(update={"serve": serve})
    findings = []
    with messages().status("Looking"):
        for finding in examine(settings):
            findings.append(finding)
            if not as_json:
                line = Text(f"{_MARKS[finding.state.value]}  {finding.subject}: ", style="bold")
                output().print(line + Text(finding.says, style="not bold"), soft_wrap=True)
    if as_json:
        typer.echo(rounded_json([plain(finding) for finding in findings]))
    if any(finding.state == Health.BAD for finding in findings):
        raise typer.Exit(FAILED)
