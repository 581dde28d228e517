"""Repair of a damaged index: damaged files are set aside, and nothing is deleted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import lance
from lance.file import LanceFileReader

from wye.backends.errors import IndexDamagedError, IndexNotFoundError
from wye.backends.store.entity_vectors import FOLDER as SURFACES
from wye.backends.store.entity_vectors import open_surfaces
from wye.backends.store.schema import LENGTH_COLUMN, any_of, content_hash, to_passages
from wye.backends.store.versions import (
    PASSAGES,
    RECORD,
    Record,
    aside_folder,
    check_sizes,
    flush,
    flush_files,
    manifest_name,
    numbers_in,
    open_version,
    read_record,
    reading,
    reading_file,
    set_aside,
    sizes_in,
    sizes_of,
    why_changed,
)
from wye.backends.store.writer import writer_lock


@dataclass(frozen=True, slots=True)
class Repair:
    """The damage of an index, and what a repair does or did about it.

    Attributes:
        damage: Descriptions of the damage, a sentence each; if empty, nothing is done.
        version: The version to continue from.
        without: Its fragments that are left out, since a file of theirs is damaged.
        newest: The highest number that any version has or had.
        passages: Number of passages after the repair.
        lost: Documents that are lost or differ from a damaged version, ascending.
        is_all: Whether `lost` is complete; if not, a damaged file hides what it held.
        aside: Files that are set aside, by their names in the index.
        folder: Folder that they are moved to.
        unlocked: Why a report was made without the lock, so that what another process was just
            writing may look like damage; "" if it held the lock.
    """

    damage: tuple[str, ...]
    version: int
    without: tuple[int, ...]
    newest: int
    passages: int
    lost: tuple[str, ...]
    is_all: bool
    aside: tuple[str, ...]
    folder: Path
    unlocked: str = ""


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
    with ExitStack() as held:
        unlocked = ""
        try:
            held.enter_context(writer_lock(folder))
        except OSError as error:
            if not dry_run:
                raise
            unlocked = error.strerror or f"{error}"
        survey = _Survey(folder)
        plan = replace(survey.plan(), unlocked=unlocked)
        if plan.damage and not dry_run:
            _perform(folder, plan, survey)
        return plan


class _Survey:
    """An inspection of everything in `passages.lance`, byte by byte."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damage: list[str] = []
        self.record = Record()
        try:
            self.record = read_record(folder)
        except IndexDamagedError as error:
            self.damage.append(f"{error}.")
        self._numbers = numbers_in(folder / PASSAGES)
        self._whole: list[int] = []
        self._opened: dict[int, lance.LanceDataset] = {}
        self._why: dict[str, str] = {}
        self.half: dict[str, int] = {}  # documents with chunks that are left out -> chunks kept
        if not self._numbers and not self.record.version and not self.damage:
            raise IndexNotFoundError(f"There is no index at {folder}. Check the path.")
        self._look()

    def plan(self) -> Repair:
        """The repair to do."""
        newest = max([self.record.version, *self._numbers])
        version, without = self._best()
        broken = [number for number in self._numbers if number not in self._whole]
        dataset = self._opened[version]
        good = [f for f in dataset.get_fragments() if f.fragment_id not in without]
        self.half = self._half_documents(good) if without else {}
        needed = {*sizes_in(fragment.metadata for fragment in good)}
        for number in self._whole:
            needed |= {*sizes_of(self._opened[number])}
        others = [
            path.relative_to(self.folder / PASSAGES).as_posix()
            for name in ("data", "_deletions")
            for path in sorted((self.folder / PASSAGES / name).glob("*"))
        ]
        aside = [manifest_name(number) for number in broken]
        if self.damage:
            aside += [name for name in others if name not in needed]
        if any(RECORD in why for why in self.damage):
            aside += [RECORD] if (self.folder / PASSAGES / RECORD).exists() else []
        lost, is_all = self._lost(aside, good)
        cache = self._damaged_cache()
        return Repair(
            damage=tuple(self.damage),
            version=version,
            without=without,
            newest=newest,
            passages=_rows(good) - sum(self.half.values()),
            lost=tuple(sorted(lost | self.half.keys())),
            is_all=is_all
            and all(n in self._opened for n in range(version, newest + 1))
            and not any("is missing" in why for why in self._why.values()),
            aside=(*(f"{PASSAGES}/{name}" for name in aside), *cache),
            folder=aside_folder(self.folder),
        )

    def _look(self) -> None:
        """Find the intact versions, and describe the damage of the others."""
        for number in self._numbers:
            try:
                dataset = open_version(self.folder, number, self.record, self._open)
                self._opened[number] = dataset
                self._check(dataset)
                self._whole.append(number)
            except IndexDamagedError as error:
                sentence = f"Version {number}: {error}."
                if 0 < self.record.version < number:
                    sentence += " Its commit never finished, and no writer was told that it did."
                self.damage.append(sentence)
        if self.record.version and self.record.version not in self._numbers:
            later = any(number > self.record.version for number in self._whole)
            if not later:
                self.damage.append(
                    f"Version {self.record.version}, which was committed last: "
                    f"{manifest_name(self.record.version)} is missing."
                )

    def _open(self, number: int) -> lance.LanceDataset:
        return lance.dataset(self.folder / PASSAGES, version=number)

    def _check(self, dataset: lance.LanceDataset) -> None:
        for fragment in dataset.get_fragments():
            if why := self._why_bad(fragment):
                raise IndexDamagedError(why)

    def _why_bad(self, fragment: lance.LanceFragment) -> str:
        """Why a fragment cannot be used; "" if it can."""
        names = sizes_in([fragment.metadata])
        key = " ".join(names)
        if key not in self._why:
            self._why[key] = self._find_why(fragment, names)
        return self._why[key]

    def _find_why(self, fragment: lance.LanceFragment, names: dict[str, int | None]) -> str:
        try:
            check_sizes(self.folder / PASSAGES, names)
            for name in names:
                if why := why_changed(self.folder, name, self.record):
                    return why
            if not self.record.digests.keys() >= names.keys():  # the record has no digests
                with reading_file(next(iter(names))):
                    rows = fragment.to_table()
                    rows.validate(full=True)
                    hashes = rows["content_hash"].to_pylist()
                    if hashes != [content_hash(p) for p in to_passages(rows)]:
                        return f"{next(iter(names))} has other passages than were stored"
        except IndexDamagedError as error:
            return f"{error}"
        return ""

    def _best(self) -> tuple[int, tuple[int, ...]]:
        """The version to continue from, and its fragments that are left out."""
        choices: list[tuple[int, int, tuple[int, ...]]] = []
        for number in self._whole[:1]:
            choices.append((_rows(self._opened[number].get_fragments()), number, ()))
        for number in list(self._opened)[:1]:
            fragments = self._opened[number].get_fragments()
            bad = tuple(f.fragment_id for f in fragments if self._why_bad(f))
            good = [f for f in fragments if f.fragment_id not in bad]
            if good and number not in self._whole:
                choices.append((_rows(good), number, bad))
        if not choices:
            raise IndexDamagedError(
                f"Nothing in {self.folder} can be recovered: {' '.join(self.damage)} Restore a "
                "backup, or index into a new folder."
            )
        _, version, without = max(choices, key=lambda choice: choice[0])
        return version, without

    def _half_documents(self, fragments: Sequence[lance.LanceFragment]) -> dict[str, int]:
        """Documents with missing chunks, which were in the fragments that are left out.

        An index without the number of chunks tells only of gaps, and not that the last are missing.

        Returns:
            Document -> number of its chunks that are there.
        """
        chunks = defaultdict[str, set[int]](set)
        lengths = defaultdict[str, int](int)
        for document, chunk in self._pairs(fragments, "chunk"):
            chunks[document].add(int(chunk))
        if fragments and LENGTH_COLUMN in fragments[0].schema.names:
            for document, length in self._pairs(fragments, LENGTH_COLUMN):
                lengths[document] = max(lengths[document], int(length or 0))
        return {
            id_: len(numbers)
            for id_, numbers in chunks.items()
            if len(numbers) < lengths[id_] or numbers != {*range(len(numbers))}
        }

    def _lost(
        self, aside: Iterable[str], intact: Iterable[lance.LanceFragment]
    ) -> tuple[set[str], bool]:
        """Documents in files to set aside that no intact fragment has; and whether that is all."""
        pairs = {*self._pairs(intact, "content_hash")}
        fragments = {
            f"data/{file.path}": (age, fragment)
            for age, number in reversed([*enumerate(self._opened.values())])
            for fragment in number.get_fragments()
            for file in fragment.metadata.files
        }
        lost: set[str] = set()
        is_all = True
        for name in aside:
            if not name.startswith("data/"):
                continue
            age, fragment = fragments.get(name, (0, None))
            if age:  # the newest version that opens does not use it
                continue
            try:
                stated = self._pairs([fragment], "content_hash") if fragment else self._raw(name)
                lost.update(
                    document for document, hash_ in stated if (document, hash_) not in pairs
                )
            except IndexDamagedError:
                is_all = False
        return lost, is_all

    def _raw(self, name: str) -> list[tuple[str, ...]]:
        """Documents and hashes in a data file, deleted rows included."""
        with reading(self.folder):
            reader = LanceFileReader(
                str(self.folder / PASSAGES / name), columns=["document", "content_hash"]
            )
            rows = reader.read_all().to_table()
            return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def _pairs(
        self, fragments: Iterable[lance.LanceFragment], column: str
    ) -> Iterator[tuple[str, ...]]:
        for fragment in fragments:
            with reading(self.folder):
                rows = fragment.to_table(columns=["document", column])
                pairs = list(zip(*(each.to_pylist() for each in rows.columns), strict=True))
            yield from pairs

    def _damaged_cache(self) -> list[str]:
        """The folder of the entity vector cache if it cannot be read; it is filled again."""
        if not (self.folder / SURFACES).is_dir():
            return []
        try:
            with reading(self.folder):
                open_surfaces(self.folder).to_table()
        except IndexDamagedError:
            self.damage.append(f"{SURFACES} cannot be read; it is a cache, and is rebuilt.")
            return [SURFACES]
        return []


def _perform(folder: Path, plan: Repair, survey: _Survey) -> None:
    first = [
        f"{PASSAGES}/{manifest_name(number)}"
        for number in numbers_in(folder / PASSAGES)
        if number > plan.version
    ]
    set_aside(folder, first, plan.folder)
    digests = {
        name: digest
        for name, digest in survey.record.digests.items()
        if (folder / PASSAGES / name).exists() and f"{PASSAGES}/{name}" not in plan.aside
    }
    with reading(folder, also=()):
        dataset = lance.dataset(folder / PASSAGES, version=plan.version)
        if plan.without:
            condition, gone = any_of("document", survey.half), [*plan.without]
            updated: list[lance.FragmentMetadata] = []
            intact = (f for f in dataset.get_fragments() if f.fragment_id not in plan.without)
            for fragment in intact if survey.half else ():
                if (left := fragment.delete(condition)) is None:
                    gone.append(fragment.fragment_id)
                else:
                    updated.append(left)
            flush_files(folder, updated)
            change = lance.LanceOperation.Delete(updated, gone, condition)
            dataset = lance.LanceDataset.commit(dataset, change, read_version=plan.version)
        # A new number, so that no reader takes the result for a damaged version that it has read.
        while dataset.version <= plan.newest and plan.version != plan.newest:
            dataset.restore()  # type: ignore[no-untyped-call]
    set_aside(folder, [name for name in plan.aside if (folder / name).exists()], plan.folder)
    flush(folder, dataset, Record(dataset.version, digests))


def _rows(fragments: Iterable[lance.LanceFragment]) -> int:
    return sum(int(fragment.metadata.num_rows) for fragment in fragments)
