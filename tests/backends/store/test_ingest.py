"""Ingest: only what changed is analysed, stale chunks go, and interruptions leave whole windows."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import wye.backends.store.index
import wye.backends.store.ingest
import wye.backends.store.versions
from benchmarks.crash import OPERATIONS, Bench
from tests.backends.store.conftest import Counting, new_index
from tests.hashing import HashAnalyser
from tests.stored import fetch
from wye.backends.documents import chunk_passage
from wye.backends.errors import IndexLockedError, IndexMismatchError, SourceError
from wye.backends.store.corpus import read_corpus
from wye.backends.store.documents import Removal, list_documents, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.schema import LENGTH_COLUMN
from wye.backends.types import Passage


class Recorder:
    def __init__(self) -> None:
        self.said: list[object] = []

    def start(self, total: int | None, label: str) -> None:
        self.said.append((total, label))

    def advance(self, steps: int) -> None:
        self.said.append(steps)

    def close(self) -> None:
        self.said.append("closed")


@pytest.fixture
def analyser() -> Counting:
    return Counting()


def corpus(count: int) -> list[Passage]:
    return [Passage(f"p{n}", f"Title {n} (film)", f"Anna met Bob{n}.") for n in range(count)]


def chunks(document: str, *texts: str) -> list[Passage]:
    return [Passage(f"{document}#{n}", "T", text, {}, document, n) for n, text in enumerate(texts)]


def ids(index: PassageStore) -> list[str]:
    return sorted(index.newest().snapshot().to_table(columns=["id"])["id"].to_pylist())


def test_a_second_run_has_nothing_to_do(index: PassageStore, analyser: Counting) -> None:
    first = ingest(index, corpus(25), analyser, batch_passages=10)
    assert (first.added, first.updated, first.unchanged, first.removed) == (25, 0, 0, 0)
    assert (index.newest().version, index.newest().count()) == (first.version, 25)
    second = ingest(index, corpus(25), analyser, batch_passages=10)
    assert (second.added, second.updated, second.unchanged) == (0, 0, 25)
    assert second.version == first.version
    assert len(analyser.analysed) == 25


def test_only_what_changed_is_analysed_again(index: PassageStore, analyser: Counting) -> None:
    passages = corpus(6)
    ingest(index, passages, analyser)
    analyser.analysed.clear()
    passages[2] = replace(passages[2], text="New.")
    passages[4] = replace(passages[4], metadata={"year": 1999})
    report = ingest(index, [*passages, Passage("new", "", "Newer.")], analyser, batch_passages=2)
    assert (report.added, report.updated, report.unchanged) == (1, 2, 4)
    assert analyser.analysed == ["p2", "new"]
    assert fetch(index, ["p4", "p2"]) == [passages[4], passages[2]]


def test_each_chunk_says_how_many_its_document_has(index: PassageStore, analyser: Counting) -> None:
    """Windows end with a document; a new number is written without the models."""

    def lengths() -> dict[str, int | None]:
        rows = index.newest().snapshot().to_table(columns=["id", LENGTH_COLUMN]).to_pylist()
        return {row["id"]: row[LENGTH_COLUMN] for row in rows}

    ingest(index, [*chunks("a", "A.", "B.", "C."), *corpus(1)], analyser, batch_passages=1)
    assert lengths() == {"a#0": 3, "a#1": 3, "a#2": 3, "p0": 1}
    analyser.analysed.clear()
    report = ingest(index, chunks("a", "A.", "B.", "C.", "D."), analyser)
    assert (report.added, report.updated, report.unchanged, report.removed) == (1, 0, 3, 0)
    assert analyser.analysed == ["a#3"]
    before = report.version
    report = ingest(index, chunks("a", "A.", "X."), analyser)
    assert (report.added, report.updated, report.unchanged, report.removed) == (0, 1, 1, 2)
    assert report.version == before + 1  # its former chunks go in the same commit
    assert analyser.analysed == ["a#3", "a#1"]
    assert lengths() == {"a#0": 2, "a#1": 2, "p0": 1}
    apart = chunks("a", "A.", "X.", "C.")
    ingest(index, [*apart[:2], Passage("q", "", "Q."), apart[2]], analyser)
    assert lengths() == {"a#0": 2, "a#1": 2, "a#2": None, "p0": 1, "q": 1}


def test_metadata_change_without_the_models_and_leave_the_same_rows(
    index: PassageStore, tmp_path: Path, analyser: Counting
) -> None:
    passages = [*corpus(4), Passage("bare", "", "nothing named here")]
    ingest(index, passages, analyser)
    analyser.analysed.clear()
    dated = [replace(passage, metadata={"modified": "2026-01-02"}) for passage in passages]
    report = ingest(index, dated, analyser)
    assert (report.updated, analyser.analysed) == (5, [])
    other = new_index(tmp_path / "other")
    ingest(other, dated, HashAnalyser())
    rows = [found.newest().snapshot().to_table().sort_by("id") for found in (index, other)]
    assert rows[0].equals(rows[1])


parts_of_a = ("a", "a#0000", "a#0001", "a#0002", "a#0001#0000", "a#00001", "a#1", "a#0001\n")
names = st.sampled_from([*parts_of_a, "\xe4#\u0661\u0662\u0663\u0664"]) | st.text(
    "a#01'\xe9", min_size=1, max_size=9
)
sentences = st.lists(st.sampled_from(["One fish.", "Two fish."]), min_size=1, max_size=4)
documents = st.builds(lambda id_, said: Passage(id_, "T", " ".join(said)), names, sentences)
changes = st.tuples(st.lists(documents, min_size=1, max_size=4), st.just(False)) | st.tuples(
    st.sets(names, max_size=3), st.just(True)
)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.lists(changes, min_size=1, max_size=6), st.sampled_from([1, 2, 100]))
@example(
    [([Passage("a", "T", "One fish. Two fish."), Passage("a#0001", "T", "One fish.")], False)], 1
)
def test_every_document_reads_back_as_it_was_last_stored_whatever_the_others_are_called(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[Any, bool]], window: int
) -> None:
    index = new_index(tmp_path_factory.mktemp("index"))
    expected: dict[str, list[tuple[int, str]]] = {}
    for what, is_removed in made:
        if is_removed:
            remove(index.path, Removal(documents=tuple(what)))
            expected = {id_: parts for id_, parts in expected.items() if id_ not in what}
        else:
            parts = {d.id: list(chunk_passage(d, 2)) for d in reversed(what)}
            said = [part for d in what for part in chunk_passage(d, 2)]
            if len(parts) == len(what):  # late chunks are none that came up before
                said.sort(key=lambda part: -part.chunk)
            report = ingest(index, said, HashAnalyser(), batch_passages=window)
            assert report.repeated == len(said) - sum(map(len, parts.values()))
            for id_, own in parts.items():
                expected[id_] = [(part.chunk, part.text) for part in own]
        ids(index)
        stored = {each.id: each for each in list_documents(index.path).documents}
        assert {
            id_: [(part.chunk, part.text) for part in each.passages] for id_, each in stored.items()
        } == expected
        of = {part.id: part.document for each in stored.values() for part in each.passages}
        assert ids(index) == sorted(of)
        for id_, document in of.items():
            assert document in (id_, id_.rpartition("#")[0])


def test_passages_take_no_ids_of_other_documents(index: PassageStore, analyser: Counting) -> None:
    mine, yours = Passage("p", "", "Mine.", {}, "mine", 1), Passage("p", "", "Yours.", {}, "yours")
    ingest(index, [mine], analyser)
    for taken in (yours, Passage("p", "", "Whole.")):
        with pytest.raises(SourceError, match=r"'p' of document .* of document 'mine'\."):
            ingest(index, [taken], analyser)
    with pytest.raises(SourceError, match="of document 'yours'"):
        ingest(index, [replace(yours, id="q"), replace(mine, id="q")], analyser)
    index = index.newest()
    assert fetch(index, ["p", "q"]) == [mine]


def test_names_and_titles_get_vectors_on_demand(index: PassageStore, analyser: Counting) -> None:
    names = ["Anna", "Bob0", "Bob1", "Title 0", "Title 0 (film)", "Title 1", "Title 1 (film)"]
    ingest(index, corpus(2)[:1], analyser)
    assert np.isnan(read_corpus(index.newest()).surface_vectors(names)).all()
    ingest(index, corpus(2)[1:], analyser, entity_vectors=True)
    vectors = read_corpus(index.newest()).surface_vectors([*names, "nobody"])
    absent = [1, 3, 4, 7]
    assert np.flatnonzero(np.isnan(vectors).any(axis=1)).tolist() == absent
    expected = analyser.encode_surfaces([*names, "nobody"]).astype(np.float16)
    assert np.array_equal(np.delete(vectors, absent, 0), np.delete(expected, absent, 0))


@pytest.mark.parametrize("vectors", [False, True])
def test_what_is_read_does_not_grow_with_the_index(
    tmp_path: Path, analyser: Counting, monkeypatch: pytest.MonkeyPatch, vectors: bool
) -> None:
    """A document is compared with what is stored of it, and its index opened once."""
    read: list[int] = []
    opened: list[Path] = []
    to_table, to_batches = lance.LanceDataset.to_table, lance.LanceDataset.to_batches
    open_dataset = lance.dataset

    def noted(rows: Any) -> Any:  # noqa: ANN401
        read.append(rows.num_rows * rows.num_columns)
        return rows

    def noted_open(path: Path, *args: Any, **options: Any) -> lance.LanceDataset:  # noqa: ANN401
        opened.append(path)
        return open_dataset(path, *args, **options)

    monkeypatch.setattr(lance.LanceDataset, "to_table", lambda *a, **k: noted(to_table(*a, **k)))
    monkeypatch.setattr(
        lance.LanceDataset, "to_batches", lambda *a, **k: map(noted, to_batches(*a, **k))
    )
    monkeypatch.setattr(lance, "dataset", noted_open)
    costs = []
    for size in (10, 300):
        folder = tmp_path / f"of{size}"
        stored = [*corpus(size), *chunks("a", "1", "2")]
        ingest(new_index(folder), stored, analyser, entity_vectors=vectors)
        read.clear()
        opened.clear()
        index = PassageStore.open(folder)
        report = ingest(index, chunks("a", "one"), analyser, entity_vectors=vectors)
        assert (report.updated, report.removed) == (1, 1)
        assert opened.count(folder / "passages.lance") == 1
        remove(folder, Removal(ids=("p1",), documents=("a",)))
        costs.append(sum(read))
    assert costs[0] == costs[1] < 30


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk gone")], ids=repr)
def test_the_windows_that_were_stored_are_kept_whatever_ends_the_source(
    index: PassageStore, analyser: Counting, error: BaseException
) -> None:
    def broken() -> Iterator[Passage]:
        yield from corpus(25)
        raise error

    recorder = Recorder()
    if isinstance(error, KeyboardInterrupt):
        report = ingest(index, broken(), analyser, batch_passages=10, progress=recorder)
        assert (report.interrupted, report.added, index.newest().count()) == (True, 20, 20)
    else:
        with pytest.raises(OSError, match="disk gone"):
            ingest(index, broken(), analyser, batch_passages=10, progress=recorder)
    assert [n for n in recorder.said if n != 0] == [(None, "passages"), *[1] * 20, "closed"]
    assert len(ids(index)) == 20
    rest = ingest(index, corpus(25), analyser)
    assert (rest.added, rest.unchanged, rest.interrupted) == (5, 20, False)


def test_ctrl_c_in_the_middle_of_a_window_keeps_what_is_analysed(index: PassageStore) -> None:
    recorder, pressed = Recorder(), Counting(most=7, end=KeyboardInterrupt)
    report = ingest(index, corpus(25), pressed, progress=recorder)
    assert (report.interrupted, report.added, report.updated) == (True, 7, 0)
    assert index.newest().count() == 7
    assert [n for n in recorder.said if n != 0] == [(None, "passages"), *[1] * 7, "closed"]
    assert report.version == index.newest().version
    rest = ingest(index, corpus(25), HashAnalyser())
    assert (rest.added, rest.unchanged, rest.interrupted) == (18, 7, False)


@pytest.mark.parametrize("stored", [0, 3])
def test_ctrl_c_while_lance_commits_writes_no_passage_twice(
    index: PassageStore, analyser: Counting, monkeypatch: pytest.MonkeyPatch, stored: int
) -> None:
    """Lance itself raises `KeyboardInterrupt` and commits in another thread."""
    ingest(index, [replace(each, text="Before.") for each in corpus(stored)], analyser)
    commit = lance.LanceDataset.commit
    presses = [signal.SIGINT]

    def pressed(*given: Any, **named: Any) -> lance.LanceDataset:  # noqa: ANN401
        done = commit(*given, **named)
        if presses:
            signal.raise_signal(presses.pop())
        return done

    monkeypatch.setattr(lance.LanceDataset, "commit", pressed)
    # Processes in the background of a shell ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report = ingest(index, corpus(5), analyser)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (report.interrupted, report.added, report.updated) == (True, 5 - stored, stored)
    assert index.newest().count() == 5


def test_a_long_window_is_committed_every_so_often(
    index: PassageStore, analyser: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(index, [], analyser)
    before = index.newest().version
    monkeypatch.setattr(wye.backends.store.ingest, "COMMIT_SECONDS", -1.0)
    report = ingest(index, corpus(4), analyser)
    assert (report.added, index.newest().version) == (4, before + 4)


def test_another_analyser_or_writer_is_refused(index: PassageStore, analyser: Counting) -> None:
    with pytest.raises(IndexMismatchError):
        ingest(index, [], HashAnalyser(name="other"))
    with index.writer(), pytest.raises(IndexLockedError):
        ingest(index, [], analyser)


def test_small_writes_are_compacted_without_what_is_large(
    index: PassageStore, analyser: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.ingest, "COMPACT_FROM", 4)
    monkeypatch.setattr(wye.backends.store.versions, "TIERS", (4, 16, 64))
    sizes = []
    for count in range(1, 41):
        ingest(index, corpus(count), analyser)
        fragments = index.newest().snapshot().get_fragments()
        sizes.append([fragment.count_rows() for fragment in fragments])
    assert sizes[:5] == [[1], [1, 1], [1, 1, 1], [4], [4, 1]]
    assert sizes[11] == [4, 4, 4]
    assert sizes[15:18] == [[4, 4, 4, 4], [17], [17, 1]]
    assert sizes[39] == [17, 17, 4, 1, 1]
    assert all(sum(rows) == count for count, rows in enumerate(sizes, start=1))


def test_a_write_waits_for_one_group_to_be_merged(
    index: PassageStore, analyser: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.versions, "TIERS", (6, 64))
    ingest(index, corpus(12), analyser, batch_passages=2)
    monkeypatch.setattr(wye.backends.store.ingest, "COMPACT_FROM", 4)
    sizes = []
    for count in (13, 14, 15):
        ingest(index, corpus(count), analyser)
        fragments = index.newest().snapshot().get_fragments()
        sizes.append(sorted(fragment.count_rows() for fragment in fragments))
    assert sizes == [[1, 2, 2, 2, 6], [1, 6, 7], [1, 1, 6, 7]]


def test_the_report_says_where_the_time_went(index: PassageStore) -> None:
    report = ingest(index, corpus(4), HashAnalyser(delay=0.01))
    assert set(report.seconds) == {"read", "write"}
    assert report.seconds["write"] > 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_index_survives_the_death_of_its_writer(operation: str, tmp_path: Path) -> None:
    """It leaves a whole version behind; `python -m benchmarks crash` kills a thousand."""
    bench = Bench(operation, tmp_path)
    assert len(bench.states) > 5
    for moment in (0.3, 0.8):
        for at_step in (False, True):
            trial = bench.trial(moment, at_step=at_step)
            assert trial.survived, trial
