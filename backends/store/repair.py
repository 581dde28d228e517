"""Repair of a damaged index: damaged files are set aside, and nothing is deleted."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
from lance.file import LanceFileReader

from wye.backends.errors import IndexDamagedError, IndexNotFoundError
from wye.backends.files import writer_lock
from wye.backends.store.index import any_of, without_rows
from wye.backends.store.ingest import content_hash
from wye.backends.store.schema import LENGTH_COLUMN, to_passages
from wye.backends.store.versions import (
    PASSAGES,
    RECORD,
    Record,
    Survey,
    aside_folder,
    flush,
    flush_files,
    manifest_name,
    numbers_in,
    reading,
    set_aside,
    sizes_in,
)


@dataclass(frozen=True, slots=True)
class Repair:
    """The damage of an index, and what a repair does or did about it.

    Attributes:
        unlocked: Why a report was made without the lock, so that what another process was just
            writing may look like damage; "" if it held the lock.
    """

    damage: tuple[str, ...]  # a sentence each; if empty, nothing is done
    version: int  # to continue from
    without: tuple[int, ...]  # its fragments that are left out, as a file of theirs is damaged
    newest: int  # the highest number that any version has or had
    passages: int  # after the repair
    half: tuple[str, ...]  # documents of which chunks are lost; their other chunks are deleted
    lost: tuple[str, ...]  # documents lost, or other than in a damaged version; with `half`
    is_all: bool  # whether `lost` is complete; if not, a damaged file hides what it held
    aside: tuple[str, ...]  # files that are set aside, by their names in the index
    folder: Path  # that they are moved to
    unlocked: str


def repair(folder: Path, *, dry_run: bool) -> Repair:
    """Repair a damaged index as far as possible, or only report what would be done.

    The index continues from the last intact version, or from the newest that opens, without its
    damaged fragments, whichever has more passages. Commits after the former, or the content of the
    damaged fragments, are lost, and are reported as far as they are known.

    Raises:
        IndexNotFoundError: There is no index.
        IndexDamagedError: Nothing of it can be saved.
        IndexLockedError: Another process is writing to it.
        OSError: The disk refuses. A mere report does without the lock if it cannot be taken.
    """
    if not (folder / PASSAGES).is_dir():
        raise IndexNotFoundError(f"There is no index at {folder}. Check the path.")
    with ExitStack() as locks:
        unlocked = ""
        try:
            locks.enter_context(writer_lock(folder))
        except OSError as error:
            if not dry_run:
                raise
            unlocked = error.strerror or f"{error}"
        plan = _plan(Survey(folder, _check_hashes), unlocked)
        if plan.damage and not dry_run:
            _perform(folder, plan)
        return plan


def _check_hashes(fragment: lance.LanceFragment) -> None:
    """Compare passages with their stored hashes, or raise an `IndexDamagedError`."""
    name = next(iter(sizes_in([fragment.metadata])))
    with reading(name):
        rows = fragment.to_table()
        rows.validate(full=True)
        if rows["content_hash"].to_pylist() != [*map(content_hash, to_passages(rows))]:
            raise IndexDamagedError(f"{name} has other passages than were stored")


def _plan(survey: Survey, unlocked: str) -> Repair:
    folder, versions = survey.folder, [*survey.versions()]
    damage = [f"{survey.fault}."] if survey.fault else []
    never = " Its commit never finished, and no writer was told that it did."
    damage += [f"Version {v.number}: {v.fault}.{never * v.is_torn}" for v in versions if v.fault]
    if not versions and not damage:
        raise IndexNotFoundError(f"There is no index at {folder}. Check the path.")
    whole = [version for version in versions if not version.fault]
    opened = [version for version in versions if version.dataset is not None]
    choices = [*whole[:1], *(version for version in opened[:1] if version.good)]
    if not choices:
        raise IndexDamagedError(
            f"Nothing in {folder} can be recovered: {' '.join(damage)} Restore a backup, or index "
            "into a new folder."
        )
    base = max(choices, key=lambda version: _rows(version.good))
    half = _half_documents(base.good) if base.bad else {}
    passages = folder / PASSAGES
    paths = [*sorted(passages.glob("data/*")), *sorted(passages.glob("_deletions/*"))]
    files = [path.relative_to(passages).as_posix() for path in paths]
    used = _names(each for version in (base, *whole) for each in version.good)
    named = _names(each for version in opened for each in version.fragments)
    # What no version names is of a commit whose manifest cannot be read.
    unnamed = [name for name in files if name.startswith("data/") and name not in named]
    documents, is_all = _lost_documents(folder, base.good, [*opened[0].fragments, *unnamed])
    aside = [f"{PASSAGES}/{manifest_name(version.number)}" for version in versions if version.fault]
    aside += [f"{PASSAGES}/{RECORD}"] if survey.fault else []
    aside += [f"{PASSAGES}/{name}" for name in files if damage and name not in used]
    return Repair(
        damage=tuple(damage),
        version=base.number,
        without=base.bad,
        newest=versions[0].number,
        passages=_rows(base.good) - sum(half.values()),
        half=tuple(half),
        lost=tuple(sorted({*documents, *half})),
        is_all=is_all and opened[0] is versions[0],
        aside=tuple(name for name in aside if (folder / name).exists()),
        folder=aside_folder(folder),
        unlocked=unlocked,
    )


def _lost_documents(
    folder: Path,
    fragments: Iterable[lance.LanceFragment],
    sources: Sequence[lance.LanceFragment | str],
) -> tuple[set[str], bool]:
    """Documents of which only the sources have passages, and whether all sources could be read."""
    stored = {key for fragment in fragments for key in _keys(folder, fragment)}
    keys, is_all = set[tuple[str, str]](), True
    for source in sources:
        try:
            keys |= _keys(folder, source) - stored
        except IndexDamagedError:
            is_all = False
    return {document for document, _ in keys}, is_all


def _keys(folder: Path, source: lance.LanceFragment | str) -> set[tuple[str, str]]:
    """Documents and hashes of the passages in a fragment, or in a data file."""
    columns = ["document", "content_hash"]
    with reading(folder):
        if isinstance(source, str):
            reader = LanceFileReader(str(folder / PASSAGES / source), columns=columns)
            rows = reader.read_all().to_table()
        else:
            rows = source.to_table(columns=columns)
        return {*zip(*(column.to_pylist() for column in rows.columns), strict=True)}


def _half_documents(fragments: Sequence[lance.LanceFragment]) -> dict[str, int]:
    """Documents of which chunks are missing -> number of those that are there.

    An index without the number of chunks tells only of gaps, and not that the last are missing.
    """
    columns = ["chunk", *({LENGTH_COLUMN} & {*fragments[0].schema.names})]
    rows = pa.concat_tables(each.to_table(columns=["document", *columns]) for each in fragments)
    aggregates = [("chunk", "count_distinct"), *((name, "max") for name in columns)]
    half: dict[str, int] = {}
    for document in rows.group_by("document").aggregate(aggregates).to_pylist():
        count = document["chunk_count_distinct"]
        if count < max(1 + document["chunk_max"], document.get(f"{LENGTH_COLUMN}_max") or 0):
            half[document["document"]] = count
    return half


def _perform(folder: Path, plan: Repair) -> None:
    passages = folder / PASSAGES
    later = [number for number in numbers_in(passages) if number > plan.version]
    set_aside(folder, [f"{PASSAGES}/{manifest_name(n)}" for n in later], plan.folder)
    with reading(folder, also=()):
        dataset = lance.dataset(passages, version=plan.version)
        if plan.without:
            condition, fragments = any_of("document", plan.half), dataset.get_fragments()
            good = [each for each in fragments if each.fragment_id not in plan.without]
            updated, emptied = without_rows(good, condition) if plan.half else ([], [])
            flush_files(folder, updated)
            change = lance.LanceOperation.Delete(updated, [*plan.without, *emptied], condition)
            dataset = lance.LanceDataset.commit(dataset, change, read_version=plan.version)
        # A new number, so that no reader takes the result for a damaged version that it has read.
        while dataset.version <= plan.newest and plan.version != plan.newest:
            dataset.restore()  # type: ignore[no-untyped-call]
    set_aside(folder, [name for name in plan.aside if (folder / name).exists()], plan.folder)
    flush(folder, dataset, Record())


def _names(fragments: Iterable[lance.LanceFragment]) -> set[str]:
    return {*sizes_in(fragment.metadata for fragment in fragments)}


def _rows(fragments: Iterable[lance.LanceFragment]) -> int:
    return sum(int(fragment.metadata.num_rows) for fragment in fragments)
