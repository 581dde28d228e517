"""`wye index`: bring an index up to date with files."""

import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wye.service.errors import ServiceError
from wye.service.terminal import (
    Bar,
    IndexOption,
    JsonOption,
    PresetOption,
    folder_of,
    messages,
    output,
    say,
)

if TYPE_CHECKING:
    from wye.backends.index_source import IndexSource
    from wye.backends.readers.records import BadLine
    from wye.backends.sources import DocumentSource
    from wye.backends.store.ingest import IngestReport
    from wye.backends.types import Passage, Scalar
    from wye.service.settings import ServiceSettings

SHOWN_BAD_LINES = 20
INTERRUPTED = 130


def index(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Folders or files: .txt, .md, .rst, .html, .csv, .xlsx, .ods, .pdf, .docx, .odt, "
            ".odp, .rtf, .pptx, .epub, .eml, .mbox, .ics, .ipynb, .jsonl, .parquet, .json, code; "
            "or addresses in object stores, as in s3://bucket/folder. Of a folder in BEIR's "
            "layout, only corpus.jsonl is read. Another index, with its chunks as they are; what "
            "the same models computed of them is kept.",
        ),
    ] = None,
    *,
    index: IndexOption = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Metadata to filter by, for documents that lack the key. May be repeated.",
        ),
    ] = None,
    chunk_words: Annotated[
        int | None,
        typer.Option(min=1, help="Longest chunk, in words. Default: 200 for text files."),
    ] = None,
    encoding: Annotated[
        str, typer.Option(help="Encoding of texts that are not Unicode, as in cp1252.")
    ] = "",
    as_text: Annotated[
        str, typer.Option(metavar="SUFFIXES", help="Read these as text, too, as in .conf,.tex.")
    ] = "",
    text_column: Annotated[
        list[str] | None,
        typer.Option(help="Column of tables that is the text, alone. May be repeated."),
    ] = None,
    title_column: Annotated[str, typer.Option(help="Column of tables that is the title.")] = "",
    header: Annotated[
        bool | None,
        typer.Option(help="Whether the first row of tables names the columns. Default: by looks."),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove documents whose file is no longer in the folders."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --prune: say which would go, and do nothing.")
    ] = False,
    preset: PresetOption = None,
    engine: Annotated[
        Literal["local", "ray", "dataset"],
        typer.Option(
            metavar="ENGINE",
            help="local; dataset to have Lance index the result, for corpora that do not fit into "
            "memory; ray to do all that on the Ray cluster of RAY_ADDRESS, or a temporary one. "
            "Without SOURCE, dataset makes the indices of what is there, anew.",
        ),
    ] = "local",
    as_json: JsonOption = False,
) -> None:
    """Add passages to an index, and create it if there is none.

    Unchanged passages cost nothing, so run it again after an interruption or a change. A changed
    document is replaced; one that is not in the sources stays, unless you --prune.
    """
    from wye.backends.files import address_of
    from wye.backends.readers.drafts import Options
    from wye.service.settings import load_settings

    settings = load_settings(index=index, preset=preset)
    if not sources:
        if engine != "dataset":
            raise typer.BadParameter("Name a file or a folder.", param_hint="SOURCE")
        _build_indices(settings, again=True)
        return
    is_remote = bool(address_of(folder_of(settings)))
    if is_remote and prune:
        raise typer.BadParameter(
            "The list of files that were read is kept beside an index on a disk alone. Name what "
            "to delete with `wye delete`.",
            param_hint="--prune",
        )
    _refuse_itself(sources, folder_of(settings))
    texts = [suffix.strip() for suffix in as_text.split(",") if suffix.strip()]
    if wrong := [suffix for suffix in texts if not suffix.startswith(".")]:
        raise typer.BadParameter(f"'{wrong[0]}' is no suffix, as in .conf.", param_hint="--as-text")
    bad = BadLines()
    opened = open_sources(sources, bad, texts)
    if dry_run:
        if not prune:
            raise typer.BadParameter("Use this with --prune.", param_hint="--dry-run")
        _prune(folder_of(settings), bad, prune=True, dry_run=True)
        return
    reading = {
        "chunk_words": chunk_words,
        "metadata": dict(map(_pair, metadata or ())),
        "limits": settings.documents.limits,
        "options": Options(_encoding(encoding), tuple(text_column or ()), title_column, header),
    }
    work = _ingest_on_cluster if engine == "ray" else ingest
    report = work(settings, opened, bad, reading)
    bad.summarise(has_news=bool(report.added or report.updated))
    _print(report, folder_of(settings), len(bad), as_json=as_json)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    _prune(folder_of(settings), bad, prune=prune)
    if engine == "dataset" or (engine == "local" and (is_remote or settings.engine == "dataset")):
        _build_indices(settings, again=False)


def _build_indices(settings: "ServiceSettings", *, again: bool) -> None:
    import wye
    from wye.backends.files import address_of, patient

    patience = patient(settings.documents.wait_seconds)
    with wye.open(folder_of(settings), settings=settings) as opened, patience:
        version = opened.build_indices(again=again, progress=Bar(lambda: 0))
        shown = address_of(opened.path) or opened.path
        output().print(f"{shown}, version {version}: indexed by Lance.")


def ingest(
    settings: "ServiceSettings",
    opened: "Sequence[DocumentSource | IndexSource]",
    bad: "BadLines",
    reading: Mapping[str, Any],
) -> "IngestReport":
    """Bring the settings' index up to date with sources, showing progress.

    `reading` are arguments of `DocumentSource.passages`. A `ServiceError` if nothing can be read;
    then no index is made.
    """
    import wye
    from wye.backends.files import address_of, patient
    from wye.backends.readers.records import Ids
    from wye.backends.sources import read_files, record_files

    # Look at the sources before the models, which take seconds to load.
    ids = Ids(read_files(folder_of(settings)))
    how = {**reading, "on_bad": bad.note, "on_note": bad.remark, "ids": ids}
    passages = bad.counted(chain.from_iterable(source.passages(**how) for source in opened))
    first = next(passages, None)
    if first is None:
        bad.summarise()
        raise ServiceError("Nothing in the sources could be read; see above for what is wrong.")
    with messages().status("Loading the models"):
        target = wye.create(folder_of(settings), settings=settings)
    bar = Bar(lambda: sum(source.expected for source in opened))
    with target, announcing_stops(), patient(settings.documents.wait_seconds):
        report = target.add(chain([first], passages), progress=bar)
        is_remote = bool(address_of(target.path))
        if ids.files and not is_remote:
            record_files(target.path, ids.files)
        for sentence in ids.replacements:
            say(sentence)
        if not report.interrupted and not is_remote and settings.engine != "dataset":
            with messages().status("Saving derived files"):
                target.keep_derived()
        return report


def _ingest_on_cluster(
    settings: "ServiceSettings",
    opened: "Sequence[DocumentSource | IndexSource]",
    bad: "BadLines",
    reading: Mapping[str, Any],
) -> "IngestReport":
    from wye.service.ray_build import build

    bar = Bar(lambda: sum(source.expected for source in opened))
    files = [file for source in opened for file in source.split()]
    with announcing_stops():
        return build(settings, files, reading, bad.note, progress=bar)


def _refuse_itself(sources: Sequence[str], folder: Path) -> None:
    """Refuse (`ServiceError`) to write an index that is a source, or into its folder."""
    from wye.backends.index_source import is_index
    from wye.backends.sources import local_path

    new = folder.resolve()
    for source in filter(None, map(local_path, sources)):
        if source.resolve() in (new, *new.parents) and is_index(source):
            raise ServiceError(
                f"{folder} is the index that would be read, or in its folder. Give --index a new "
                "folder outside of it."
            )


def _prune(folder: Path, bad: "BadLines", *, prune: bool, dry_run: bool = False) -> None:
    """Remove the documents whose file is gone from the folders that were read, or count them."""
    from wye.backends.sources import record_files, vanished
    from wye.backends.store.documents import Removal, remove

    ids = vanished(folder, bad.listed)
    if ids and dry_run:
        output().print("\n".join(ids))
    elif ids and prune:
        remove(folder, Removal(documents=tuple(ids)))
        record_files(folder, {}, {*ids})
    if prune:
        say(f"{len(ids):,} documents {'would be' if dry_run else 'were'} removed with their files.")
    elif ids:
        count = "1 document is" if len(ids) == 1 else f"{len(ids):,} documents are"
        say(f"{count} of files that are no longer there; --prune removes them.")


def _encoding(name: str) -> str:
    from wye.backends.readers.decode import known_encoding

    try:
        return known_encoding(name)
    except LookupError:
        raise typer.BadParameter(
            f"'{name}' is no known encoding, as cp1252 is.", param_hint="--encoding"
        ) from None


def open_sources(
    sources: Sequence[str | Path], bad: "BadLines", as_text: Sequence[str] = ()
) -> "list[DocumentSource | IndexSource]":
    """The sources to read; `bad` notes their files, and says which are left out."""
    from wye.backends.sources import in_words, open_source

    opened = [open_source(source, as_text) for source in sources]
    left_out = Counter[str]()
    for source in opened:
        bad.listed.update(source.listed)
        left_out.update(source.left_out)
    if left_out:
        say(f"Left out: {in_words(left_out)}.")
    return opened


@contextmanager
def announcing_stops() -> Iterator[None]:
    """Answer Ctrl-C with a message at once, since storing what is analysed takes a while."""

    def stop(number: int, frame: FrameType | None) -> None:
        say("Stopping.")
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _pair(option: str) -> "tuple[str, Scalar]":
    from wye.backends.readers.drafts import scalar

    key, equals, value = option.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(
            f"'{option}' is not KEY=VALUE, as in --metadata year=1894.", param_hint="--metadata"
        )
    return key.strip(), scalar(value)


class BadLines:
    """Counts what cannot be read or could be meant otherwise, and shows the first of each.

    `listed` has the names of the files of each folder that is read.
    """

    def __init__(self) -> None:
        self.listed: dict[str, list[str]] = {}
        self._counts = Counter[str]()
        self._notes: list[str] = []
        self._foreign: list[str] = []

    def __len__(self) -> int:
        return self._counts["Skipped"]

    def note(self, bad: "BadLine") -> None:
        """Count and show a bad line."""
        self._show("Skipped", f"Skipped: {bad}")

    def remark(self, note: str) -> None:
        """Keep how a file was understood."""
        self._notes.append(note)

    def _show(self, label: str, message: str) -> None:
        self._counts[label] += 1
        if self._counts[label] <= SHOWN_BAD_LINES:
            say(message)

    def counted(self, passages: "Iterator[Passage]") -> "Iterator[Passage]":
        """Note documents that do not look English while they pass."""
        from wye.backends.text import looks_foreign

        for passage in passages:
            if passage.chunk == 0 and looks_foreign(passage.text):
                self._foreign.append(passage.document)
            yield passage

    def summarise(self, *, has_news: bool = True) -> None:
        """Say how files were understood, if there is news, and how many there were beyond those."""
        for note in self._notes if has_news else ():
            self._show("Notes on files", note)
        for label, count in self._counts.items():
            if count > SHOWN_BAD_LINES:
                say(f"{label}: {count - SHOWN_BAD_LINES} more.")
        if has_news and (count := len(self._foreign)):
            such = ", ".join(self._foreign[:3])
            say(f"Not in English by their looks: {count:,} documents, which rank worse: {such} …")


def _print(report: "IngestReport", folder: Path, skipped: int, *, as_json: bool) -> None:
    from wye.backends.files import address_of, rounded_json

    if as_json:
        typer.echo(rounded_json({**asdict(report), "skipped": skipped, "index": str(folder)}))
        return
    names = ("added", "updated", "unchanged", "removed")
    counts = {**{name: getattr(report, name) for name in names}, "skipped": skipped}
    summary = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    nothing = "nothing yet" if report.interrupted else "nothing to do"
    # Processes parse while this one encodes, so the time counted is that of waiting for them.
    labels = {"parse": "wait for the parse", "cluster": "wait for the cluster"}
    stages = ", ".join(f"{labels.get(name, name)} {s:.1f} s" for name, s in report.seconds.items())
    shown = address_of(folder) or folder
    output().print(f"{shown}, version {report.version}: {summary or nothing} ({stages}).")
