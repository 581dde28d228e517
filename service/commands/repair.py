"""`wye repair`: repair a damaged index."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.service.commands.options import JsonOption, folder_of
from wye.service.terminal import output, say

if TYPE_CHECKING:
    from wye.backends.store.repair import Repair

SHOWN = 20
TO_DO = 1


def repair(
    index: Annotated[
        Path | None,
        typer.Argument(metavar="INDEX", help="Folder of the index. Default: WYE_INDEX."),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Repair; otherwise only report.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Report what is damaged in an index and what can be saved; with --yes, save it.

    Every file is read and compared with what was committed. The index continues from its last
    intact version, or from the newest without its damaged parts, whichever has more passages.
    Damaged files are moved into the index's folder `damaged`; nothing is deleted. Exits with code 1
    if there is something to repair and --yes is missing, and with 2 if nothing can be saved.
    """
    from dataclasses import asdict

    from wye.backends.files import plain, rounded_json
    from wye.backends.store.repair import repair as mend
    from wye.service.settings import load_settings

    folder = folder_of(load_settings(index=index))
    plan = mend(folder, dry_run=not yes)
    if as_json:
        typer.echo(rounded_json({**plain(asdict(plan)), "done": yes and bool(plan.damage)}))
    else:
        lines = _lines(folder, plan, is_applied=yes)
        output().print("\n".join(lines), markup=False, highlight=False)
    if plan.unlocked:
        say(
            f"The index could not be locked ({plan.unlocked}), so what another process is just "
            "writing may look like damage."
        )
    if plan.damage and not yes:
        raise typer.Exit(TO_DO)


def _lines(folder: Path, plan: "Repair", *, is_applied: bool) -> list[str]:
    if not plan.damage:
        return [f"{folder} is sound: version {plan.version}, {plan.passages:,} passages."]
    verb = "went" if is_applied else "would go"
    condition = " without what is damaged" if plan.without else ""
    lines = [
        *_listing(plan.damage),
        f"The index {verb} on from version {plan.version}{condition}: {plan.passages:,} passages.",
    ]
    if plan.lost:
        lines.append("Lost, or back at an earlier state, if they were not deleted before:")
        lines += _listing(plan.lost)
    if not plan.is_all:
        lines.append("What else was written or deleted after that is unknown.")
    if not plan.lost and plan.is_all:
        lines.append("No document is lost.")
    files = f"{len(plan.aside):,} file{'s' * (len(plan.aside) != 1)}"
    if is_applied:
        lines.append(f"Set aside in {plan.folder}: {files}.")
    else:
        lines.append(f"To be set aside in {plan.folder.parent}: {files}. Do it with --yes.")
    return lines


def _listing(items: tuple[str, ...]) -> list[str]:
    suffix = [f"  and {len(items) - SHOWN:,} more"] if len(items) > SHOWN else []
    return [*(f"  {item}" for item in items[:SHOWN]), *suffix]
