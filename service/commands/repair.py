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
    found = mend(folder, dry_run=not yes)
    if as_json:
        typer.echo(rounded_json({**plain(asdict(found)), "done": yes and bool(found.damage)}))
    else:
        output().print("\n".join(_said(folder, found, done=yes)), markup=False, highlight=False)
    if found.unlocked:
        say(
            f"The index could not be locked ({found.unlocked}), so what another process is just "
            "writing may look like damage."
        )
    if found.damage and not yes:
        raise typer.Exit(TO_DO)


def _said(folder: Path, found: "Repair", *, done: bool) -> list[str]:
    if not found.damage:
        return [f"{folder} is sound: version {found.version}, {found.passages:,} passages."]
    goes = "went" if done else "would go"
    rest = " without what is damaged" if found.without else ""
    lines = [
        *_shown(found.damage),
        f"The index {goes} on from version {found.version}{rest}: {found.passages:,} passages.",
    ]
    if found.lost:
        lines.append("Lost, or back at an earlier state, if they were not deleted before:")
        lines += _shown(found.lost)
    if not found.is_all:
        lines.append("What else was written or deleted after that is unknown.")
    if not found.lost and found.is_all:
        lines.append("No document is lost.")
    files = f"{len(found.aside):,} file{'s' * (len(found.aside) != 1)}"
    if done:
        lines.append(f"Set aside in {found.folder}: {files}.")
    else:
        lines.append(f"To be set aside in {found.folder.parent}: {files}. Do it with --yes.")
    return lines


def _shown(items: tuple[str, ...]) -> list[str]:
    more = [f"  and {len(items) - SHOWN:,} more"] if len(items) > SHOWN else []
    return [*(f"  {item}" for item in items[:SHOWN]), *more]
