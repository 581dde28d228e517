"""An index as a source: the same rows, computed again only where the models differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends.store.conftest import Counting
from tests.hashing import HashAnalyser
from wye.backends.documents import chunk_passage
from wye.backends.errors import IndexNotFoundError, SourceError
from wye.backends.index_source import IndexSource
from wye.backends.sources import DocumentSource, open_source
from wye.backends.store.documents import Removal, remove
from wye.backends.store.index import PassageStore, Writer
from wye.backends.store.ingest import IngestReport, ingest
from wye.backends.types import Passage

OLD = HashAnalyser()


def corpus() -> list[Passage]:
    long = Passage("long", "Long", "Anna met Bob. " * 30, {"y": 1})
    short = (Passage(f"p{n:02}", f"Title {n}", f"Anna met Bob{n}.", {"y": n}) for n in range(20))
    return [*short, *chunk_passage(long, 20)]


@pytest.fixture
def old(tmp_path: Path) -> PassageStore:
    made = PassageStore.create(tmp_path / "old", OLD.dimension, OLD.fingerprint)
    for passage in corpus()[5:20]:
        ingest(made, [passage], OLD, entity_vectors=True)
    ingest(made, corpus(), OLD, entity_vectors=True)
    return made


def rows(folder: Path, *, names: bool = False) -> list[dict[str, object]]:
    stored = PassageStore.open(folder).snapshot().to_table().sort_by("id")
    found: list[dict[str, object]] = (stored if names else stored.drop("names")).to_pylist()
    return found


def take(
    source: Path, target: Path, analyser: HashAnalyser, batch: int = 512, *, names: bool = False
) -> IngestReport:
    made = PassageStore.create(target, analyser.dimension, analyser.fingerprint)
    passages = open_source(source).passages()
    return ingest(made, passages, analyser, batch_passages=batch, entity_vectors=names)


@pytest.mark.parametrize("batch", [1, 4, 512])
def test_equal_models_compute_nothing_again(old: PassageStore, tmp_path: Path, batch: int) -> None:
    same = Counting()
    report = take(old.path, tmp_path / "new", same, batch, names=True)
    assert (report.added, same.analysed) == (len(corpus()), [])
    assert rows(tmp_path / "new", names=True) == rows(old.path, names=True)
    new = PassageStore.open(tmp_path / "new")
    new.check_content()
    again = take(old.path, tmp_path / "new", same, batch, names=True)
    assert (again.unchanged, again.version, same.analysed) == (len(corpus()), report.version, [])


@pytest.mark.parametrize(
    "other", [Counting(12, name="other"), Counting(parser="split-2")], ids=["encoder", "parser"]
)
def test_other_models_compute_all_once(old: PassageStore, tmp_path: Path, other: Counting) -> None:
    take(old.path, tmp_path / "new", other, names=True)
    assert sorted(other.analysed) == sorted(passage.id for passage in corpus())
    expected = PassageStore.create(tmp_path / "files", other.dimension, other.fingerprint)
    ingest(expected, corpus(), other, entity_vectors=True)
    assert rows(tmp_path / "new") == rows(tmp_path / "files")


DOCUMENTS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.text("Anna met. ", min_size=1, max_size=90).map(lambda text: f"Bob. {text}"),
        st.integers(0, 2),
    ),
    max_size=8,
)


@settings(max_examples=12)
@given(written=DOCUMENTS, gone=st.sets(st.sampled_from("abcdef")), half=st.booleans())
def test_any_index_is_taken_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[str, str, int]],
    gone: set[str],
    half: bool,
) -> None:
    """After any writes and deletions, with documents that lost their first chunk."""
    folder = tmp_path_factory.mktemp("any")
    made = PassageStore.create(folder / "old", OLD.dimension, OLD.fingerprint)
    for id_, text, year in written:
        ingest(made, chunk_passage(Passage(id_, id_.upper(), text, {"y": year}), 5), OLD)
    remove(made.path, Removal(documents=tuple(gone), ids=("a#0000", "b#0001") if half else ()))
    same = Counting()
    take(folder / "old", folder / "new", same, batch=3)
    copied, given_rows = rows(folder / "new"), rows(folder / "old")
    for row in (*copied, *given_rows):  # of a document that lost a chunk, a copy knows no number
        del row["document_chunks"]
    assert copied == given_rows
    assert same.analysed == []


@pytest.mark.parametrize("batch", [1, 4, 512])
def test_it_goes_on_where_it_was_killed(
    old: PassageStore, tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, rest = Counting(name="other", most=9), Counting(name="other")
    with pytest.raises(MemoryError):
        take(old.path, tmp_path / "new", killed, batch)
    kept = 5 + 4 // batch * batch if batch < 512 else 0  # the first document has 5 chunks
    assert len(rows(tmp_path / "new")) == kept
    take(old.path, tmp_path / "new", rest, batch)
    assert sorted([*killed.analysed[:kept], *rest.analysed]) == sorted(p.id for p in corpus())
    commit, left = Writer.commit, [2]

    def failing(writer: Writer, *change: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        commit(writer, *change)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "commit", failing)
        if batch < 512:
            with pytest.raises(OSError, match="No space"):
                take(old.path, tmp_path / "same", Counting(), batch)
            assert len(rows(tmp_path / "same")) == 5 + batch
    same = Counting()
    take(old.path, tmp_path / "same", same, batch)
    assert (rows(tmp_path / "same"), same.analysed) == (rows(old.path), [])


def test_a_text_that_was_changed_on_the_way_is_analysed(old: PassageStore, tmp_path: Path) -> None:
    same = Counting()
    new = PassageStore.create(tmp_path / "new", same.dimension, same.fingerprint)
    changes: dict[str, dict[str, Any]] = {
        "p00": {"text": "Eve sat."},
        "p01": {"title": "Other"},
        "p02": {"metadata": {}},
    }
    passages = [replace(p, **changes.get(p.id, {})) for p in IndexSource(old.path).passages()]
    ingest(new, passages, same)
    assert same.analysed == ["p00", "p01"]
    expected = PassageStore.create(tmp_path / "files", OLD.dimension, OLD.fingerprint)
    ingest(expected, [replace(p, **changes.get(p.id, {})) for p in corpus()], OLD)
    assert rows(tmp_path / "new") == rows(tmp_path / "files")


def test_metadata_is_added_where_a_passage_has_none(old: PassageStore) -> None:
    found = {p.id: p for p in IndexSource(old.path).passages(metadata={"y": 0, "z": 1})}
    assert (found["p07"].metadata, found["p07"].document) == ({"y": 7, "z": 1}, "p07")
    assert [found[f"long#{n:04}"].chunk for n in range(3)] == [0, 1, 2]


def test_only_a_whole_index_is_a_source(old: PassageStore, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "passages.lance").write_text("a file of that name")
    (tmp_path / "corpus" / "a.txt").write_text("Anna met Bob.")
    assert isinstance(open_source(tmp_path / "corpus"), DocumentSource)
    (tmp_path / "begun" / "passages.lance").mkdir(parents=True)
    with pytest.raises(IndexNotFoundError, match="never finished"):
        open_source(tmp_path / "begun")
    with pytest.raises(SourceError, match="without --engine ray"):
        IndexSource(old.path).split()
