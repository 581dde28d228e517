"""The one writer of an index: its commits are atomic, and on the disk when a method returns."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments
from lance.optimize import Compaction

from wye.backends.files import uninterrupted
from wye.backends.store.derived import drop_derived, versions_in
from wye.backends.store.schema import any_of
from wye.backends.store.versions import (
    PASSAGES,
    ROWS_PER_FRAGMENT,
    Record,
    drop_superseded,
    flush,
    flush_files,
    fragments_by_size,
    numbers_in,
    reading,
)

if TYPE_CHECKING:
    from wye.backends.store.index import PassageStore

KEEP_VERSIONS = timedelta(hours=1)


class Writer:
    """Writes to an index, whose lock is held for as long as the `with` block runs.

    Attributes:
        index: What `PassageStore.writer` was called on.
        dataset: The newest version, including this writer's commits, for reading.
    """

    retries = 20  # as Lance would

    def __init__(self, index: "PassageStore", dataset: lance.LanceDataset, record: Record) -> None:
        """Start from the newest version; `PassageStore.writer` makes one and takes the lock."""
        self.folder = index.path
        self.dataset = dataset
        self.index, self._record = index, record

    @property
    def version(self) -> int:
        """Number of the newest version."""
        return int(self.dataset.version)

    def check_newest(self) -> None:
        """Check that nobody else has written, if no lock keeps others out.

        Raises:
            IndexLockedError: Somebody has.
        """

    def upsert(
        self, rows: pa.RecordBatch, stale: Sequence[str] = (), replaced: Sequence[str] | None = None
    ) -> int:
        """Insert rows with new ids, replace rows with known ids, delete stale ids, in one commit.

        Args:
            replaced: Those of the rows' ids that are stored; None to look them up, which reads all
                ids.

        Returns:
            The number of deleted passages, without the replaced ones.

        Raises:
            ValueError: An id occurs twice in `rows`, or in both arguments.
        """
        ids = rows.column("id").to_pylist()
        if len({*ids, *stale}) != len(ids) + len(stale):
            raise ValueError("An id may occur only once in the rows to write and the stale ids")
        # Lance's own merge also reads the ids of all passages where every row is a new one.
        former = [*(ids if replaced is None else replaced), *stale]
        with self.guard():
            new = new_fragments(rows, self.dataset) if ids else []
        return len(self.replace(new, former).difference(ids))

    def replace(self, new: Sequence[lance.FragmentMetadata], former: Sequence[str]) -> set[str]:
        """Add fragments that are written, and delete passages by id, in one commit.

        If there is nothing to do, there is no new version.

        Returns:
            The ids that were stored.
        """
        stored, updated, emptied = set[str](), list[lance.FragmentMetadata](), list[int]()
        if former:
            condition = any_of("id", former)
            with self.guard():
                # A scan of all fragments is as fast as one of a single fragment.
                matches = self.dataset.to_table(["id"], filter=condition, with_row_address=True)
                stored = {*matches["id"].to_pylist()}
                holding = {*pc.unique(pc.shift_right(matches["_rowaddr"], 32)).to_pylist()}
                fragments = self.dataset.get_fragments()
                fragments = [each for each in fragments if each.fragment_id in holding]
                updated, emptied = without_rows(fragments, condition)
        if new or stored:
            change = lance.LanceOperation.Update(emptied, updated, [*new], [], [])
            self.commit(change, [*new, *updated])
        return stored

    def delete(self, ids: Sequence[str]) -> int:
        """Delete passages by id; unknown ids are ignored; returns the number of deleted ones."""
        return len(self.replace((), ids))

    def guard(self) -> AbstractContextManager[None]:
        """As `PassageStore.reading`, but errors of a full disk pass."""
        return reading(self.folder, also=())

    def commit(
        self,
        change: lance.LanceOperation.BaseOperation,
        fragments: Sequence[lance.FragmentMetadata],
    ) -> None:
        """Commit a version; its files are synced before its manifest names them."""
        self.check_newest()
        self.flush(fragments)
        with uninterrupted(), self.guard():
            self.dataset = lance.LanceDataset.commit(
                self.dataset, change, read_version=self.version, max_retries=self.retries
            )
        self.record()

    def adopt(self) -> None:
        """Go on from a version that Lance has committed by itself, such as one with an index."""
        with self.guard():
            self.dataset = self.index.beside(PASSAGES)
        self.record()

    def flush(self, fragments: Sequence[lance.FragmentMetadata]) -> None:
        """Sync new files, before a manifest names them."""
        flush_files(self.folder, fragments)

    def record(self, former: Record | None = None) -> None:
        """Sync and record the newest version, with its files and those of its indices.

        Args:
            former: The record before; None for the last one.
        """
        self._record = flush(self.folder, self.dataset, former or self._record)

    def size_to_merge(self, fragments: int) -> int:
        """The size in rows to `compact` to, if so many fragments of about one size are smaller.

        0 if there are not so many.
        """
        crowds = fragments_by_size(self.dataset)
        return max((rows for rows, count in crowds.items() if count >= fragments), default=0)

    def compact(
        self,
        keep: timedelta = KEEP_VERSIONS,
        rows: int = ROWS_PER_FRAGMENT,
        groups: int | None = None,
    ) -> None:
        """Merge fragments of fewer rows, and drop versions that nobody should still read.

        A version is dropped once it was superseded longer than `keep` ago, or by more than
        `MOST_VERSIONS` others. A reader that calls `PassageStore.refresh` more often than that
        keeps its files.

        Args:
            rows: Size to merge fragments to.
            groups: Most groups of fragments to merge, so that other writers do not wait for long;
                each group becomes one fragment. None for all.
        """
        passages = self.folder / PASSAGES
        with self.guard():
            plan = Compaction.plan(self.dataset, {"target_rows_per_fragment": rows})
            done = [task.execute(self.dataset) for task in plan.tasks[:groups]]
            if done:
                self.flush([new for each in done for new in each.new_fragments])
                with uninterrupted():
                    Compaction.commit(self.dataset, done)
                    if self.dataset.describe_indices():  # which then need not be scanned beside
                        self.dataset.optimize.optimize_indices()
            self.record()  # before versions are dropped
            # The newest base stays, since later versions are layered on it.
            drop_superseded(passages, self.dataset, keep, *versions_in(self.folder)[:1])
            drop_derived(self.folder, {*numbers_in(passages)})
        digests = self._record.digests.items()
        remaining = {name: digest for name, digest in digests if (passages / name).exists()}
        self.record(Record(self.version, remaining))


def without_rows(
    fragments: Iterable[lance.LanceFragment], condition: str
) -> tuple[list[lance.FragmentMetadata], list[int]]:
    """Delete rows of fragments, without a commit.

    Returns:
        The fragments that keep other rows, and the numbers of those that keep none.
    """
    updated, emptied = [], []
    for fragment in fragments:
        if (metadata := fragment.delete(condition)) is None:
            emptied.append(fragment.fragment_id)
        else:
            updated.append(metadata)
    return updated, emptied


def new_fragments(
    rows: pa.RecordBatch, dataset: lance.LanceDataset
) -> list[lance.FragmentMetadata]:
    """Write rows to files of a dataset that no version names yet."""
    table = pa.Table.from_batches([rows])
    written = write_fragments(table, dataset, mode="append", return_transaction=True)
    return [*cast(lance.LanceOperation.Append, written.operation).fragments]
