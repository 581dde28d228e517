"""`wye delete`: delete passages from an index."""

from typing import Annotated

import typer

from wye.service.commands.options import FilterOption, IndexOption, folder_of, parse_filter_option
from wye.service.errors import ServiceError
from wye.service.terminal import output, say

SHOWN_IDS = 10
MISSING = 1


def delete(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of passages to delete."),
    ] = None,
    *,
    index: IndexOption = None,
    document: Annotated[
        list[str] | None,
        typer.Option(help="Id of a document; all its chunks are deleted."),
    ] = None,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and change nothing.")
    ] = False,
) -> None:
    """Delete passages by id, by document or by metadata, in one commit.

    Exits with code 1 if a named passage or document is not in the index.
    """
    from wye.backends.store.documents import Removal, matching, remove
    from wye.service.settings import load_settings

    folder = folder_of(load_settings(index=index))
    removal = Removal(tuple(ids or ()), tuple(document or ()), parse_filter_option(filter))
    if removal.is_empty:
        raise ServiceError("Delete what? Give ids, --document or --filter.")
    deleted, _ = matching(folder, removal) if dry_run else remove(folder, removal)
    names = {*deleted, *(id_.rpartition("#")[0] for id_ in deleted)}
    if missing := sorted({*removal.ids, *removal.documents} - names):
        say(f"Not in the index: {_listing(missing)}.")
    verb = "Would delete" if dry_run else "Deleted"
    listing = f": {_listing(deleted)}" if deleted else ""
    output().print(f"{verb} {len(deleted):,} passage{'s' * (len(deleted) != 1)}{listing}.")
    if missing:
        raise typer.Exit(MISSING)


def _listing(ids: list[str]) -> str:
    suffix = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + suffix
