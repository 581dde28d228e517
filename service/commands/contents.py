"""`wye info`, `wye delete` and `wye repair`: what an index contains, and what is damaged."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from wye.service.errors import ServiceError
from wye.service.terminal import FilterOption, IndexOption, JsonOption, folder_of, output, say

if TYPE_CHECKING:
    from wye.backends.store.repair import Repair

SHOWN_IDS = 10
SHOWN = 20
TO_DO = 1  # exit code if something was not in the index, or has to be repaired


def info(*, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show an index's counts, size on disk, versions, and the models it is pinned to."""
    from wye.backends.files import rounded_json
    from wye.backends.inventory import take_inventory
    from wye.service.settings import load_settings

    inventory = take_inventory(folder_of(load_settings(index=index)))
    if as_json:
        typer.echo(rounded_json(inventory))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in inventory.items():
        if isinstance(value, dict):
            for key, item in value.items():
                table.add_row(f"{name}: {key}", str(item))
        else:
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    output().print(table)


def delete(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of passages to delete.")
    ] = None,
    *,
    index: IndexOption = None,
    document: Annotated[
        list[str] | None, typer.Option(help="Id of a document; all its chunks are deleted.")
    ] = None,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and change nothing.")
    ] = False,
) -> None:
    """Delete passages by id, by document or by metadata, in one commit.

    Exits with code 1 if a named passage or document is not in the index.
    """
    from wye.backends.files import patient
    from wye.backends.store.documents import Removal, matching, remove
    from wye.service.settings import load_settings

    settings = load_settings(index=index)
    folder = folder_of(settings)
    removal = Removal(tuple(ids or ()), tuple(document or ()), filter)
    if removal == Removal():
        raise ServiceError("Delete what? Give ids, --document or --filter.")
    with patient(settings.documents.wait_seconds):
        deleted, _ = matching(folder, removal) if dry_run else remove(folder, removal)
    names = {*deleted, *(id_.rpartition("#")[0] for id_ in deleted)}
    if missing := sorted({*removal.ids, *removal.documents} - names):
        say(f"Not in the index: {_ids(missing)}.")
    verb = "Would delete" if dry_run else "Deleted"
    listing = f": {_ids(deleted)}" if deleted else ""
    output().print(f"{verb} {len(deleted):,} passage{'s' * (len(deleted) != 1)}{listing}.")
    if missing:
        raise typer.Exit(TO_DO)


def _ids(ids: Sequence[str]) -> str:
    suffix = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + suffix


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
        output().print("\n".join(_lines(folder, plan, is_applied=yes)))
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
