"""Given texts are ranked as the route hybrid ranks them where they are the index."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hashing import FakeAnalyser
from wye.backends.dense import DenseRetriever
from wye.backends.lexical import LexicalRetriever
from wye.backends.types import Passage, Query, Ranking
from wye.featurizer.analyser import Analyser, AnalyserSettings
from wye.featurizer.types import finished
from wye.router.fusion import FusionSettings, fuse_text
from wye.router.relevance_files import load_relevance
from wye.router.rerank import RankedText, Reranker, falling
from wye.router.settings import MODELS, RELEVANCE_MODEL
from wye.router.types import ArmResults, Route

ANALYSER = cast("Analyser", FakeAnalyser(AnalyserSettings()))
words = st.lists(st.sampled_from(["ada", "engine", "mill", "rain", "who", "store"]), min_size=1)
text = words.map(" ".join)


def rerank(reranker: Reranker, question: str, passages: list[Passage]) -> list[RankedText]:
    cosines = finished(reranker.compare_in_steps(question, passages))
    return reranker.rank(question, passages, cosines)


def reranker_of(passages: list[Passage]) -> Reranker:
    """With the statistics of an index of these passages."""
    ids = [passage.id for passage in passages]
    lexical = LexicalRetriever(ids, [f"{one.title}\n{one.text}" for one in passages])
    return Reranker(ANALYSER, lexical, FusionSettings(), None)


def by_an_index(reranker: Reranker, question: str, passages: list[Passage]) -> Ranking:
    """The slow way: index the texts, ask both arms for all of them, and fuse."""
    ids = [passage.id for passage in passages]
    vectors = np.stack([found.vector for found in ANALYSER.analyse(passages)])
    query = Query(question, ANALYSER.encode_questions([question])[0])
    dense, lexical = DenseRetriever(ids, vectors), reranker.lexical
    arms = ((Route.DENSE, dense), (Route.LEXICAL, lexical))
    lists = {route: arm.search([query], len(ids))[0] for route, arm in arms}
    return fuse_text([ArmResults(query, (), lists)], reranker.fusion, len(ids))[0]


@given(texts=st.lists(text, min_size=1, max_size=12), question=text)
@settings(max_examples=200)
def test_the_order_is_of_hybrid_over_an_index_of_the_texts(texts: list[str], question: str) -> None:
    passages = [Passage(f"p{n:02}", f"Title {n % 3}", own) for n, own in enumerate(texts)]
    reranker = reranker_of(passages)
    expected = by_an_index(reranker, question, passages)
    scores = {hit.id: hit.score for hit in expected.hits}
    found = rerank(reranker, question, passages)
    assert sorted(one.position for one in found) == [*range(len(texts))]
    # Equal in exact arithmetic, two sums may differ in the last bit of float32.
    in_order = [scores[passages[one.position].id] for one in found]
    assert np.diff(in_order).max(initial=-1.0) < 1e-6
    best = max(scores.values())
    shares = [score / best if best > 0 else 0.0 for score in in_order]
    assert [one.relevance for one in found] == pytest.approx(shares, abs=1e-5)


def test_equal_texts_stay_in_the_order_given() -> None:
    passages = [Passage("-", "", "Ada wrote it.")] * 3
    assert [one.position for one in rerank(reranker_of([]), "Ada?", passages)] == [0, 1, 2]


@given(texts=st.lists(text, min_size=1, max_size=120), question=text)
@settings(max_examples=50)
def test_relevance_is_a_probability_that_never_rises(texts: list[str], question: str) -> None:
    curves = load_relevance(MODELS / RELEVANCE_MODEL)
    reranker = Reranker(ANALYSER, reranker_of([]).lexical, FusionSettings(), curves)
    found = rerank(reranker, question, [Passage("-", "", own) for own in texts])
    relevance = [one.relevance for one in found]
    assert all(0 <= one <= 1 for one in relevance)
    assert relevance == sorted(relevance, reverse=True)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_falling_values_are_the_nearest(values: list[float]) -> None:
    found = falling(values)
    assert found == sorted(found, reverse=True)
    # Of a falling sequence, each value is the least mean to its left of the best to its right.
    n = len(values)
    slow = [
        min(max(np.mean(values[i : j + 1]) for j in range(at, n)) for i in range(at + 1))
        for at in range(n)
    ]
    assert found == pytest.approx(slow)
