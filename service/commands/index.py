"""`wye index`: bring an index up to date with files."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.options import IndexOption, JsonOption, folder_of
from service.errors import ServiceError
from service.terminal import Bar, messages, output, say

if TYPE_CHECKING:
    from backends.documents import BadLine, OnBad
    from backends.store.ingest import IngestReport
    from router.settings import Settings

SHOWN_BAD_LINES = 20
INTERRUPTED = 130


def index(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="BEIR folders, .jsonl, .txt and .md files, or folders of text files.",
            show_default=False,
        ),
    ],
    *,
    index: IndexOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line that cannot be read.")
    ] = False,
    chunk_words: Annotated[
        int | None,
        typer.Option(min=1, help="Longest chunk, in words. Default: 200 for text files."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="default or published.", show_default=False)
    ] = None,
    entity_vectors: Annotated[
        bool, typer.Option("--entity-vectors", help="Keep a vector of every entity's name too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add passages to an index, making it if there is none.

    What is there already costs nothing, so run it again after an interruption or a change. A
    document that changed is replaced; one that is not in the sources stays.
    """
    from service.settings import load_settings

    settings = load_settings(index=index, preset=preset)
    if entity_vectors:
        ingest = replace(settings.ingest, entity_vectors=True)
        settings = settings.model_copy(update={"ingest": ingest})
    bad = BadLines(strict=strict)
    report = ingest_files(settings, sources, bad.note, chunk_words=chunk_words)
    bad.summarise()
    _print(report, folder_of(settings), len(bad), as_json=as_json)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    if len(bad) and not (report.added or report.updated or report.unchanged):
        raise ServiceError("No line of the sources could be read; see above for what is wrong.")


def ingest_files(
    settings: "Settings",
    sources: Sequence[Path],
    on_bad: "OnBad",
    *,
    chunk_words: int | None = None,
) -> "IngestReport":
    """Bring the settings' index up to date with files, showing progress; see `wye.read`.

    Raises:
        wye.Error: A source is missing, or of no kind that is read; the index cannot be written, or
            the models cannot be loaded.
    """
    import wye

    # First what fails at once; the models take seconds to load.
    streams = [wye.read(source, chunk_words=chunk_words, on_bad=on_bad) for source in sources]
    with messages().status("Loading the models"):
        target = wye.create(folder_of(settings), settings=settings)
    with target, _announcing_stops():
        return target.add(chain.from_iterable(streams), progress=Bar(expected_passages(sources)))


@contextmanager
def _announcing_stops() -> Iterator[None]:
    """Answer Ctrl-C at once: what is analysed is stored before the command ends."""

    def stop(number: int, frame: FrameType | None) -> None:
        say("Stopping.")
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def expected_passages(sources: Sequence[Path]) -> int | None:
    """About how many passages there are: lines; None where a source is not made of lines."""
    lines = 0
    for source in sources:
        file = source / "corpus.jsonl" if source.is_dir() else source
        if file.suffix != ".jsonl" or not file.is_file():
            return None
        with file.open("rb") as content:
            lines += sum(block.count(b"\n") for block in iter(lambda: content.read(1 << 20), b""))
    return lines


class BadLines:
    """Counts lines that cannot be read, and shows the first of them."""

    def __init__(self, *, strict: bool = False) -> None:
        """Take note, or make the first bad line an error."""
        self._strict = strict
        self._count = 0

    def __len__(self) -> int:
        """How many there were."""
        return self._count

    def note(self, bad: "BadLine") -> None:
        """Take note of one.

        Raises:
            SourceError: When strict.
        """
        from backends.documents import refuse

        if self._strict:
            refuse(bad)
        self._count += 1
        if self._count <= SHOWN_BAD_LINES:
            say(f"Skipped: {bad}")

    def summarise(self) -> None:
        """Say how many there were beyond those shown."""
        if self._count > SHOWN_BAD_LINES:
            say(f"Skipped: {self._count - SHOWN_BAD_LINES} more.")


def _print(report: "IngestReport", folder: Path, skipped: int, *, as_json: bool) -> None:
    from backends.files import rounded_json

    if as_json:
        typer.echo(rounded_json({**asdict(report), "skipped": skipped, "index": str(folder)}))
        return
    counts = {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "repeated": report.repeated,
        "skipped": skipped,
    }
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    nothing = "nothing yet" if report.interrupted else "nothing to do"
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in report.seconds.items())
    output().print(f"{folder}, version {report.version}: {said or nothing} ({stages}).")
