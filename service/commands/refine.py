"""`wye refine`: store what a language model extracted from an index's passages."""

from pathlib import Path
from typing import Annotated

import typer

from wye.service.commands.options import IndexOption, folder_of
from wye.service.errors import ServiceError
from wye.service.terminal import Bar, output


def refine(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="units, for the route clue, or facts, for the graph if WYE_GRAPH__ACTIVATION is "
            "facts.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="JSON lines with id, title, text, and units or facts.",
            show_default=False,
        ),
    ] = None,
    *,
    index: IndexOption = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Delete what is stored of this kind instead.")
    ] = False,
) -> None:
    """Store knowledge units or facts that a language model extracted from passages of an index.

    They replace what is stored of the same passages. If a line is wrong, nothing is stored.
    docs/examples/extract.py has a language model write such a file.
    """
    from wye.backends.papers.extracted import KINDS, ExtractedStore
    from wye.backends.papers.extractions import store_file
    from wye.router.session import Session
    from wye.service.settings import load_settings

    known_kind = next((name for name in KINDS if name == kind), None)
    if known_kind is None:
        raise ServiceError(f"KIND is one of {', '.join(KINDS)}; not '{kind}'.")
    if drop == (file is not None):
        raise ServiceError("Give either a FILE, as docs/examples/extract.py writes it, or --drop.")
    settings = load_settings(index=index)
    with Session.open(settings, folder_of(settings)) as session:
        if file is None:
            count = ExtractedStore(session.folder, session.index.fingerprint).drop(known_kind)
            output().print(f"Deleted the {known_kind} of {count:,} passages.")
        else:
            report = store_file(file, known_kind, session.index, lambda: session.analyser, Bar())
            output().print(str(report))
