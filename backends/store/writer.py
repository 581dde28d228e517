"""Writing to an index: one writer at a time, and what a write changes.

The lock is an OS lock on `writer.lock`, so `kill -9` leaves nothing to clean up. Beside it
`writer.json` says who took it. The note is only used in messages, so one that a killed process left
behind does no harm. Each commit is atomic, and on the disk when the method that makes it returns.
"""

import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import current_thread, main_thread
from typing import cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock, Timeout
from lance.fragment import write_fragments
from lance.optimize import Compaction

from wye.backends.errors import IndexLockedError
from wye.backends.store.derived import drop_derived, latest_version
from wye.backends.store.entity_vectors import FOLDER as SURFACES
from wye.backends.store.entity_vectors import EntityVectorCache
from wye.backends.store.schema import any_of
from wye.backends.store.versions import (
    PASSAGES,
    Record,
    flush,
    flush_files,
    manifest_name,
    numbers_in,
    reading,
)

LOCK = "writer.lock"
NOTE = "writer.json"

# Fragments of this size are not merged further, so that writes never wait long for a merge. With a
# million rows, larger ones make questions no faster, and a write less than 0.1 s faster.
ROWS_PER_FRAGMENT = 8_192
# A write merges fragments below one of these sizes, and leaves larger ones alone. So rows that are
# written one by one are each rewritten only a few times.
TIERS = (1_024, ROWS_PER_FRAGMENT)
KEEP_VERSIONS = timedelta(hours=1)
# A process that follows an index holds some kilobytes for each: with many small writes, an hour of
# versions would take megabytes.
MOST_VERSIONS = 1_000
_LEAST_DROPPED = 0.25
"""Versions are dropped only if at least this share of them can be."""


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of an index folder, which must exist.

    Raises:
        IndexLockedError: Another writer, in this process or another, holds it; says who.
    """
    # Without `fallback_to_soft`, a file system without locks is an error, not a lock file that a
    # killed process would leave behind for good.
    lock = FileLock(folder / LOCK, blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as refused:
        holder = writing(folder, command=True) or "another process"
        raise IndexLockedError(
            f"Index {folder} is being written by {holder}. "
            "Wait until that ends, or stop it, and try again."
        ) from refused
    try:
        _sign(folder)
        yield
    finally:
        with suppress(OSError):  # a note left behind does no harm
            (folder / NOTE).unlink()
        lock.release()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends.

    Lance would raise at once and go on with a commit in another thread, maybe after the lock was
    given back.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or current_thread() is not main_thread():
        yield  # nothing is raised here
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(pressed[0])


def writing(folder: Path, *, command: bool = False) -> str:
    """Which process is writing to an index, according to its note; "" for none."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        if note["host"] == socket.gethostname():
            with suppress(PermissionError):  # another user's process
                os.kill(note["pid"], 0)
        who = f"process {note['pid']} on {note['host']} since {note['since']}"
        return f"{who}: {note['command']}" if command else who
    except (OSError, ValueError, KeyError, TypeError):  # nobody, or a killed process
        return ""


def _sign(folder: Path) -> None:
    """Write the note of who holds the lock."""
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


class Writer:
    """Writes to an index, whose lock is held for as long as the `with` block runs.

    Attributes:
        dataset: The newest version, including this writer's commits, for reading.
    """

    def __init__(
        self, folder: Path, dataset: lance.LanceDataset, record: Record, surfaces: EntityVectorCache
    ) -> None:
        """Start from the newest version; `PassageStore.writer` makes one and takes the lock."""
        self.folder = folder
        self.dataset = dataset
        self._record = record
        self.surfaces = surfaces

    @property
    def version(self) -> int:
        """Number of the newest version."""
        return int(self.dataset.version)

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
        if not rows.num_rows:
            return self.delete(stale)
        ids = rows.column("id").to_pylist()
        if len({*ids, *stale}) != len(ids) + len(stale):
            raise ValueError("An id may occur only once in the rows to write and the stale ids")
        # Lance's own merge also reads the ids of all passages where every row is a new one.
        gone = [*(ids if replaced is None else replaced), *stale]
        with reading(self.folder, also=()):
            written = write_fragments(
                pa.Table.from_batches([rows]), self.dataset, mode="append", return_transaction=True
            )
        new = cast(lance.LanceOperation.Append, written.operation).fragments
        stored, updated, emptied = self._without(gone)
        self._commit(
            lance.LanceOperation.Update(emptied, updated, [*new], [], []), [*new, *updated]
        )
        return len(stored.difference(ids))

    def delete(self, ids: Sequence[str]) -> int:
        """Delete passages by id; unknown ids are ignored.

        Returns:
            The number of deleted passages; if it is 0, there is no new version.
        """
        if not ids:
            return 0
        stored, updated, emptied = self._without(ids)
        if stored:
            condition = any_of("id", ids)
            self._commit(lance.LanceOperation.Delete(updated, emptied, condition), updated)
        return len(stored)

    def _without(
        self, ids: Sequence[str]
    ) -> tuple[set[str], list[lance.FragmentMetadata], list[int]]:
        """Delete ids from fragments, without a commit.

        Returns:
            Those that are stored, the fragments that keep other rows, and the numbers of those
            that keep none.
        """
        if not ids:
            return set(), [], []
        condition = any_of("id", ids)
        updated, emptied = [], []
        with reading(self.folder, also=()):
            # A scan of all fragments is as fast as one of a single fragment.
            matches = self.dataset.to_table(["id"], filter=condition, with_row_address=True)
            holding = {*pc.unique(pc.shift_right(matches["_rowaddr"], 32)).to_pylist()}
            for fragment in self.dataset.get_fragments():
                if fragment.fragment_id in holding:
                    metadata = fragment.delete(condition)
                    if metadata is None:
                        emptied.append(fragment.fragment_id)
                    else:
                        updated.append(metadata)
            return {*matches["id"].to_pylist()}, updated, emptied

    def _commit(
        self,
        change: lance.LanceOperation.BaseOperation,
        fragments: Sequence[lance.FragmentMetadata],
    ) -> None:
        """Commit a version; its files are synced before its manifest names them."""
        flush_files(self.folder, fragments)
        with uninterrupted(), reading(self.folder, also=()):
            self.dataset = lance.LanceDataset.commit(
                self.dataset, change, read_version=self.version
            )
        self._flush()

    def _flush(self) -> None:
        self._record = flush(self.folder, self.dataset, self._record)

    def crowded(self, fragments: int) -> int:
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
        with reading(self.folder, also=()):
            plan = Compaction.plan(self.dataset, {"target_rows_per_fragment": rows})
            done = [task.execute(self.dataset) for task in plan.tasks[:groups]]
            if done:
                flush_files(self.folder, [new for each in done for new in each.new_fragments])
                with uninterrupted():
                    Compaction.commit(self.dataset, done)
            self._flush()  # before versions are dropped
            # The newest base stays, since later versions are layered on it.
            _drop_superseded(passages, self.dataset, keep, latest_version(self.folder))
            drop_derived(self.folder, {*numbers_in(passages)})
        digests = self._record.digests.items()
        remaining = {name: digest for name, digest in digests if (passages / name).exists()}
        self._record = Record(self.version, remaining)
        self._flush()
        surfaces = self.surfaces.dataset()
        if surfaces is not None:
            # A surface takes at most an eighth of a passage's space.
            surfaces.optimize.compact_files(target_rows_per_fragment=8 * ROWS_PER_FRAGMENT)
            _drop_superseded(self.folder / SURFACES, surfaces, keep)


def fragments_by_size(dataset: lance.LanceDataset) -> dict[int, int]:
    """Size in rows to merge to -> number of fragments of that tier."""
    sizes = [fragment.metadata.num_rows for fragment in dataset.get_fragments()]
    return {
        most: sum(least <= size < most for size in sizes) for least, most in pairwise((0, *TIERS))
    }


def _drop_superseded(
    folder: Path, dataset: lance.LanceDataset, keep: timedelta, base_version: int = 0
) -> None:
    """Delete versions superseded longer than `keep` ago, but not `base_version`, and unused files.

    Lance's own `older_than` goes by the time of writing: it would drop last week's version, which
    was the newest until a second ago and which every reader still holds. Since Lance reads the
    manifests of all versions, a few are not worth dropping.
    """
    horizon = (datetime.now(UTC) - keep).timestamp()
    numbers = numbers_in(folder)
    superseded = [
        number
        for age, (successor, number) in enumerate(pairwise(numbers), start=1)
        if age >= MOST_VERSIONS or (folder / manifest_name(successor)).stat().st_mtime < horizon
        if number != base_version
    ]
    if len(superseded) >= _LEAST_DROPPED * len(numbers):
        dataset.cleanup_old_versions(
            versions=superseded,
            # Versions that were tagged with Lance's own tools are kept, without an error.
            error_if_tagged_old_versions=False,
            # Also deletes files of killed writers; we hold the lock, so no writer is active.
            delete_unverified=True,
        )
