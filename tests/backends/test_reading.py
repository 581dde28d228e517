"""A version read after another is the same as one read from nothing."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import backends.store.snapshot
from backends.store.index import Index
from backends.store.ingest import ingest
from backends.store.snapshot import Corpus, read_corpus
from backends.types import Passage
from tests.backends.test_corpus import ANALYSER, assert_same, check, make, some_passages


def write(index: Index, passages: Sequence[Passage], gone: Sequence[str]) -> None:
    """Two commits, and none where there is nothing to write."""
    if passages:
        ingest(index, passages, ANALYSER)
    with index.writer() as writer:
        writer.delete(gone)
    index.refresh()


def change(index: Index, chance: random.Random, step: int) -> None:
    """New, changed and deleted passages, and sometimes a compaction."""
    stored = [row["id"] for row in index.snapshot().to_table(columns=["id"]).to_pylist()]
    old = chance.sample(stored, min(len(stored), chance.randint(0, 3)))
    new = [
        replace(passage, id=f"{step}-{passage.id}", document=f"{step}-{passage.document}")
        for passage in some_passages(chance.randint(0, 4), step)
    ]
    changed = [Passage(id_, "Now Carol", f"Carol met Dave in {step}.") for id_ in old[:1]]
    write(index, [*new, *changed], old[1:])
    if chance.random() < 0.3:
        with index.writer() as writer:
            writer.compact(keep=timedelta(0))
        index.refresh()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(count=st.integers(0, 40), seed=st.integers(0, 999), share=st.sampled_from([0.25, 1.0]))
def test_read_after_another_version_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, share: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends.store.snapshot, "_MOST_READ", share)
        compare(tmp_path_factory.mktemp("index"), count, seed)


def compare(folder: Path, count: int, seed: int) -> None:
    index = make(folder, some_passages(count, seed))
    corpus = read_corpus(index)
    chance = random.Random(seed)
    for step in range(3):
        change(index, chance, step)
        later = read_corpus(index, corpus)
        assert_same(later, read_corpus(index))
        check_origin(later, corpus)
        corpus = later


def check_origin(later: Corpus, before: Corpus) -> None:
    if later.origin is None:
        return
    for row, origin in enumerate(later.origin.tolist()):
        if origin < 0:
            assert later.hashes[row] not in before.hashes
        else:
            assert later.hashes[row] == before.hashes[origin]
            assert later.titles[row] == before.titles[origin]
    np.testing.assert_array_equal(later.changed, np.flatnonzero(later.origin < 0))


def test_only_what_changed_is_read(tmp_path: Path) -> None:
    passages = some_passages(20)
    index = make(tmp_path, passages)
    before = read_corpus(index)
    assert before.changed.tolist() == list(range(20))
    new = Passage("new", "New", "Anna met Bob.")
    write(index, [new], [passages[3].id])
    later = read_corpus(index, before)
    assert [later.ids[row] for row in later.changed] == ["new"]
    assert list(later.iter_texts(later.changed)) == [("New", "Anna met Bob.")]
    check(later, [*passages[:3], *passages[4:], new])


def test_much_that_is_new_is_read_in_one_pass(tmp_path: Path) -> None:
    index = make(tmp_path, some_passages(4))
    before = read_corpus(index)
    write(
        index, [replace(p, id=f"x{p.id}", document=f"x{p.document}") for p in some_passages(9)], []
    )
    later = read_corpus(index, before)
    assert later.origin is None
    assert_same(later, read_corpus(index))


def test_passages_that_share_one_content(tmp_path: Path) -> None:
    """Two ids may name the same chunk of the same document."""
    twins = [Passage(id_, "Twin", "Anna met Bob.", document="both") for id_ in ("a", "b")]
    index = make(tmp_path, [*twins, *some_passages(9)])
    before = read_corpus(index)
    write(index, [Passage("c", "Other", "Carol met Bob.")], [])
    later = read_corpus(index, before)
    assert later.changed.tolist() == [later.ids.index("c")]
    assert_same(later, read_corpus(index))


def test_an_earlier_version_stays_as_it_is(tmp_path: Path) -> None:
    passages = some_passages(12)
    index = make(tmp_path, passages)
    before = read_corpus(index)
    write(index, [Passage("c", "Other", "Carol met Bob.")], [passages[0].id])
    read_corpus(index, before)
    check(before, passages)
