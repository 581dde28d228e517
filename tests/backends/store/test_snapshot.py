"""The corpus arrays agree with a slow reading of the rows, whatever order these were stored in."""

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import wye.backends.store.corpus
import wye.backends.store.index
from tests.backends.store.conftest import ANALYSER, new_index
from tests.stored import fetch
from wye.backends.arrays import ranges
from wye.backends.numerics import products_of, products_of_all
from wye.backends.store.corpus import Corpus, Mentions, read_corpus, stored_corpus
from wye.backends.store.index import PassageStore
from wye.backends.store.ingest import ingest
from wye.backends.types import Passage

WORDS = ["Anna", "Bob", "Łódź", "reactions", "molecules", "met", "in", "at"]


def make(folder: Path, passages: list[Passage], window: int = 1024) -> PassageStore:
    index = new_index(folder)
    ingest(index, passages, ANALYSER, batch_passages=window, entity_vectors=True)
    return index.newest()


def some_passages(count: int, seed: int = 0) -> list[Passage]:
    source = random.Random(seed)
    return [
        Passage(
            id=f"{source.choice('aéZ😀')}{number}",
            title=f"Title {number % 3}",
            text=" ".join(
                " ".join(source.choices(WORDS, k=source.randint(1, 5))) + "."
                for _ in range(source.randint(1, 4))
            ),
            metadata={"n": number} if number % 2 else {},
            document=f"doc {number // 2}",
            chunk=number % 2,
        )
        for number in range(count)
    ]


def named(mentions: Mentions, sentences: int) -> list[tuple[int, str]]:
    return [(row, name) for row in range(sentences) for name in mentions.of(row)]


def check(corpus: Corpus, passages: list[Passage]) -> None:
    """Compare every array with one loop over passages and sentences."""
    expected = sorted(passages, key=lambda passage: passage.id)
    assert corpus.ids == [p.id for p in expected]
    assert corpus.titles == [p.title for p in expected]
    assert corpus.documents == [p.document for p in expected]
    assert corpus.chunks.tolist() == [p.chunk for p in expected]
    assert [*map(json.loads, corpus.metadata)] == [p.metadata for p in expected]
    assert list(corpus.iter_texts()) == [(p.title, p.text) for p in expected]
    backwards = range(len(expected))[::-1]
    assert corpus.texts(backwards) == [expected[row].text for row in backwards]
    assert len(corpus) == len(expected)
    analysed = ANALYSER.analyse(expected)
    half = [a.vector.astype(np.float16) for a in analysed]
    assert np.asarray(corpus.vectors).tolist() == [row.astype(np.float32).tolist() for row in half]
    sentences = [(row, s) for row, a in enumerate(analysed) for s in a.sentences]
    assert corpus.sentence_passage.tolist() == [row for row, _ in sentences]
    assert np.asarray(corpus.sentence_vectors).tolist() == [
        s.vector.astype(np.float16).tolist() for _, s in sentences
    ]
    for mentions, kind in ((corpus.entities, "entities"), (corpus.phrases, "phrases")):
        reference = [(i, name) for i, (_, s) in enumerate(sentences) for name in getattr(s, kind)]
        assert named(mentions, len(sentences)) == reference
        if corpus.parts is None:
            assert list(mentions.names) == sorted({name for _, name in reference})
    texts = [text for block in corpus.iter_sentence_texts() for text in block]
    assert texts == [sentence.text for _, sentence in sentences]
    every = list(range(len(sentences)))
    random.Random(1).shuffle(every)
    assert corpus.sentence_texts(every) == [sentences[i][1].text for i in every]


def assert_same(one: Corpus, other: Corpus) -> None:
    """Compare a corpus that may have a base with one that has none."""
    by_id = one.by_id
    for name in ("ids", "titles", "documents", "metadata", "hashes"):
        for strings in (getattr(one, name), [*getattr(one, name)]):
            assert [strings[row] for row in by_id.tolist()] == [*getattr(other, name)]
    assert one.rows([*other.ids]) == by_id.tolist()
    assert not one.rows([*{*one.ids} - {*other.ids}, "unknown"])
    assert one.passages([*other.ids]) == other.passages([*other.ids])
    assert one.chunks[by_id].tolist() == other.chunks.tolist()
    query = np.arange(1, 9, dtype=np.float32)
    owners = one.sentence_passage
    starts, ends = (np.searchsorted(owners, by_id, side) for side in ("left", "right"))
    sentences = ranges(starts, ends)
    repeated = np.repeat(np.arange(len(by_id)), ends - starts)
    assert other.sentence_passage.tolist() == repeated.tolist()
    for name, rows in (("vectors", by_id), ("sentence_vectors", sentences)):
        both, whole = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(both[rows], whole)
        np.testing.assert_array_equal(np.asarray(both)[rows], whole)
        expected = products_of(whole, np.arange(len(whole)), query)
        np.testing.assert_array_equal(products_of(both, rows, query), expected)
    expected = products_of_all(other.vectors, query[None])
    np.testing.assert_array_equal(products_of_all(one.vectors, query[None])[:, by_id], expected)
    for name in ("entities", "phrases"):
        names = [*map(getattr(one, name).of, sentences.tolist())]
        assert names == [*map(getattr(other, name).of, range(len(sentences)))]
    texts = [text for block in other.iter_sentence_texts() for text in block]
    assert one.sentence_texts(sentences) == texts
    blocks = [text for block in one.iter_sentence_texts() for text in block]
    assert [blocks[row] for row in sentences.tolist()] == texts


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(count=st.integers(0, 40), seed=st.integers(0, 99), window=st.integers(1, 50))
@example(count=0, seed=0, window=1)
@example(count=60, seed=5, window=7)
def test_arrays_agree_with_the_slow_reading(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, window: int
) -> None:
    passages = some_passages(count, seed)
    random.Random(seed).shuffle(passages)
    # Function-scoped fixtures and hypothesis do not mix, hence no monkeypatch argument.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.backends.store.corpus, "_BLOCK", 16)
        check(read_corpus(make(tmp_path_factory.mktemp("index"), passages, window)), passages)


@pytest.mark.parametrize("count", [0, 3])
def test_passages_without_any_mention_are_passages_all_the_same(tmp_path: Path, count: int) -> None:
    passages = [Passage(str(n), "", "no names.") for n in range(count)]
    corpus = read_corpus(make(tmp_path, passages))
    check(corpus, passages)
    assert corpus.vectors.shape == (count, ANALYSER.dimension)
    assert corpus.sentence_vectors.shape == (0, ANALYSER.dimension)
    assert corpus.surface_vectors([]).shape == (0, ANALYSER.dimension)
    assert corpus.texts([]) == []


def test_edits_deletions_and_compaction_leave_no_trace(tmp_path: Path) -> None:
    passages = some_passages(40)
    expected = read_corpus(make(tmp_path / "straight", passages[:30]))
    old = [Passage(p.id, "Old", "Carol said so.", {}, p.document, p.chunk) for p in passages]
    index = make(tmp_path / "winding", old, window=8)
    ingest(index, passages, ANALYSER, batch_passages=6, entity_vectors=True)
    with index.writer() as writer:
        writer.delete([p.id for p in passages[30:]])
        assert_same(expected, read_corpus(index.newest()))
        check(read_corpus(index.newest()), passages[:30])
        writer.compact(keep=timedelta(0))
    check(read_corpus(index.newest()), passages[:30])


def test_a_corpus_reads_its_own_version_after_the_index_moved_on(tmp_path: Path) -> None:
    passages = some_passages(6)
    index = make(tmp_path, passages)
    corpus = read_corpus(index.newest())
    with index.writer() as writer:
        writer.delete([p.id for p in passages])
        writer.compact()
    assert index.newest().count() == 0
    check(corpus, passages)


def write(index: PassageStore, passages: Sequence[Passage], gone: Sequence[str] = ()) -> None:
    """Two commits, and none where there is nothing to write."""
    if passages:
        ingest(index, passages, ANALYSER)
    with index.writer() as writer:
        writer.delete(gone)


def change(index: PassageStore, chance: random.Random, step: int) -> None:
    """New, changed and deleted passages, and sometimes a compaction."""
    stored = [row["id"] for row in index.newest().snapshot().to_table(columns=["id"]).to_pylist()]
    old = chance.sample(stored, min(len(stored), chance.randint(0, 3)))
    new = [
        replace(passage, id=f"{step}-{passage.id}", document=f"{step}-{passage.document}")
        for passage in some_passages(chance.randint(0, 4), step)
    ]
    text = f"Carol met Dave in {step}."
    changed = [replace(one, title="Now Carol", text=text) for one in fetch(index, old[:1])]
    write(index, [*new, *changed], old[1:])
    if chance.random() < 0.3:
        with index.writer() as writer:
            writer.compact(keep=timedelta(0))


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    count=st.integers(0, 40),
    seed=st.integers(0, 999),
    share=st.sampled_from([0.25, 1.0]),
    listed=st.sampled_from([0, 50_000]),
)
def test_on_top_of_another_version_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, share: float, listed: int
) -> None:
    index = make(tmp_path_factory.mktemp("index"), some_passages(count, seed))
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wye.backends.store.corpus, "_MOST", share)
        patch.setattr(wye.backends.store.corpus, "LISTED", listed)
        patch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)
        first = base = read_corpus(index.newest())
        for step in range(4):
            change(index, chance, step)
            patch.setattr(wye.backends.store.index, "DERIVED_FROM", 1_000)
            alone = read_corpus(index.newest())
            patch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)
            later = read_corpus(index.newest(), base)
            assert_same(later, alone)
            assert_same(read_corpus(index.newest(), first), alone)
            check_origin(later, base)
            base = later.parts[0] if later.parts else later


def check_origin(later: Corpus, before: Corpus) -> None:
    if later.parts is None:
        return
    base, added = later.parts
    assert base is before
    stored = dict(zip(before.ids, before.hashes, strict=True))
    assert not {*stored.items()}.intersection(zip(added.ids, added.hashes, strict=True))
    gone = [] if later.present is None else np.flatnonzero(~later.present).tolist()
    now = {later.ids[row]: later.hashes[row] for row in later.by_id.tolist()}
    assert gone == [row for row, id_ in enumerate(before.ids) if now.get(id_) != stored[id_]]


def test_what_was_derived_before_a_backup_was_put_back_is_a_base_as_far_as_its_rows_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wye.backends.store.index, "DERIVED_FROM", 0)
    monkeypatch.setattr(wye.backends.store.corpus, "_MOST", 1)
    passages = some_passages(9)
    index = make(tmp_path, passages)
    dataset = index.path / "passages.lance"
    shutil.copytree(dataset, tmp_path / "backup")
    write(index, [replace(passage, text="Not backed up.") for passage in passages[:4]])
    read_corpus(index.newest())
    shutil.rmtree(dataset)
    (tmp_path / "backup").rename(dataset)
    index = PassageStore.open(index.path)
    write(index, [Passage("new", "New", "Anna met Bob.")])
    files = index.newest().newest_derived
    assert files is not None
    corpus = read_corpus(index.newest(), stored_corpus(index, files))
    assert corpus.parts
    assert [*corpus.parts[1].ids] == sorted(["new", *(passage.id for passage in passages[:4])])
    shutil.rmtree(index.path / "derived")
    assert_same(corpus, read_corpus(index.newest()))
