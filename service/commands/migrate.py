"""`wye migrate`: move an index to other models."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from service.commands.index import INTERRUPTED, announcing_stops
from service.commands.options import (
    EntityVectorsOption,
    IndexOption,
    JsonOption,
    PresetOption,
    folder_of,
)
from service.terminal import Bar, messages, output

if TYPE_CHECKING:
    from backends.store.migrate import MigrationReport


def migrate(
    *,
    index: IndexOption = None,
    preset: PresetOption = None,
    entity_vectors: EntityVectorsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Analyse an index again with the models in the settings, and switch in one commit.

    Until then the index is searched and written with the former models. Servers keep their
    version, and say so, until they are restarted with the new models. Run it again after an
    interruption: finished work is kept.
    """
    import wye
    from backends.files import rounded_json
    from backends.store.index import PassageStore
    from backends.store.migrate import migrate as move
    from router.session import ModelCache
    from service.settings import load_settings

    settings = load_settings(index=index, preset=preset)
    folder, own = folder_of(settings), settings.ingest
    found = PassageStore.open(folder)
    with ModelCache() as models:
        with messages().status("Loading the models"):
            analyser = models.analyser(settings.analyser)
        with announcing_stops():
            report = move(
                found,
                analyser,
                analyser.dimension,
                batch_passages=own.batch_passages,
                entity_vectors=own.entity_vectors or entity_vectors,
                progress=Bar(),
            )
    if not report.interrupted:
        status = messages().status("Saving derived files")
        with wye.open(folder, settings=settings) as moved, status:
            moved.keep_derived()
    if as_json:
        typer.echo(rounded_json({**asdict(report), "index": str(folder)}))
    else:
        output().print(f"{folder}: {_said(report)}")
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)


def _said(report: "MigrationReport") -> str:
    if report.interrupted:
        return (
            f"{report.analysed:,} passages are analysed and saved, and the index is unchanged, at "
            f"version {report.version}. Run the same command again to continue."
        )
    if not report.is_switched:
        return f"version {report.version} uses these models already."
    stages = ", ".join(f"{name} {s:.1f} s" for name, s in report.seconds.items())
    return (
        f"version {report.version} uses these models now. {report.analysed:,} passages were "
        f"analysed{f' ({stages})' if stages else ''}."
    )
