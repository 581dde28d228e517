"""The graph arm with local walks beside the same arm with full ones."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from backends.store.snapshot import Corpus
from backends.trigraph import retriever as trigraph
from backends.trigraph.retriever import TriGraphRetriever, TriGraphSettings
from backends.types import Mention, Passage, Query

CorpusOf = Callable[..., Corpus]
NAMES = ["Ada", "Bo Ek", "Como", "Dee", "Eve", "Flo"]
BASE = TriGraphSettings(lexical_weight=0, lexical_weight_titled=0, threshold=0.01)


@pytest.fixture
def corpus(corpus_of: CorpusOf) -> Corpus:
    source = random.Random(4)
    texts = [" likes ".join(f"[{name}]" for name in source.choices(NAMES, k=3)) for _ in range(40)]
    passages = [Passage(f"p{n:02}", source.choice([*NAMES, ""]), t) for n, t in enumerate(texts)]
    return corpus_of(*passages)


def questions() -> list[Query]:
    vectors = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = []
    for number, vector in enumerate(vectors):
        names = NAMES[number % 6 : number % 6 + number % 3]
        mentions = tuple(Mention(name, "entity") for name in names)
        asked.append(Query(f"who likes {' and '.join(names)}?", vector, mentions))
    return asked


@pytest.mark.parametrize("filtered", [False, True])
def test_local_walks_score_a_little_lower_and_never_higher(corpus: Corpus, filtered: bool) -> None:
    allowed = np.arange(40) % 3 > 0 if filtered else None
    full = TriGraphRetriever(corpus, replace(BASE, walk="full"))
    local = TriGraphRetriever(corpus, replace(BASE, walk="local"))
    asked = questions()
    batch = full.batch(asked, allowed)
    traces = [batch.trace(place) for place in range(len(asked))]
    swept = batch.run_pagerank(traces)
    pushed = local.batch(asked, allowed).run_pagerank(traces)
    missing = swept.passages - pushed.passages
    assert missing.min() >= -1e-6
    assert (missing.sum(axis=0) <= pushed.residual + 1e-6).all()
    assert missing.sum() > 0
    if allowed is not None:
        assert not pushed.passages[~allowed].any()
    for one, other in zip(
        full.search(asked, 5, allowed), local.search(asked, 5, allowed), strict=True
    ):
        assert one.hits[0].id == other.hits[0].id
        assert one.degraded == other.degraded


def test_local_walks_rank_each_question_as_if_alone(corpus: Corpus) -> None:
    retriever = TriGraphRetriever(corpus, replace(BASE, walk="local"))
    asked = questions()
    assert retriever.search(asked, 9) == [retriever.search([query], 9)[0] for query in asked]


@pytest.mark.parametrize(("local_from", "same_as"), [(40, "local"), (41, "full")])
def test_auto_is_local_in_a_large_corpus(corpus: Corpus, local_from: int, same_as: str) -> None:
    found = TriGraphRetriever(corpus, replace(BASE, walk="auto", local_from=local_from))
    said = TriGraphRetriever(corpus, replace(BASE, walk=same_as))  # type: ignore[arg-type]
    assert found.search(questions(), 9) == said.search(questions(), 9)


def test_questions_are_walked_for_a_few_at_a_time_where_room_is_short(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = TriGraphRetriever(corpus, BASE)
    expected = retriever.search(questions(), 9)
    monkeypatch.setattr(trigraph, "CELLS", 5 * len(corpus))
    assert retriever.search(questions(), 9) == expected
    monkeypatch.setattr(trigraph, "CELLS", 1)
    assert retriever.search(questions(), 9) == expected
