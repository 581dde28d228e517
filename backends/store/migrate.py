"""Migration of an index to another analyser: passages are analysed again, then switched at once.

They are collected in an index of their own, in the folder `migrating`, while the old one is still
searched and written. Then one commit replaces the old rows. A process that is killed before that
leaves the index unchanged, and the next run does the rest.
"""

import math
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.errors import IndexDamagedError, IndexMismatchError
from backends.progress import Progress
from backends.store.entity_vectors import FOLDER as SURFACES
from backends.store.index import PassageStore
from backends.store.ingest import WINDOW, IngestReport, ingest
from backends.store.schema import PASSAGE_COLUMNS, to_passages
from backends.store.versions import reading
from backends.types import Int64, Passage, PassageAnalyser

STAGED = "migrating"
# A superseded version may be dropped after an hour; none is read for longer than this.
ROUND_SECONDS = 900.0
_KEYS = ["id", "document", "content_hash"]


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The result of a migration.

    Attributes:
        analysed: Number of passages analysed, without those of an earlier run.
        version: The version that is searched from now on.
        is_switched: Whether the index was switched; if not, it has these models already, or the
            migration is incomplete.
        interrupted: Ctrl-C ended it early; run it again to do the rest.
        seconds: Wall time by stage, as for an ingest.
    """

    analysed: int = 0
    version: int = 0
    is_switched: bool = False
    interrupted: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)


def migrate(
    index: PassageStore,
    analyser: PassageAnalyser,
    dimension: int,
    *,
    batch_passages: int = WINDOW,
    entity_vectors: bool = False,
    progress: Progress | None = None,
) -> MigrationReport:
    """Analyse all passages of an index with another analyser, and switch to it in one commit.

    Until then others may search and write. Their writes are included, and the write lock is held
    only for the last of them. Afterwards the index refuses the former analyser. Old versions stay
    until they are dropped like any other.

    Args:
        dimension: Length of the analyser's vectors.
        entity_vectors: Whether to store vectors of entity surfaces; always done if the index has
            some.

    Raises:
        IndexDamagedError: The index is damaged; repair it first.
        IndexMismatchError: A migration to a third analyser is unfinished.
        IndexLockedError: Another process is writing at the switch, or is migrating already.
    """
    if index.fault:
        raise IndexDamagedError(index.fault)
    if index.fingerprint == dict(analyser.fingerprint):
        with index.writer():
            _end(index.path)
        return MigrationReport(version=index.version)
    staged = _staged(index.path / STAGED, dimension, analyser.fingerprint)
    keeps = entity_vectors or index.surfaces.count() > 0
    reports: list[IngestReport] = []

    def analyse(lacking: _Lacking, seconds: float) -> bool:
        """Analyse what is lacking; returns whether it was not interrupted."""
        if lacking.gone:
            with staged.writer() as writer:
                writer.delete(lacking.gone)
            staged.refresh()
        if len(lacking.places):
            passages = lacking.passages(monotonic() + seconds)
            expected = len(lacking.places)
            found = ingest(
                staged,
                passages,
                analyser,
                batch_passages=batch_passages,
                entity_vectors=keeps,
                progress=progress,
                expected=expected,
            )
            reports.append(found)
            return not found.interrupted
        return True

    is_going = True
    while is_going and (lacking := _Lacking(index.path, index.snapshot(), staged)):
        is_going = analyse(lacking, ROUND_SECONDS)
        index.refresh()
    if is_going:
        with index.writer() as writer:
            is_going = analyse(_Lacking(index.path, writer.dataset, staged), math.inf)
            if is_going:
                writer.replace(staged.snapshot())
                _end(index.path)
    seconds = Counter[str]()
    for report in reports:
        seconds.update(report.seconds)
    return MigrationReport(
        analysed=sum(report.added + report.updated for report in reports),
        version=PassageStore.open(index.path).version,
        is_switched=is_going,
        interrupted=not is_going,
        seconds=dict(seconds),
    )


class _Lacking:
    """What the staged index lacks or has differently from the source; falsy if it lacks nothing.

    Attributes:
        places: Positions of rows in the source: all chunks, in order, of every document of which
            any is lacking.
        gone: Ids of staged rows that the source no longer has.
    """

    def __init__(self, folder: Path, source: lance.LanceDataset, staged: PassageStore) -> None:
        self._folder = folder
        self._source = source
        with reading(folder):
            old = source.to_table(columns=[*_KEYS, "chunk"], scan_in_order=True)
            new = staged.snapshot().to_table(columns=_KEYS)
        is_there = pc.is_in(_joined(old, _KEYS), value_set=_joined(new, _KEYS))
        documents = old["document"].filter(pc.invert(is_there))
        places = pc.indices_nonzero(pc.is_in(old["document"], value_set=documents.combine_chunks()))
        order = [("document", "ascending"), ("chunk", "ascending")]
        places = places.take(pc.sort_indices(old.take(places), order))
        self.places: Int64 = places.to_numpy().astype(np.int64)
        is_kept = pc.is_in(_joined(new, _KEYS[:2]), value_set=_joined(old, _KEYS[:2]))
        self.gone: list[str] = new["id"].filter(pc.invert(is_kept)).to_pylist()

    def __bool__(self) -> bool:
        return len(self.places) > 0 or len(self.gone) > 0

    def passages(self, until: float) -> Iterator[Passage]:
        """The lacking passages; no further document after `until`, a time of `monotonic`."""
        document = ""
        for start in range(0, len(self.places), WINDOW):
            places = pa.array(self.places[start : start + WINDOW])
            with reading(self._folder):
                rows = self._source.take(places, columns=list(PASSAGE_COLUMNS))
            for passage in to_passages(rows):
                if passage.document != document and document and monotonic() > until:
                    return
                document = passage.document
                yield passage


def _joined(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Columns joined to one: rows are equal in it if they are equal in all columns."""
    columns = [rows[name].cast(pa.large_string()) for name in names]
    found = pc.binary_join_element_wise(*columns, pa.scalar("\0", pa.large_string()))
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.large_string())


def _staged(folder: Path, dimension: int, fingerprint: Mapping[str, str]) -> PassageStore:
    try:
        return PassageStore.create(folder, dimension, fingerprint)
    except IndexMismatchError as error:
        raise IndexMismatchError(
            f"{folder} contains an unfinished migration to other models: {error} To abandon it, "
            "delete the folder."
        ) from error


def _end(folder: Path) -> None:
    """Move the staged entity vectors into place and drop the rest. The caller holds the lock."""
    staged = folder / STAGED
    if (staged / SURFACES).exists():
        shutil.rmtree(folder / SURFACES, ignore_errors=True)
        (staged / SURFACES).rename(folder / SURFACES)
    shutil.rmtree(staged, ignore_errors=True)
