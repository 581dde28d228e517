"""The verbs that change an index. Each is one Lance commit: readers see all of it or none.

When a verb returns, what it did is on the disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import cast

import lance
import pyarrow as pa

from backends.store.entity_vectors import EntityVectorCache
from backends.store.locks import flush
from backends.types import Float32

# Bounds what one compaction rewrites: a fragment that has this many rows is left alone.
ROWS_PER_FRAGMENT = 65_536
KEEP_VERSIONS = timedelta(hours=1)
# Whoever follows an index holds some kilobytes for each: under many small writes, an hour of them
# would be megabytes.
MOST_VERSIONS = 1_000


@dataclass(frozen=True, slots=True)
class Changes:
    """What one commit did, in passages."""

    added: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """One commit.

    Attributes:
        number: Grows with every commit.
        written: When, in UTC.
    """

    number: int
    written: datetime


class Writer:
    """Holds an index's write lock for as long as its `with` block runs."""

    def __init__(
        self, folder: Path, dataset: lance.LanceDataset, surfaces: EntityVectorCache
    ) -> None:
        """Start from a version; only `Index.writer` makes one, for it takes the lock.

        Args:
            folder: Of `passages.lance`.
            dataset: Its newest version.
            surfaces: The cache beside it.
        """
        self._folder = folder
        self._dataset = dataset
        self.surfaces = surfaces

    @property
    def version(self) -> int:
        """The newest version, this writer's own commits included."""
        return int(self._dataset.version)

    @property
    def dataset(self) -> lance.LanceDataset:
        """The newest version as Lance sees it, for reading."""
        return self._dataset

    @property
    def schema(self) -> pa.Schema:
        """What rows to write must look like."""
        return self._dataset.schema

    @property
    def fragments(self) -> int:
        """How many pieces the passages lie in; `compact` makes them few."""
        return len(self._dataset.get_fragments())

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all passages, in no order that matters."""
        return self._dataset.to_table(columns=list(names))

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The same, a piece at a time, for columns too large to hold at once."""
        yield from self._dataset.to_batches(columns=list(names))

    def upsert(self, rows: pa.RecordBatch, stale: Sequence[str] = ()) -> Changes:
        """Insert rows with new ids, replace those with known ids, delete others; one commit.

        Args:
            rows: From `schema.to_batch`.
            stale: Ids to delete, such as chunks that a document no longer has.

        Raises:
            ValueError: An id occurs twice in `rows`, or in both arguments.
        """
        if not rows.num_rows:
            return Changes(deleted=self.delete(stale))
        ids = rows.column("id").to_pylist()
        if len({*ids, *stale}) != len(ids) + len(stale):
            raise ValueError("An id may occur only once in the rows to write and the stale ids")
        merge = self._dataset.merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all()
        if stale:
            merge.when_not_matched_by_source_delete(any_of("id", stale))
        done = merge.execute(pa.Table.from_batches([rows]))
        flush(self._folder, self._dataset)
        return Changes(
            done["num_inserted_rows"], done["num_updated_rows"], done["num_deleted_rows"]
        )

    def delete(self, ids: Sequence[str]) -> int:
        """Delete passages by id; ids that are not there are ignored.

        Returns:
            How many passages were deleted; with none there is no new version.
        """
        return self._delete("id", ids)

    def delete_documents(self, documents: Sequence[str]) -> int:
        """Delete all passages of documents; returns how many that were."""
        return self._delete("document", documents)

    def add_surfaces(self, surfaces: Sequence[str], vectors: Float32) -> None:
        """Remember vectors of entity surfaces; do it before the passages that mention them.

        Args:
            surfaces: n surfaces not known yet.
            vectors: (n, d) float32.
        """
        self.surfaces.add(surfaces, vectors)

    def compact(self, keep: timedelta = KEEP_VERSIONS) -> None:
        """Merge small files, and drop versions that nobody should be reading any more.

        A version counts as unread once it was superseded longer than `keep` ago, or by more than
        `MOST_VERSIONS` others, so a reader that calls `Index.refresh` more often than that never
        loses the files under its feet.

        Args:
            keep: How long a superseded version stays readable.
        """
        surfaces = self.surfaces.dataset()
        for dataset in (self._dataset, surfaces):
            if dataset is not None:
                dataset.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FRAGMENT)
                if dataset is self._dataset:  # first, so that nothing is dropped for nothing
                    flush(self._folder, dataset)
                _drop_superseded(dataset, keep)

    def _delete(self, column: str, values: Sequence[str]) -> int:
        """Delete the rows whose column has one of the values."""
        if not values:
            return 0
        condition = any_of(column, values)
        # Lance would commit a version even for a deletion of nothing.
        if not self._dataset.count_rows(condition):
            return 0
        deleted = int(self._dataset.delete(condition)["num_deleted_rows"])
        flush(self._folder, self._dataset)
        return deleted


def versions_of(dataset: lance.LanceDataset) -> list[Version]:
    """All versions of a dataset that can still be read, oldest first."""
    stated = ((entry["version"], entry["timestamp"]) for entry in dataset.versions())
    # Lance gives local times without a zone, which is what `astimezone` takes them for.
    versions = [Version(n, cast(datetime, at).astimezone(UTC)) for n, at in stated]
    return sorted(versions, key=lambda version: version.number)


def _drop_superseded(dataset: lance.LanceDataset, keep: timedelta) -> None:
    """Delete versions superseded longer than `keep` ago, and files that no version needs.

    Lance's own `older_than` asks when a version was written: it would drop a version of last week
    that was the newest until a second ago, and that every reader still holds.
    """
    horizon = datetime.now(UTC) - keep
    versions = versions_of(dataset)
    superseded = [
        version.number
        for place, (version, successor) in enumerate(pairwise(versions))
        if successor.written < horizon or place < len(versions) - MOST_VERSIONS
    ]
    if superseded:
        dataset.cleanup_old_versions(
            versions=superseded,
            # Whoever tagged a version with Lance's own tools wants it kept; that is no error.
            error_if_tagged_old_versions=False,
            # Also files of writers that were killed: the lock says that none is at work.
            delete_unverified=True,
        )


def any_of(column: str, values: Sequence[str]) -> str:
    """SQL for "column is one of values"; only a quote needs escaping in DataFusion's strings."""
    quoted = ("'" + value.replace("'", "''") + "'" for value in values)
    return f"{column} IN ({', '.join(quoted)})"
