"""The index folder: versions, rows, writing, and refusing what is not ours."""

import errno
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import wye.backends.store.versions
from tests.backends.store.conftest import ANALYSER
from tests.stored import fetch
from wye.backends.errors import IndexDamagedError, IndexMismatchError, IndexNotFoundError
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import content_hash, ingest, to_batch
from wye.backends.store.schema import passage_schema, to_passages
from wye.backends.store.versions import PASSAGES, check_deletions, open_dataset
from wye.backends.types import Passage
from wye.featurizer.types import PassageAnalysis, SentenceAnalysis


def passage(id_: str, text: str = "Some text.", document: str = "") -> Passage:
    return Passage(id_, "Title", text, {"n": 1}, document)


def rows(*passages: Passage) -> pa.RecordBatch:
    schema = passage_schema(ANALYSER.dimension, ANALYSER.fingerprint)
    return to_batch(passages, ANALYSER.analyse(passages), schema)


def plain(*ids: str) -> pa.RecordBatch:
    return rows(*map(passage, ids))


@pytest.fixture
def holding_a(index: PassageStore) -> PassageStore:
    with index.writer() as writer:
        writer.upsert(plain("a"))
    return index.newest()


def test_lances_caches_are_shared_until_an_index_needs_larger_ones(tmp_path: Path) -> None:
    numbers = pa.table({"n": pa.array(range(70_000))})
    path = tmp_path / "numbers"
    opened = open_dataset(lance.write_dataset(numbers[:60_000], path).uri)
    caches: Any = opened.session()
    lance.write_dataset(numbers[60_000:65_000], path, mode="append")
    larger = open_dataset(path, opened=opened)
    assert caches.is_same_as(larger.session())
    lance.write_dataset(numbers[65_000:], path, mode="append")
    largest = open_dataset(path, opened=larger)
    assert not caches.is_same_as(largest.session())
    assert largest.count_rows() == 70_000


def test_one_commit_inserts_replaces_and_deletes(index: PassageStore) -> None:
    with index.writer() as writer:
        writer.upsert(plain("a", "b", "c"))
        before = writer.version
        new = rows(passage("b", "New."), passage("d"))
        assert writer.upsert(new, stale=["c", "no such"]) == 1
        assert writer.version == before + 1
        assert (writer.delete([]), writer.delete(["nobody"])) == (0, 0)
        assert writer.version == before + 1
    a, b, d = passage("a"), passage("b", "New."), passage("d")
    assert fetch(index, ["d", "c", "b", "a", "a"]) == [d, b, a, a]


def test_a_version_stays_as_it_is_until_the_newest_is_asked_for(holding_a: PassageStore) -> None:
    index, held = holding_a, holding_a.version
    assert index.newest() is index
    with index.writer() as writer:
        writer.upsert(rows(passage("a", "Changed."), passage("b")))
        writer.delete(["b"])
        writer.compact()
    assert index.version == held
    assert to_passages(index.snapshot().to_table()) == [passage("a")]
    index = index.newest()
    assert index.newest() is index
    assert fetch(index, ["a", "b"]) == [passage("a", "Changed.")]
    assert list(index.versions()) == list(range(1, index.version + 1))


def test_a_change_that_was_refused_does_not_come_later(
    holding_a: PassageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with holding_a.writer() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(wye.backends.store.versions, "flush", full)
            with pytest.raises(OSError, match="full"):
                writer.upsert(plain("b"))
        writer.upsert(plain("c"))
    assert fetch(holding_a, ["a", "b", "c"]) == [passage("a"), passage("c")]


def test_one_id_twice_in_a_commit_is_refused(index: PassageStore) -> None:
    with index.writer() as writer:
        with pytest.raises(ValueError, match="only once"):
            writer.upsert(plain("a", "a"))
        with pytest.raises(ValueError, match="only once"):
            writer.upsert(plain("a"), stale=["a"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"a\0b", "a", "it's", "''", "\\", "%_", "\n", "-- ", "א😀"})
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2))
def test_any_id_can_be_written_fetched_and_deleted(index: PassageStore, ids: set[str]) -> None:
    first, *others = sorted(ids)
    with index.writer() as writer:
        writer.upsert(plain(*ids))
        writer.upsert(rows(passage(first, "New.")), stale=others[:1])
        kept = [first, *others[1:]]
        assert [p.id for p in fetch(index, [*others[:1], *kept])] == kept
        assert writer.delete(kept) == len(kept)
        assert writer.delete(list(ids)) == 0


def test_ten_thousand_ids_in_one_commit(holding_a: PassageStore) -> None:
    stale = [f"stale {number}" for number in range(10_000)]
    with holding_a.writer() as writer:
        assert writer.upsert(plain("b"), stale) == 0
        assert writer.delete([*stale, "a"]) == 1


def test_compacting_keeps_versions_that_were_newest_a_moment_ago(index: PassageStore) -> None:
    with index.writer() as writer:
        for number in range(5):
            writer.upsert(rows(passage(str(number))))
        assert len(writer.dataset.get_fragments()) == 5
        writer.compact(keep=timedelta(hours=1))
        assert len(writer.dataset.get_fragments()) == 1
        for manifest in (index.path / PASSAGES).rglob("*.manifest"):
            os.utime(manifest, (0, 0))  # the clock of the disk is behind ours
        writer.compact(keep=timedelta(hours=1))
        assert len(index.versions()) == writer.version
        writer.compact(keep=timedelta(0))
    assert len(index.versions()) == 1
    assert index.newest().count() == 5


def test_only_a_deletion_or_a_compaction_deletes_committed_files(index: PassageStore) -> None:
    def files() -> set[Path]:
        return {path for path in (index.path / PASSAGES).rglob("*") if path.is_file()}

    committed: set[Path] = set()
    for number in range(3):
        ingest(index, [passage("a", f"Text {number}."), passage(f"b{number}")], ANALYSER)
        PassageStore.open(index.path).check_content()
        assert committed < files()
        committed = files()
    with index.writer() as writer:
        writer.delete(["a"])
    assert committed < files(), "versions that others may read keep their files"
    with index.writer() as writer:
        writer.compact(keep=timedelta(0))
    assert not committed <= files()


def test_a_version_that_somebody_tagged_is_kept(holding_a: PassageStore) -> None:
    with holding_a.writer() as writer:
        writer.upsert(plain("b"))
        lance.dataset(holding_a.path / "passages.lance").tags.create("release", 2)
        writer.compact(keep=timedelta(0))
    holding_a = holding_a.newest()
    assert list(holding_a.versions()) == [2, holding_a.version]


def test_compacting_removes_what_a_killed_writer_left(holding_a: PassageStore) -> None:
    left = holding_a.path / "passages.lance" / "data" / "left.lance"
    left.write_bytes(b"half a file")
    with holding_a.writer() as writer:
        writer.compact(keep=timedelta(0))
    assert not left.exists()
    assert fetch(holding_a, ["a"]) == [passage("a")]


@pytest.mark.parametrize(
    ("found", "opening", "creating"),
    [
        ("nowhere", r"no index at .*nowhere.*wye index", None),
        ("empty", "no index", None),
        ("file", "no index", "is a file"),
        ("folder", "no index", r"other files .thesis\.docx"),
        ("dataset", "not one that Wye wrote", "not one that Wye wrote"),
    ],
)
def test_what_is_no_index_is_refused_and_left_alone(
    tmp_path: Path, found: str, opening: str, creating: str | None
) -> None:
    for folder in ("empty", "folder"):
        (tmp_path / folder).mkdir()
    for file in ("file", "folder/thesis.docx"):
        (tmp_path / file).touch()
    lance.write_dataset(pa.table({"x": [1]}), tmp_path / "dataset" / "passages.lance")
    with pytest.raises(IndexNotFoundError, match=opening):
        PassageStore.open(tmp_path / found)
    if creating:
        with pytest.raises(IndexNotFoundError, match=creating):
            PassageStore.create(tmp_path / found, 8, {})


def test_a_half_made_index_is_none_yet_and_creating_it_again_completes_it(tmp_path: Path) -> None:
    for folder in ("_versions", "data"):
        (tmp_path / "passages.lance" / folder).mkdir(parents=True)
    (tmp_path / "passages.lance" / "data" / "half.lance").write_bytes(b"LAN")
    for name in ("writer.lock", "writer.json"):
        (tmp_path / name).touch()
    with pytest.raises(IndexNotFoundError, match="never finished"):
        PassageStore.open(tmp_path)
    assert PassageStore.create(tmp_path, 8, {}).count() == 0


def test_a_damaged_manifest_is_reported_with_its_place(index: PassageStore) -> None:
    [manifest] = (index.path / "passages.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(b"short")
    with pytest.raises(IndexDamagedError, match=r"1844\d+.manifest has changed .*`wye repair"):
        PassageStore.open(index.path)


def test_another_analyser_is_refused_and_told_what_differs(index: PassageStore) -> None:
    wanted = "encoder is 'hash' in the index and 'mini' here.*`wye index .*index --index NEW`"
    with pytest.raises(IndexMismatchError, match=wanted):
        PassageStore.open(index.path, {**ANALYSER.fingerprint, "encoder": "mini"})
    with pytest.raises(IndexMismatchError, match="parser is 'split-1' in the index and None here"):
        PassageStore.open(index.path, {"encoder": "hash"})
    assert PassageStore.open(index.path, None).count() == 0


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    schema = passage_schema(8, {}).with_metadata({"wye.schema": "99", "wye.fingerprint": "{}"})
    lance.write_dataset(schema.empty_table(), tmp_path / "passages.lance")
    with pytest.raises(IndexMismatchError, match="schema version 99; this Wye reads 1"):
        PassageStore.open(tmp_path)


def test_versions_go_some_at_a_time(index: PassageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wye.backends.store.versions, "MOST_VERSIONS", 6)
    kept = []
    with index.writer() as writer:
        for number in range(12):
            writer.upsert(plain(f"new {number}"))
            writer.compact(rows=1)  # merges nothing
            kept.append(len(index.versions()))
    assert kept == [2, 3, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7]


@pytest.mark.parametrize(
    ("rows", "deleted"), [(300_000, 3), (300_000, 5_000), (300_000, 200_000), (20_000, 19_999)]
)
def test_a_deletion_file_is_whole_or_refused(tmp_path: Path, rows: int, deleted: int) -> None:
    dataset = lance.write_dataset(pa.table({"n": np.arange(rows)}), tmp_path)
    metadata = dataset.get_fragments()[0].delete(f"n < {deleted}")
    assert metadata is not None
    assert metadata.deletion_file is not None
    name = metadata.deletion_file.path(metadata.id)
    check_deletions(tmp_path, name, deleted)
    with pytest.raises(IndexDamagedError, match=f"the {deleted + 1:,} deleted ones"):
        check_deletions(tmp_path, name, deleted + 1)
    content = (tmp_path / name).read_bytes()
    for size in (0, 1, 9, len(content) // 2, len(content) - 1):
        (tmp_path / name).write_bytes(content[:size])
        with pytest.raises(IndexDamagedError, match=r"_deletions/"):
            check_deletions(tmp_path, name, deleted)


DIMENSION = 3
SCHEMA = passage_schema(DIMENSION, {"encoder": "e", "parser": "p"})
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalar = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | text
metadata = st.dictionaries(text, scalar | st.lists(scalar, max_size=3), max_size=3)
passages = st.builds(Passage, text, text, text, metadata, text, st.integers(0, 2**31 - 1))
vectors = st.lists(st.floats(-1, 1, width=16), min_size=DIMENSION, max_size=DIMENSION).map(
    lambda numbers: np.array(numbers, np.float32)
)
names = st.lists(text, max_size=3).map(tuple)
sentences = st.builds(SentenceAnalysis, text, names, names, vectors)
analyses = st.builds(PassageAnalysis, vectors, st.lists(sentences, max_size=3).map(tuple))


@given(st.lists(st.tuples(passages, analyses), max_size=4))
def test_rows_give_back_what_went_in(pairs: list[tuple[Passage, PassageAnalysis]]) -> None:
    batch = to_batch([p for p, _ in pairs], [a for _, a in pairs], SCHEMA)
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert to_passages(batch) == [p for p, _ in pairs]
    assert batch["vector"].to_pylist() == [a.vector.tolist() for _, a in pairs]
    assert batch["sentences"].to_pylist() == [
        [
            {
                "text": s.text,
                "entities": list(s.entities),
                "phrases": list(s.phrases),
                "vector": s.vector.tolist(),
            }
            for s in a.sentences
        ]
        for _, a in pairs
    ]


PARTS: list[dict[str, Any]] = [
    {"title": "T"},
    {"text": "X"},
    {"document": "D"},
    {"chunk": 1},
    {"title": "tx", "text": ""},
]


def test_the_hash_covers_every_part_and_ignores_the_order_of_metadata() -> None:
    base = Passage("a", "t", "x", {"k": 1, "l": 2}, "d", 0)
    others = [
        *(replace(base, **part) for part in PARTS),
        *(replace(base, metadata={"k": k, "l": 2}) for k in (True, 1.0, "1")),
    ]
    assert len({content_hash(p) for p in [base, *others]}) == 1 + len(others)
    assert content_hash(base) == content_hash(Passage("a", "t", "x", {"l": 2, "k": 1}, "d", 0))
    assert len(content_hash(base)) == 32


def test_what_does_not_fit_is_refused() -> None:
    wrong = PassageAnalysis(np.zeros(DIMENSION + 1, np.float32), ())
    with pytest.raises(ValueError, match="expected 3 but got"):
        to_batch([Passage("a", "", "x")], [wrong], SCHEMA)
