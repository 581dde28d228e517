"""Migration: the index of another analyser at once, or the old one; what was done is done once."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import backends.store.migrate
from backends.documents import chunk_passage
from backends.errors import IndexDamagedError, IndexLockedError, IndexMismatchError
from backends.store.documents import Removal, remove
from backends.store.index import PassageStore, Writer
from backends.store.ingest import ingest
from backends.store.migrate import STAGED, MigrationReport, migrate
from backends.types import Passage
from benchmarks.hashing import HashAnalyser
from featurizer.types import PassageAnalysis

OLD = HashAnalyser()
NEW = HashAnalyser(12, name="other")


class Stopping(HashAnalyser):
    """Fails, as one that is killed, or does something after so many passages."""

    def __init__(self, after: int, then: BaseException | None = None) -> None:
        super().__init__(12, name="other")
        self.left = after
        self.then = then
        self.analysed: list[str] = []

    def analyse(self, passages: Sequence[Passage]) -> Iterator[PassageAnalysis]:  # type: ignore[override]
        for passage in passages:
            if self.then is not None and not self.left:
                raise self.then
            self.left -= 1
            self.analysed.append(passage.id)
            yield super()._analyse(passage)


def corpus() -> list[Passage]:
    long = Passage("long", "Long", "Anna met Bob. " * 30, {"y": 1})
    return [
        *(Passage(f"p{n:02}", f"Title {n}", f"Anna met Bob{n}.", {"y": n}) for n in range(20)),
        *chunk_passage(long, 20),
    ]


@pytest.fixture
def index(tmp_path: Path) -> PassageStore:
    made = PassageStore.create(tmp_path / "index", OLD.dimension, OLD.fingerprint)
    for passage in corpus()[5:]:
        ingest(made, [passage] if "#" not in passage.id else [], OLD)
    ingest(made, corpus(), OLD, entity_vectors=True)
    return made


def moved(index: PassageStore, analyser: HashAnalyser = NEW, batch: int = 512) -> MigrationReport:
    found = PassageStore.open(index.path)
    return migrate(found, analyser, analyser.dimension, batch_passages=batch)


def rows(index: PassageStore) -> list[dict[str, object]]:
    found: list[dict[str, object]] = index.snapshot().to_table().sort_by("id").to_pylist()
    return found


def from_nothing(folder: Path, passages: Sequence[Passage]) -> PassageStore:
    made = PassageStore.create(folder, NEW.dimension, NEW.fingerprint)
    ingest(made, passages, NEW, entity_vectors=True)
    return made


def test_it_is_the_index_of_the_other_analyser(index: PassageStore, tmp_path: Path) -> None:
    before = rows(index)
    report = moved(index)
    assert (report.is_switched, report.analysed) == (True, len(before))
    done = PassageStore.open(index.path, NEW.fingerprint)
    assert done.version == report.version == index.version + 1
    expected = from_nothing(tmp_path / "new", corpus())
    assert rows(done) == rows(expected)
    assert done.surfaces.count() == expected.surfaces.count() > 0
    done.check_content()
    assert not (index.path / STAGED).exists()
    assert rows(index) == before  # for whoever has the former version open
    again = moved(index)
    assert (again.is_switched, again.analysed, again.version) == (False, 0, report.version)
    assert moved(index, OLD).is_switched  # and back
    assert rows(PassageStore.open(index.path)) == before


def test_whoever_has_the_former_one_open_writes_no_more(index: PassageStore) -> None:
    moved(index)
    with pytest.raises(IndexMismatchError, match="was migrated to another analyser"):
        ingest(index, [Passage("new", "", "Carl met Dora.")], OLD)
    with pytest.raises(IndexMismatchError, match="Open it again"):
        index.refresh()
    assert remove(index.path, Removal(ids=("p00",)))[0] == ["p00"]


@pytest.mark.parametrize("batch", [1, 4, 512])
def test_it_goes_on_where_it_was_killed(index: PassageStore, batch: int, tmp_path: Path) -> None:
    before, version = rows(index), index.version
    killed = Stopping(9, MemoryError())
    with pytest.raises(MemoryError):
        moved(index, killed, batch)
    assert rows(PassageStore.open(index.path, OLD.fingerprint)) == before
    rest = Stopping(-1)
    assert moved(index, rest, batch).version == version + 1
    assert len(killed.analysed) == 9
    kept = 9 // batch * batch
    assert sorted([*killed.analysed[:kept], *rest.analysed]) == sorted(p.id for p in corpus())
    assert rows(PassageStore.open(index.path)) == rows(from_nothing(tmp_path / "new", corpus()))


def test_after_an_interruption_it_is_as_it_was(index: PassageStore) -> None:
    before = rows(index)
    report = moved(index, Stopping(3, KeyboardInterrupt()))
    assert (report.interrupted, report.is_switched, report.version) == (True, False, index.version)
    assert rows(PassageStore.open(index.path, OLD.fingerprint)) == before
    assert moved(index).analysed == len(before) - 3


def test_killed_as_it_switches(index: PassageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(index)
    commit = Writer._commit

    def killed(writer: Writer, *change: Any) -> None:  # noqa: ANN401
        if writer.folder == index.path:
            raise ZeroDivisionError
        commit(writer, *change)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_commit", killed)
        with pytest.raises(ZeroDivisionError):
            moved(index)
    assert rows(PassageStore.open(index.path, OLD.fingerprint)) == before
    with monkeypatch.context() as patch:
        patch.setattr(backends.store.migrate, "_end", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            moved(index, Stopping(0, MemoryError()))  # analyses nothing any more
    assert len(rows(PassageStore.open(index.path, NEW.fingerprint))) == len(before)
    assert not moved(index).is_switched
    assert not (index.path / STAGED).exists()
    assert PassageStore.open(index.path).surfaces.count()


def test_what_others_write_meanwhile_is_taken_along(
    index: PassageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends.store.migrate, "ROUND_SECONDS", -1.0)  # a document a round
    others = PassageStore.open(index.path)
    steps: list[Callable[[], object]] = [
        lambda: remove(index.path, Removal(documents=("p00",))),
        lambda: ingest(others, [Passage("p01", "Other", "Carl met Dora.")], OLD),
        lambda: ingest(others, [*chunk_passage(Passage("long", "", "Eve sat. " * 30), 20)], OLD),
        lambda: ingest(others, [Passage("p00", "Back", "Anna is back.")], OLD),
        lambda: ingest(others, [Passage("q", "Q", "Quinn met Rob.")], OLD),
        lambda: remove(index.path, Removal(ids=("q",))),
    ]

    class Written(HashAnalyser):
        def analyse(self, passages: Sequence[Passage]) -> list[PassageAnalysis]:
            found = super().analyse(passages)
            if steps:
                steps.pop(0)()
            return found

    moved(index, Written(12, name="other"))
    assert not steps
    expected = [
        Passage("p00", "Back", "Anna is back."),
        Passage("p01", "Other", "Carl met Dora."),
        *corpus()[2:20],
        *chunk_passage(Passage("long", "", "Eve sat. " * 30), 20),
    ]
    assert rows(PassageStore.open(index.path)) == rows(from_nothing(tmp_path / "new", expected))


def test_what_cannot_be(index: PassageStore) -> None:
    with pytest.raises(MemoryError):
        moved(index, Stopping(9, MemoryError()))
    third = HashAnalyser(name="third")
    with pytest.raises(IndexMismatchError, match=r"unfinished migration.*delete the folder"):
        moved(index, third)
    with index.writer(), pytest.raises(IndexLockedError):
        moved(index)
    data = max((index.path / "passages.lance" / "data").iterdir(), key=lambda p: p.stat().st_mtime)
    data.unlink()
    with pytest.raises(IndexDamagedError, match="wye repair"):
        moved(index)
