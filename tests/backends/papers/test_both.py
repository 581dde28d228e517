"""What holds for both arms of published systems: filters are exact, and order changes nothing."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.backends.conftest import NAMES, PHRASES, many_passages
from tests.backends.papers.test_clue import graph_of
from tests.backends.trigraph.test_retriever import questions
from wye.backends.papers.clue import ClueRetriever
from wye.backends.papers.settings import ZoomSettings
from wye.backends.papers.zoom import ZoomRetriever
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Passage

CorpusOf = Callable[..., Corpus]
Arm = Callable[[TriGraphRetriever], ClueRetriever | ZoomRetriever]
# In small corpora nothing is far above the mean.
LOW, EDGES = ZoomSettings(deviations=1.0), ZoomSettings(deviations=1.0, neighbours=3)
ARMS: dict[str, Arm] = {
    "clue": ClueRetriever,
    "zoom": lambda graph: ZoomRetriever(graph, LOW),
    "zoom with edges": lambda graph: ZoomRetriever(graph, EDGES),
}


@pytest.mark.parametrize(("name", "error"), [("clue", 1e-5), ("zoom", 1e-9)])
def test_a_filter_equals_an_index_without_the_passages(
    corpus_of: CorpusOf, name: str, error: float
) -> None:
    names = " ".join(f"[{name}]" for name in NAMES)
    phrases = " ".join(f"{{{phrase}}}" for phrase in PHRASES)
    every = [Passage("a0", "", f"{names} {phrases}"), Passage("a1", "Como (lake)", phrases)]
    passages = [*every, *many_passages(30, 7)]
    whole = graph_of(corpus_of, passages)
    allowed = np.random.default_rng(3).random(32) < 0.5
    allowed[:2] = True
    remaining = [p for p in passages if allowed[whole.corpus.ids.index(p.id)]]
    alone = ARMS[name](graph_of(corpus_of, remaining, passages))
    queries = questions(20)
    filtered = ARMS[name](whole).search(queries, 50, allowed)
    for one, other in zip(filtered, alone.search(queries, 50), strict=True):
        assert [hit.id for hit in one.hits] == [hit.id for hit in other.hits]
        scores = [hit.score for hit in other.hits]
        assert [hit.score for hit in one.hits] == pytest.approx(scores, rel=error)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("filtered", [False, True])
def test_neither_the_batch_nor_the_order_of_the_file_changes_a_bit(
    corpus_of: CorpusOf, monkeypatch: pytest.MonkeyPatch, name: str, *, filtered: bool
) -> None:
    passages = many_passages(50)
    arm = ARMS[name](graph_of(corpus_of, passages))
    allowed = np.random.default_rng(0).random(50) < 0.7 if filtered else None
    queries = questions(40)
    together = arm.search(queries, 10, allowed)
    assert together == [arm.search([query], 10, allowed)[0] for query in queries]
    monkeypatch.setattr("wye.backends.papers.zoom.CELLS", 500)
    assert together == arm.search(queries, 10, allowed)
    random.Random(0).shuffle(passages)
    shuffled = ARMS[name](graph_of(corpus_of, passages))
    assert together[::-1] == shuffled.search(queries[::-1], 10, allowed)
