"""An index as a source of another: its passages, and what was computed of them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import pyarrow.compute as pc

from wye.backends.errors import SourceError
from wye.backends.readers.records import Ids, OnBad, refuse
from wye.backends.store.index import PassageStore
from wye.backends.store.schema import ANALYSIS_COLUMNS, columns_of, to_analyses, to_passages
from wye.backends.store.versions import PASSAGES
from wye.backends.types import IndexedPassage, Metadata, Passage

_ROWS_AT_ONCE = 2_048


def is_index(folder: Path) -> bool:
    """Whether a path is the folder of an index."""
    return (folder / PASSAGES).is_dir()


class IndexSource:
    """The newest version of an index as a source: its passages, and what was computed of them.

    Ingested into another index, passages keep their ids, titles, metadata and chunks; where that is
    pinned to the same analyser, their vectors and parses as well. It has no files of a folder.
    """

    files = 1
    left_out: Mapping[str, int] = {}
    listed: Mapping[str, list[str]] = {}

    def __init__(self, folder: Path) -> None:
        """Open the index and read all of it once; a `BackendError` if it is not whole."""
        self.index = PassageStore.open(folder)
        self.index.check_content()
        self._dataset = self.index.snapshot()
        self.expected = self.index.count()

    @property
    def folder(self) -> Path:
        """Folder of the index."""
        return self.index.path

    def split(self) -> NoReturn:
        """Raise a `SourceError`, since several processes cannot read it."""
        raise SourceError(f"{self.folder} is an index; it is read without --engine ray.")

    def passages(
        self,
        *,
        metadata: Metadata | None = None,
        ids: Ids | None = None,
        on_bad: OnBad = refuse,
        **reading_files: object,  # noqa: ARG002
    ) -> Iterator[Passage]:
        """All passages by document and chunk; they are cut no further.

        `metadata` is added to every passage. A document that has one of `ids`, those of other
        sources, is left out, and `on_bad` is called for it.
        """
        passages = ((str(self.folder), each) for each in self._passages(metadata or {}))
        return (ids or Ids()).first(passages, on_bad)

    def _passages(self, metadata: Metadata) -> Iterator[Passage]:
        columns = [*columns_of(self._dataset.schema), *ANALYSIS_COLUMNS]
        with self.index.reading():
            keys = self._dataset.to_table(columns=["document", "chunk"], scan_in_order=True)
            positions = pc.sort_indices(keys, [("document", "ascending"), ("chunk", "ascending")])
        for start in range(0, len(positions), _ROWS_AT_ONCE):
            with self.index.reading():
                rows = self._dataset.take(positions.slice(start, _ROWS_AT_ONCE), columns=columns)
            for stored, analysis in zip(to_passages(rows), to_analyses(rows), strict=True):
                values = {each.name: getattr(stored, each.name) for each in fields(stored)}
                values["metadata"] = {**metadata, **stored.metadata}
                pins = self.index.fingerprint
                yield IndexedPassage(**values, stored=stored, analysis=analysis, fingerprint=pins)
