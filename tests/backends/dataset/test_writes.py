"""What is written to a dataset: found, counted, merged and indexed."""

from errno import ENOSPC
from pathlib import Path
from string import ascii_lowercase

import lance
import numpy as np
import pytest

import wye.backends.store.versions
from tests.backends.dataset.sessions import FUSED, NEW, QUESTIONS, all_ids, counts, ids, opened
from wye.backends.dataset.words import TERM, WORDS, WordTable
from wye.backends.errors import BackendError
from wye.backends.inventory import coverage, take_inventory
from wye.backends.store.documents import Removal, remove
from wye.backends.store.index import PassageStore
from wye.backends.store.versions import ROWS_PER_FRAGMENT
from wye.backends.types import Passage, Query
from wye.router.types import ARMS, Ask, Route

pytestmark = pytest.mark.usefixtures("fake_models")
UNKNOWN = np.zeros(0, np.float32)


def test_a_written_passage_is_found_by_every_arm_and_links_what_is_known(folder: Path) -> None:
    reader, writer = opened(folder), opened(folder)
    writer.ingest([NEW])
    later = reader.reload()
    assert later is not None
    for route in (Route.LEXICAL, Route.GRAPH):
        assert "zeppelin" in ids(later, "Where is the Zeppelin Nordstern?", route)
    (near,) = later.gateway.search(["Zeppelin"], Ask(Route.DENSE, 200))
    assert "zeppelin" in near.ranking.ids()
    batch = later.snapshot.graph.batch([Query("Zeppelin Nordstern", UNKNOWN)])
    assert [(seed.mention, seed.passages, seed.titles) for seed in batch.seeds([0])[0]] == [
        ("Zeppelin Nordstern", 1, 1)
    ]
    version = later.snapshot._version  # type: ignore[attr-defined]
    (row,) = version.rows(version.addresses(["zeppelin"]).values())
    assert "brooklyn bridge" in [name.key for name in row.names]
    waits = take_inventory(folder)["indices of Lance, rows to take in"]
    assert waits["tokens_idx"] == 1  # type: ignore[index]
    writer.build_indices()
    waits = take_inventory(folder)["indices of Lance, rows to take in"]
    assert set(waits.values()) == {0}  # type: ignore[attr-defined]
    assert "zeppelin" in ids(opened(folder), "Zeppelin Nordstern", Route.LEXICAL)


def test_a_deleted_passage_is_in_no_reply_and_leads_nowhere(folder: Path) -> None:
    session = opened(folder)
    (first,) = ids(session, QUESTIONS[1], Route.FUSION)[:1]
    remove(folder, Removal((first,)))
    later = session.reload()
    assert later is not None
    for route in (*ARMS, *FUSED):
        assert first not in ids(later, QUESTIONS[1], route)


def test_what_is_replaced_or_deleted_is_neither_found_nor_counted(folder: Path) -> None:
    session = opened(folder)
    session.ingest([NEW])
    replaced = all_ids(folder)[:3]
    session.ingest([Passage(id_, "Quagga", f"A quagga was zebra {id_}.") for id_ in replaced])
    remove(folder, Removal(("zeppelin", *all_ids(folder)[10:20])))
    later = opened(folder)
    assert {*ids(later, "quagga zebra", Route.LEXICAL)} == {*replaced}
    assert {passage.title for passage in later.snapshot.passages(replaced).values()} == {"Quagga"}
    incremental = counts(folder)
    session.build_indices(again=True)
    assert incremental == counts(folder)
    for engine in ("memory", "dataset"):
        assert {*ids(opened(folder, engine), "quagga zebra", Route.LEXICAL)} == {*replaced}
    PassageStore.open(folder).check_content()


def test_a_commit_that_fails_counts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counts(folder)

    def full(*_: object) -> None:
        raise OSError(ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("wye.backends.store.versions.flush_files", full)
        for _ in range(3):
            with pytest.raises(OSError, match="no space"):
                opened(folder).ingest([NEW])
            with pytest.raises(OSError, match="no space"):
                remove(folder, Removal(tuple(all_ids(folder)[:100])))
    assert counts(folder) == before
    opened(folder).ingest([NEW])
    remove(folder, Removal((NEW.id,)))
    assert counts(folder) == before


def test_a_version_does_not_change_under_its_reader(folder: Path) -> None:
    reader = opened(folder)
    before = [ids(reader, question, Route.FUSION) for question in QUESTIONS[:5]]
    opened(folder).ingest([NEW])
    assert [ids(reader, question, Route.FUSION) for question in QUESTIONS[:5]] == before


@pytest.mark.parametrize(("rows", "segments"), [(ROWS_PER_FRAGMENT, 1), (3, 2)])
def test_merged_fragments_are_indexed_with_few_others(
    folder: Path, rows: int, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.versions, "ROWS_PER_FRAGMENT", rows)
    session = opened(folder)
    for number in range(3):
        session.ingest([Passage(f"new-{number}", f"Quagga {number}", f"Quagga {number} ran.")])
    before = [ids(opened(folder), question, Route.FUSION) for question in QUESTIONS[:5]]
    with PassageStore.open(folder).writer() as writer:
        writer.compact()
        writer.take_in()
    later = opened(folder)
    assert len(later.index.snapshot().get_fragments()) == 2  # Lance merges what is not indexed yet
    assert [ids(later, question, Route.FUSION) for question in QUESTIONS[:5]] == before
    assert {*ids(later, "quagga", Route.LEXICAL)} == {"new-0", "new-1", "new-2"}
    assert not any(coverage(later.index.snapshot()).values())
    assert {len(one.segments) for one in later.index.snapshot().describe_indices()} == {segments}
    PassageStore.open(folder).check_content()


def test_many_written_rows_are_indexed_without_a_merge(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.versions, "TIERS", (2, 8))
    session = opened(folder)
    for names, waiting in ("a", {1}), ("bc", {0}), ("d", {1}):
        session.ingest(Passage(name, NEW.title, NEW.text) for name in names)
        assert {*coverage(opened(folder).index.snapshot()).values()} == waiting
    assert {*"abcd"} <= {*ids(opened(folder), "Zeppelin Nordstern", Route.LEXICAL)}
    PassageStore.open(folder).check_content()


def test_the_words_of_many_writes_are_merged_and_indexed(folder: Path) -> None:
    session = opened(folder)
    names = [f"zq{letter}x" for letter in ascii_lowercase[:20]]
    for name in names:
        session.ingest([Passage(name, name, f"Zeppelin {name} flew.")])
    words = lance.dataset(str(folder / WORDS))
    assert len(words.get_fragments()) < 20
    assert all(rows < 16 * 8 for rows in coverage(words).values())
    known = WordTable.of(opened(folder).index).find([(TERM, name) for name in names])
    assert {pair[1]: word.passages for pair, word in known.items()} == dict.fromkeys(names, 1)


def test_a_changed_file_of_an_index_is_found_and_made_again(folder: Path) -> None:
    (path, *_) = sorted((folder / "passages.lance" / "_indices").glob("*/part_0_docs.lance"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(BackendError, match="no passage is lost"):
        PassageStore.open(folder).check_content()
    opened(folder, "memory").build_indices(again=True)
    PassageStore.open(folder).check_content()
