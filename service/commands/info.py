"""`wye info`: the contents of an index."""

import typer
from rich.table import Table

from wye.service.commands.options import IndexOption, JsonOption, folder_of
from wye.service.terminal import output


def info(*, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show an index's counts, size on disk, versions, and the models it is pinned to."""
    from wye.backends.files import rounded_json
    from wye.backends.store.documents import take_inventory
    from wye.service.settings import load_settings

    folder = folder_of(load_settings(index=index))
    inventory = take_inventory(folder)
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
