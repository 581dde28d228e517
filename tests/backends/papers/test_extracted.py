"""What was extracted from passages: kept, found again, and gone with its passage."""

import json
import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.hashing import HashAnalyser
from wye.backends.errors import BackendError, IndexDamagedError, IndexMismatchError
from wye.backends.papers.extracted import FILE, VERSION, ExtractedStore, Extraction, content_key
from wye.backends.papers.units import refine
from wye.backends.store.corpus import Corpus
from wye.backends.store.documents import take_inventory
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.store.schema import StoredSentence
from wye.backends.store.snapshot import read_corpus
from wye.backends.trigraph.assembly import assemble
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.types import Float32, Passage

ANALYSER = HashAnalyser(4)
PASSAGES = [
    Passage("a", "Ada", "Ada lived in Como. Bo visited Ada."),
    Passage("b", "Bo", "Bo lived in Rome. Later Bo died."),
    Passage("c", "", "Nothing is named here, only something everlasting."),
]


@pytest.fixture
def index(tmp_path: Path) -> PassageStore:
    made = PassageStore.create(tmp_path / "index", ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(made, PASSAGES, ANALYSER)
    return made


def store_of(index: PassageStore) -> ExtractedStore:
    return ExtractedStore(index.path, index.fingerprint)


def extraction(passage: Passage, *items: str) -> Extraction:
    key = content_key(passage.title, passage.text)
    return Extraction(passage.id, key, "units.jsonl", items)


def keep(index: PassageStore, passage: Passage, *items: str) -> None:
    own = [StoredSentence(item, (item.split()[0],), (), unit(n)) for n, item in enumerate(items)]
    store_of(index).keep("units", [(extraction(passage, *items), own)])


def unit(place: int) -> Float32:
    return np.asarray(np.eye(4, dtype=np.float32)[place])


def texts_of(corpus: Corpus) -> list[str]:
    return [text for block in corpus.iter_sentence_texts() for text in block]


def ids_of(index: PassageStore) -> Sequence[str]:
    return [one.id for one in store_of(index).read("units")]


def test_where_nothing_was_extracted_nothing_is_made(index: PassageStore) -> None:
    store = store_of(index)
    assert store.read("units") == []
    assert store.drop("units") == 0
    assert store.forget_others({}) == 0
    assert (store.inventory(), store.digest()) == ({}, "")
    assert refine(read_corpus(index), store, "units") is None
    assert not store.path.exists()
    assert "extracted" not in take_inventory(index.path)


def test_units_stand_in_the_place_of_sentences(index: PassageStore) -> None:
    corpus = read_corpus(index)
    keep(index, PASSAGES[1], "Bo lived in Rome.", "Bo died.", "Rome had Bo.")
    refined = refine(corpus, store_of(index), "units")
    assert refined is not None
    ours = ["Bo lived in Rome.", "Bo died.", "Rome had Bo."]
    first, last = np.searchsorted(corpus.sentence_passage, [1, 2]).tolist()
    before = texts_of(corpus)
    expected = [*before[:first], *ours, *before[last:]]
    assert texts_of(refined) == expected
    assert refined.sentence_texts([first + 2, 0]) == ["Rome had Bo.", before[0]]
    assert refined.sentence_passage.tolist()[first : first + 3] == [1, 1, 1]
    np.testing.assert_array_equal(
        refined.sentence_vectors[first : first + 3], np.eye(4, dtype=np.float16)[:3]
    )
    np.testing.assert_array_equal(refined.vectors, corpus.vectors)
    graph = assemble(refined, AssemblySettings())
    rome = graph.keys.find("rome")
    assert graph.mentions.sentences.one(rome).tolist() == [first, first + 2]


def test_what_has_changed_or_is_of_another_analyser_counts_as_absent(index: PassageStore) -> None:
    corpus = read_corpus(index)
    former = Passage("a", "Ada", "Another text.")
    keep(index, former, "Ada was there.")
    assert refine(corpus, store_of(index), "units") is None
    keep(index, PASSAGES[0], "Ada was there.")
    assert refine(corpus, store_of(index), "units") is not None
    assert refine(corpus, store_of(index), "facts") is None
    other = ExtractedStore(index.path, {"encoder": "another"})
    assert refine(corpus, other, "units") is None
    assert [one.analysed for one in other.read("units")] == [False]
    assert [one.analysed for one in store_of(index).read("units")] == [True]
    keep(index, PASSAGES[0])
    assert refine(corpus, store_of(index), "units") is None


def test_it_goes_with_its_passage_and_when_that_changes(index: PassageStore) -> None:
    for passage in PASSAGES:
        keep(index, passage, "A secret of nobody.")
    changed = [Passage("b", "Bo", "Bo is new."), Passage("c", "", PASSAGES[2].text, {"n": 1})]
    ingest(index, changed, ANALYSER)
    assert ids_of(index) == ["a", "c"]
    with index.writer() as writer:
        writer.delete(["a"])
    assert ids_of(index) == ["c"]
    store = store_of(index)
    assert store.forget_others({"c": content_key("", PASSAGES[2].text)}) == 0
    assert store.forget_others({}) == 1
    assert ids_of(index) == []
    assert b"secret" not in store.path.read_bytes()


def test_a_deletion_stands_where_that_cannot_be_done(
    index: PassageStore, caplog: pytest.LogCaptureFixture
) -> None:
    (index.path / FILE).write_bytes(b"no database" * 100)
    with caplog.at_level(logging.WARNING), index.writer() as writer:
        assert writer.delete(["a"]) == 1
    assert "could not be deleted" in caplog.text


def test_the_inventory_says_what_there_is(index: PassageStore) -> None:
    keep(index, PASSAGES[0], "Ada lived.", "Ada died.")
    keep(index, PASSAGES[1], "Bo lived.")
    assert take_inventory(index.path)["extracted"] == {
        "units": 3,
        "passages with units": 2,
        "units from": "units.jsonl",
    }
    assert store_of(index).drop("units") == 2
    assert store_of(index).inventory() == {}


def test_a_digest_tells_apart_what_was_extracted(index: PassageStore) -> None:
    digests = []
    for items in (["Ada lived."], ["Ada died."], ["Ada died.", "Ada lived."]):
        keep(index, PASSAGES[0], *items)
        digests += [store_of(index).digest(), store_of(index).digest()]
    assert digests[::2] == digests[1::2]
    assert len({*digests}) == 3


def test_a_later_schema_is_refused_and_a_damaged_file_told(index: PassageStore) -> None:
    keep(index, PASSAGES[0], "Ada lived.")
    store = store_of(index)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE extracted SET sentences = ?", (json.dumps([["a", []]]),))
    with pytest.raises(IndexDamagedError, match="with `wye refine`"):
        refine(read_corpus(index), store, "units")
    with sqlite3.connect(store.path) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    with pytest.raises(IndexMismatchError, match=f"schema version {VERSION + 1}"):
        store.read("units")
    store.path.write_bytes(b"no database" * 100)
    with pytest.raises(IndexDamagedError, match="damaged"):
        store.read("units")
    store.path.unlink()
    store.path.mkdir()
    with pytest.raises(BackendError, match="cannot be read or written"):
        store.keep("units", [(extraction(PASSAGES[0], "Ada lived."), [])])


def test_a_file_without_tables_is_one_that_is_being_made(index: PassageStore) -> None:
    sqlite3.connect(index.path / FILE).close()
    (index.path / FILE).touch()
    assert store_of(index).read("facts") == []
    keep(index, PASSAGES[0], "Ada lived.")
    assert ids_of(index) == ["a"]
