"""An index as a source of documents: its passages, and what was computed of them.

Ingested into another index, passages keep their ids, titles, metadata and chunks. Where the other
index is pinned to the same analyser, they also keep their vectors and parses; otherwise only their
texts are taken, and analysed anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from wye.backends.errors import SourceError
from wye.backends.papers.extracted import ExtractedStore
from wye.backends.readers.records import Ids, OnBad
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import PASSAGE_COLUMNS, StoredAnalysis, to_analyses, to_passages
from wye.backends.store.versions import PASSAGES, reading
from wye.backends.store.writer import Writer
from wye.backends.types import Metadata, Passage

_ROWS_AT_ONCE = 2_048


def is_index(folder: Path) -> bool:
    """Whether a path is the folder of an index."""
    return (folder / PASSAGES).is_dir()


@dataclass(frozen=True, slots=True, eq=False)
class IndexedPassage(Passage):
    """A passage of an index.

    Attributes:
        position: Its row in the version that is read.
    """

    source: "IndexSource | None" = field(default=None, repr=False)
    position: int = 0


class IndexSource:
    """The newest version of an index, read document by document.

    Attributes:
        left_out: For files of unknown kinds; there are none.
        analyses: Number of analyses that were taken into another index.
        extractions: Number of extractions of a language model that were taken into another index.
    """

    files = 1
    left_out: Mapping[str, int] = {}

    def __init__(self, folder: Path) -> None:
        """Open the index, and read all of it once to see that it is whole.

        Raises:
            IndexNotFoundError: The folder's index was never finished.
            IndexMismatchError: Another version of Wye wrote it.
            IndexDamagedError: It is not as last committed; `wye repair` says what can be done.
        """
        self.index = PassageStore.open(folder)
        self.index.check_content()
        self._dataset = self.index.snapshot()
        self.expected = self.index.count()
        self.analyses = self.extractions = 0

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self.index.path

    def split(self) -> NoReturn:
        """Refuse to be read by several processes.

        Raises:
            SourceError: Always.
        """
        raise SourceError(f"{self.folder} is an index; it is read without --engine ray.")

    def passages(
        self,
        *,
        metadata: Metadata | None = None,
        ids: "Ids | None" = None,
        on_bad: "OnBad | None" = None,
        **reading_files: object,  # noqa: ARG002
    ) -> Iterator[Passage]:
        """All passages by document and chunk; they are cut no further.

        Args:
            metadata: Metadata of every passage; a passage's own takes precedence.
            ids: Those of documents of other sources; a document here that has one is left out.
            on_bad: Called for each of those.
            reading_files: What `DocumentSource.passages` takes besides, for reading files.
        """
        passages = self._passages(metadata)
        if ids is None or on_bad is None:
            return passages
        return ids.first(((str(self.folder), passage) for passage in passages), on_bad)

    def _passages(self, metadata: Metadata | None) -> Iterator[Passage]:
        with reading(self.folder):
            keys = self._dataset.to_table(columns=["document", "chunk"], scan_in_order=True)
            order = [("document", "ascending"), ("chunk", "ascending")]
            positions = pc.sort_indices(keys, order)
        for start in range(0, len(positions), _ROWS_AT_ONCE):
            window = positions.slice(start, _ROWS_AT_ONCE)
            rows = self._rows(window, PASSAGE_COLUMNS)
            for position, stored in zip(window.to_pylist(), to_passages(rows), strict=True):
                yield IndexedPassage(
                    stored.id,
                    stored.title,
                    stored.text,
                    {**(metadata or {}), **stored.metadata},
                    stored.document,
                    stored.chunk,
                    source=self,
                    position=position,
                )

    def stored(self, wanted: Sequence[IndexedPassage]) -> dict[str, StoredAnalysis]:
        """Id -> analysis of those passages whose title and text are as in this index."""
        positions = pa.array([passage.position for passage in wanted], pa.int64())
        rows = self._rows(positions, ("title", "text", "vector", "sentences"))
        texts = zip(rows["title"].to_pylist(), rows["text"].to_pylist(), strict=True)
        stored = {
            passage.id: analysis
            for passage, pair, analysis in zip(wanted, texts, to_analyses(rows), strict=True)
            if (passage.title, passage.text) == pair
        }
        self.analyses += len(stored)
        return stored

    def _rows(self, positions: pa.Array, columns: Sequence[str]) -> pa.Table:
        with reading(self.folder):
            return self._dataset.take(positions, columns=list(columns))

    def give_extractions(self, writer: Writer) -> None:
        """Copy what a language model extracted to an index that has the same texts.

        Raises:
            BackendError: It cannot be read or written.
        """
        ours = ExtractedStore(self.folder, self.index.fingerprint)
        if not ours.path.exists():
            return
        theirs = ExtractedStore(writer.folder, self.index.fingerprint)
        self.extractions += theirs.take(ours, writer.content_keys())


def stored_analyses(
    passages: Sequence[Passage], fingerprint: Mapping[str, str]
) -> dict[str, StoredAnalysis]:
    """Id -> analysis of those passages that come from an index with the same analyser."""
    by_source: dict[IndexSource, list[IndexedPassage]] = {}
    for passage in passages:
        if isinstance(passage, IndexedPassage) and (source := passage.source):
            by_source.setdefault(source, []).append(passage)
    stored: dict[str, StoredAnalysis] = {}
    for source, wanted in by_source.items():
        if source.index.fingerprint == dict(fingerprint):
            stored |= source.stored(wanted)
    return stored
