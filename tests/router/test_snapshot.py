"""A version made after another answers as one that was made from nothing."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backends.words
from backends.lexical import LexicalRetriever
from backends.store.index import PassageStore
from backends.store.ingest import ingest
from backends.store.snapshot import Corpus
from backends.trigraph.retriever import TriGraphRetriever
from backends.types import Passage, Query
from benchmarks.hashing import HashAnalyser
from router.session import Snapshot
from router.settings import Settings
from router.types import Route

ANALYSER = HashAnalyser()
NAMES = ["Anna", "Bob", "Carol", "Dave", "Eva", "Farid"]
ARMS = (Route.DENSE, Route.LEXICAL, Route.GRAPH)


def passage(number: int, chance: random.Random) -> Passage:
    first, second, third = chance.sample(NAMES, 3)
    return Passage(f"p{number}", first, f"{first} met {second}. {third} slept beneath mountains.")


def questions() -> list[Query]:
    vectors = ANALYSER.encode_surfaces(NAMES)
    return [
        Query(f"Who met {name}?", vector)
        for name, vector in zip(NAMES, np.asarray(vectors), strict=True)
    ]


@pytest.mark.parametrize("spare", [0, 10_000])
def test_every_arm_ranks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    monkeypatch.setattr(backends.words, "_SPARE", spare)
    chance = random.Random(spare)
    index = PassageStore.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    settings = Settings()
    ingest(index, [passage(number, chance) for number in range(20)], ANALYSER)
    before: Snapshot | None = None
    for step in range(5):
        snapshot, alone = Snapshot(index, settings, before), Snapshot(index, settings)
        for arm in ARMS:
            ours = snapshot.retriever(arm).search(questions(), 5)
            assert ours == alone.retriever(arm).search(questions(), 5)
            assert any(ranking.hits for ranking in ours)
        snapshot.settle()
        before = snapshot
        changed = replace(passage(step, chance), title="Grace")
        ingest(index, [passage(100 + step, chance), changed], ANALYSER)
        with index.writer() as writer:
            writer.delete([f"p{10 + step}"])
        index.refresh()


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    chance = random.Random(1)
    index = PassageStore.create(tmp_path, ANALYSER.dimension, ANALYSER.fingerprint)
    ingest(index, [passage(number, chance) for number in range(20)], ANALYSER)
    before = Snapshot(index, Settings())
    assert isinstance(before.retriever(Route.GRAPH), TriGraphRetriever)
    ingest(index, [passage(99, chance)], ANALYSER)
    index.refresh()
    after = Snapshot(index, Settings(), before)
    read: list[str] = []

    def texts(corpus: Corpus, rows: Sequence[int]) -> list[str]:
        read.extend(corpus.ids[row] for row in rows)
        return original(corpus, rows)

    original = Corpus.texts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Corpus, "texts", texts)
        assert isinstance(after.retriever(Route.LEXICAL), LexicalRetriever)
    assert read == ["p99"]
    assert after.graph.graph.normalised.words is before.graph.graph.normalised.words
