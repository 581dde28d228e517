"""The walk on the graph of a question, against a dense solver, and promotion after it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends import reference
from tests.backends.conftest import CorpusOf, counts_of, many_passages, shares_of
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph, assemble
from wye.backends.trigraph.question import Edges, InMemory
from wye.backends.trigraph.retriever import TriGraphRetriever
from wye.backends.trigraph.settings import AssemblySettings, TriGraphSettings
from wye.backends.trigraph.walk import TOLERANCE, Masses, Promoted, promote, promoted, reach, walk
from wye.backends.types import Passage, Query

NO_TIES = np.empty((0, 2), np.int64)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.tuples(st.integers(1, 9), st.integers(1, 12)),
    damping=st.sampled_from([0.0, 0.5, 0.85, 0.99]),
)
def test_masses_are_those_solved_directly(seed: int, size: tuple[int, int], damping: float) -> None:
    """With, often, passages that have no edge, and passages or entities with a single one."""
    chance = np.random.default_rng(seed)
    counts = np.where(chance.random(size) < 0.3, chance.integers(1, 5, size), 0).astype(np.float64)
    of_passages = chance.random(size[0]) * (chance.random(size[0]) < 0.5)
    counts = counts[:, counts.any(axis=0)]  # an entity without passages has no part in it
    c, e = counts.shape
    of_entities = chance.random((e,)) * (chance.random((e,)) < 0.3)
    passage, entity = np.nonzero(counts)
    none = np.empty(0, np.int64)
    edges = Edges(np.arange(c), passage, entity, counts[passage, entity], none, none)
    entities = np.flatnonzero(of_entities)
    mass = walk(edges, NO_TIES, of_passages, (entities, of_entities[entities]), damping)
    expected, _ = reference.personalized_pagerank(
        shares_of(counts), of_passages, of_entities, damping
    )
    assert np.abs(mass - expected).sum() <= TOLERANCE / (1 - damping)


def test_few_passages_have_the_edges_they_have_among_all(corpus_of: Callable[..., Corpus]) -> None:
    corpus = corpus_of(*many_passages(30, 3))
    graph = assemble(corpus, AssemblySettings(noun_phrases="on"))
    for rows in (np.arange(30), np.arange(4, 30, 3), np.array([7]), np.empty(0, np.int64)):
        allowed = np.isin(np.arange(30), rows)
        source = InMemory(corpus, graph, FilteredGraph(graph))
        edges, ties = source.edges(rows), source.consecutive(rows)
        counts = np.zeros((len(rows), len(graph)))
        counts[edges.passage, edges.entity] = edges.count
        expected = counts_of(graph, corpus, allowed)[rows]
        assert counts.tolist() == expected[:, : len(graph)].tolist()
        chunks = np.zeros((len(ties), len(rows)))
        chunks[np.arange(len(ties))[:, None], ties] = 1
        assert sorted(chunks.tolist()) == sorted(expected[:, len(graph) :].T.tolist())


def test_consecutive_chunks_of_one_document_are_tied(corpus_of: Callable[..., Corpus]) -> None:
    chunks = [("d", 0), ("d", 1), ("d", 2), ("d", 10), ("d", 11), ("e", 0), ("e", 2), ("f", 0)]
    corpus = corpus_of(
        *(Passage(f"{d}#{n}", f"{d}{n}", f"[Nr{d}{n}].", {}, d, n) for d, n in chunks),
        Passage("g", "G", "[Gus] is alone."),
    )
    graph = assemble(corpus, AssemblySettings())
    source = InMemory(corpus, graph, FilteredGraph(graph))
    edges, ties = source.edges(np.arange(9)), source.consecutive(np.arange(9))
    names = sorted([corpus.ids[one], corpus.ids[other]] for one, other in ties.tolist())
    assert names == [["d#0", "d#1"], ["d#1", "d#2"], ["d#10", "d#11"]]
    restart = np.arange(len(graph)), np.ones(len(graph))
    mass = walk(edges, ties, np.ones(9), restart, 0.5)
    counts = counts_of(graph, corpus)
    expected, _ = reference.personalized_pagerank(
        shares_of(counts), np.ones(9), np.repeat([1.0, 0.0], [len(graph), 3]), 0.5
    )
    assert mass == pytest.approx(expected, abs=2 * TOLERANCE)


# Each of the others mentions Ada; only the letter mentions Como.
PASSAGES = (
    Passage("ada", "Ada", "[[Ada]] wrote notes."),
    Passage("como", "Como", "[[Como]] is a lake."),
    Passage("letter", "Letter", "[[Ada]] wrote from [[Como]]."),
    Passage("notes", "Notes", "[[Ada]] wrote about engines."),
)


@pytest.fixture
def arm(corpus_of: CorpusOf) -> TriGraphRetriever:
    own = {passage.id: [1.0, 0.0] for passage in PASSAGES}
    texts = {
        line.replace("[[", "").replace("]]", ""): [1.0, 0.0] for p in PASSAGES for line in [p.text]
    }
    corpus = corpus_of(*PASSAGES, vectors=own | texts, dimension=2)
    settings = TriGraphSettings(lexical_weight=0, lexical_weight_titled=0)
    return TriGraphRetriever(corpus, settings)


def masses(arm: TriGraphRetriever, **given: float) -> Masses:
    rows = np.array(arm.corpus.rows(list(given)), np.int64)
    order = np.argsort(rows)
    return rows[order], np.array([*given.values()])[order]


def one(arm: TriGraphRetriever, settled: Masses, share: float) -> Promoted:
    rows, mass = settled
    source = InMemory(arm.corpus, arm.graph, FilteredGraph(arm.graph))
    return promote(source, source.edges(rows), mass, share)


def test_a_passage_moves_up_to_the_one_that_names_it(arm: TriGraphRetriever) -> None:
    before = masses(arm, ada=0.1, como=0.01, letter=0.64, notes=0.2)
    rows, unmoved = before
    assert one(arm, before, 0) == (unmoved, {})
    mass, named_in = one(arm, before, 0.5)
    found = dict(zip([arm.corpus.ids[row] for row in rows], mass.tolist(), strict=True))
    # Como is mentioned by one other passage, Ada by two.
    assert found["como"] == pytest.approx((0.01 * 0.64) ** 0.5)
    assert found["ada"] == pytest.approx(0.1 * 6.4 ** (0.5 / 2**0.5))
    assert (found["letter"], found["notes"]) == (0.64, 0.2)
    ids = arm.corpus.ids
    names = {ids[row]: ids[by] for row, by in named_in.items()}
    assert names == {"como": "letter", "ada": "letter"}


def test_an_explanation_says_where_a_passage_was_named(arm: TriGraphRetriever) -> None:
    batch = arm.batch([Query("Who wrote from Ada?", np.array([1, 0], np.float32))])
    (ranking,) = batch.search([0], 4)
    notes = {note.id: note for note in batch.explain(0, ranking).passages}
    ids = arm.corpus.ids
    assert notes["como"].named_in == "letter"
    assert {one.named_in for one in notes.values()} <= {"", *ids}
    total = sum(note.pagerank for note in notes.values())
    assert total == pytest.approx(1)


def test_a_title_that_very_many_passages_mention_promotes_none(
    arm: TriGraphRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = masses(arm, ada=0.1, como=0.01, letter=0.64, notes=0.2)
    monkeypatch.setattr("wye.backends.trigraph.walk.MOST_NAMING", 2)
    assert [arm.corpus.ids[row] for row in one(arm, before, 0.5).named_in] == ["como"]


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), max_size=12),
    st.floats(0, 1),
)
def test_no_passage_falls_or_overtakes_the_one_that_names_it(
    mass: list[float], pairs: list[tuple[int, int, int]], share: float
) -> None:
    own = [(to % len(mass), by % len(mass), d) for to, by, d in pairs]
    before = np.array(mass)
    source = before[[by for _, by, _ in own]] if own else np.zeros(0)
    places = np.array([to for to, _, _ in own], np.int64)
    degree = np.array([d for _, _, d in own], np.int64)
    after, moved = promoted(before, places, source, reach(share, degree))
    assert (after >= before).all()
    assert {*places[moved].tolist()} == {*np.flatnonzero(after > before).tolist()}
    assert (after[places[moved]] <= source[moved] * (1 + 1e-9)).all()
