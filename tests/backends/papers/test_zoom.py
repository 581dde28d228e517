"""The zoom arm against a walk over one dense graph; clue and zoom against themselves."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.backends import reference
from tests.backends.conftest import NAMES, PHRASES, CorpusOf, counts_of, many_passages
from tests.backends.papers.test_clue import graph_of
from tests.backends.trigraph.test_retriever import questions
from wye.backends.papers.clue import ClueRetriever
from wye.backends.papers.settings import ZoomSettings
from wye.backends.papers.zoom import NOTHING_STANDS_OUT, ZoomRetriever, chunk_zoom, decoupled_walk
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.types import Float64, Passage, Query

Arm = Callable[[TriGraphRetriever], ClueRetriever | ZoomRetriever]
# In small corpora nothing is far above the mean.
LOW, EDGES = ZoomSettings(deviations=1.0), ZoomSettings(deviations=1.0, neighbours=3)
ARMS: dict[str, Arm] = {
    "clue": ClueRetriever,
    "zoom": lambda graph: ZoomRetriever(graph, LOW),
    "zoom with edges": lambda graph: ZoomRetriever(graph, EDGES),
}
ZOOMS = st.builds(
    ZoomSettings,
    restart=st.sampled_from([0.2, 0.5, 0.8]),
    steps=st.integers(1, 8),
    deviations=st.sampled_from([0.0, 1.0, 2.0, 9.0]),
    neighbours=st.sampled_from([0, 1, 3, 99]),
    least=st.sampled_from([0.2, 0.9]),
)


def similar(vectors: Float64, zoom: ZoomSettings) -> Float64:
    """Edges between passages, row by row."""
    result = np.zeros((len(vectors), len(vectors)))
    for row, vector in enumerate(vectors):
        near = vectors @ vector
        above = np.flatnonzero(near > near.mean() + zoom.deviations * near.std())
        best = sorted(above.tolist(), key=lambda other: (-near[other], other))[: zoom.neighbours]
        result[row, best] = np.exp(near[best])
    return result


@given(zoom=ZOOMS, seed=st.integers(0, 5), share=st.sampled_from([1.0, 0.6]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_walks_side_by_side_equal_single_walks_with_and_without_a_filter(
    corpus_of: CorpusOf, zoom: ZoomSettings, seed: int, share: float
) -> None:
    graph = graph_of(corpus_of, many_passages(16, seed))
    allowed = np.random.default_rng(seed).random(16) < share
    allowed[seed] = True
    mask = None if allowed.all() else allowed
    rows = np.flatnonzero(allowed)
    filtered = FilteredGraph(graph.graph, mask)
    counts = counts_of(graph.graph, graph.corpus, allowed)[:, : len(graph.graph)]
    vectors = np.asarray(graph.corpus.vectors, np.float64)[rows]
    queries = questions(5, seed)
    result = ZoomRetriever(graph, zoom).search(queries, 99, mask)
    row_of = {id_: row for row, id_ in enumerate(graph.corpus.ids)}
    for query, ranking in zip(queries, result, strict=True):
        seeds = graph.finder.find(query, filtered.degree)
        near = vectors @ query.vector
        named = [seed.entity for seed in seeds if seed.value >= zoom.least]
        lost = not named and not (near > near.mean() + zoom.deviations * near.std()).any()
        assert ranking.degraded == (NOTHING_STANDS_OUT if lost else "")
        if lost:
            continue
        expected = reference.zoom(
            (counts[rows] > 0).astype(np.float64),
            near,
            named,
            similar(vectors, zoom) if zoom.neighbours else None,
            deviations=zoom.deviations,
            restart=zoom.restart,
            steps=zoom.steps,
        )[: len(rows)]
        scores = {row_of[hit.id]: hit.score for hit in ranking.hits}
        assert [scores.get(row, 0.0) for row in rows.tolist()] == pytest.approx(
            expected.tolist(), abs=1e-6
        )
        assert set(scores) <= set(rows.tolist())


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


def test_a_question_that_stands_out_nowhere_takes_the_most_similar(corpus_of: CorpusOf) -> None:
    graph = graph_of(corpus_of, [Passage(id_, "", "nothing named.") for id_ in "abc"])
    query = Query("who is it?", questions(1)[0].vector)
    arm = ZoomRetriever(graph, ZoomSettings(most=2))
    (result,) = arm.search([query], 3)
    near = graph.corpus.vectors @ query.vector
    assert result.degraded == NOTHING_STANDS_OUT
    assert [hit.id for hit in result.hits] == ["abc"[row] for row in np.argsort(-near)[:2]]
    assert arm.search([query], 3, np.zeros(3, bool))[0].hits == ()
    assert arm.search([], 3) == []


def level(matrix: Float64) -> Float64:
    """Average 1 over what is not 0."""
    return matrix / matrix[matrix != 0].mean() if matrix.any() else matrix


def columns(matrix: Float64) -> Float64:
    """Each column divided by its sum; one of zeros stays."""
    made = matrix.copy()
    for number in range(matrix.shape[1]):
        if total := matrix[:, number].sum():
            made[:, number] /= total
    return made


def walked(
    vectors: Float64, passage: list[int], mentions: Float64, active: Float64, question: Float64
) -> Float64:
    """Mass of the sentences after 400 steps of a walk that restarts with probability .9."""
    size, names = mentions.shape
    near, alike = np.zeros((size, size)), np.zeros((size, size))
    for one in range(size):
        for other in range(size):
            alike[one, other] = np.exp(vectors[one] @ vectors[other])
            if passage[one] == passage[other]:
                near[one, other] = np.exp(-((one - other) ** 2) / 2)
    walk = np.zeros((size + names, size + names))
    walk[:size, :size] = level(0.5 * columns(near) + 0.5 * columns(alike))
    walk[:size, size:] = level(mentions)
    walk[size:, :size] = level(mentions).T
    walk = columns(walk)
    start = np.zeros(size + names)
    if active.any():
        start[size:] = active
    else:
        start[:size] = np.exp(vectors @ question)
    start /= start.sum()
    mass, settled = start, np.zeros_like(start)
    for _ in range(400):
        settled = settled + mass
        mass = 0.1 * walk @ mass
    return settled[:size]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 5))
def test_scores_are_those_of_the_walk(seed: int, sentences: int, names: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((sentences, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    passage = np.sort(random.integers(0, 3, sentences))
    mentions = (random.random((sentences, names)) < 0.4).astype(float)
    active = random.random(names) * (random.random(names) < 0.5)
    question = random.standard_normal(4).astype(np.float32)
    scores = chunk_zoom(vectors, passage, mentions, active, question)
    expected = walked(vectors, passage.tolist(), mentions, active, question.astype(float))
    assert scores == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("filtered", [False, True])
def test_sentences_of_some_passages_are_scored_by_the_walks_entities(
    corpus_of: CorpusOf, filtered: bool
) -> None:
    graph = graph_of(corpus_of, many_passages(20))
    corpus, mentions = graph.corpus, graph.graph.mentions
    allowed = np.arange(20) % 4 > 0 if filtered else None
    arm, query = ZoomRetriever(graph, LOW), questions(1)[0]
    ids = [corpus.ids[row] for row in (7, 2, 13)]
    scored = arm.score_sentences(query, ids, allowed)
    filtered_graph = graph.batch((), allowed).filtered
    shared = arm.shared(filtered_graph)
    edges, _ = arm.edges([query], filtered_graph, shared)
    mass = decoupled_walk(shared, edges, LOW.restart, LOW.steps)[0, 20:]
    rows = np.flatnonzero(np.isin(corpus.sentence_passage, (2, 7, 13)))
    matrix = np.array(
        [[float(e in mentions.one(r)) for e in range(len(mass))] for r in rows.tolist()]
    )
    used = matrix.any(axis=0)
    scores = chunk_zoom(
        corpus.sentence_vectors[rows].astype(float),
        corpus.sentence_passage[rows].astype(np.int64),
        matrix[:, used],
        mass[used],
        query.vector,
    )
    pairs = dict(
        zip(rows, zip(corpus.sentence_texts(rows), scores.tolist(), strict=True), strict=True)
    )
    for passage, own in zip((7, 2, 13), scored, strict=True):
        expected = [pairs[row] for row in rows if corpus.sentence_passage[row] == passage]
        assert [text for text, _ in own] == [text for text, _ in expected]
        assert [score for _, score in own] == pytest.approx([score for _, score in expected])
    assert arm.score_sentences(query, [], allowed) == []
