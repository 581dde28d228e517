"""The walk on the graph of a question, against a dense solver."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends import reference
from tests.backends.conftest import counts_of, many_passages, shares_of
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph, assemble
from wye.backends.trigraph.question import Edges, InMemory
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.trigraph.walk import TOLERANCE, walk
from wye.backends.types import Passage

NO_TIES = np.empty((0, 2), np.int64)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.tuples(st.integers(1, 9), st.integers(1, 12)),
    damping=st.sampled_from([0.0, 0.5, 0.85, 0.99]),
)
def test_masses_are_those_of_a_direct_solution(
    seed: int, size: tuple[int, int], damping: float
) -> None:
    """With, often, passages that have no edge, and passages or entities with a single one."""
    chance = np.random.default_rng(seed)
    counts = np.where(chance.random(size) < 0.3, chance.integers(1, 5, size), 0).astype(np.float64)
    of_passages = chance.random(size[0]) * (chance.random(size[0]) < 0.5)
    counts = counts[:, counts.any(axis=0)]  # an entity without passages has no part in it
    c, e = counts.shape
    of_entities = chance.random((e,)) * (chance.random((e,)) < 0.3)
    passage, entity = np.nonzero(counts)
    edges = Edges(
        np.arange(c),
        passage,
        entity,
        counts[passage, entity],
        *(np.empty(0, np.int64), np.empty(0, np.int64)),
    )
    entities = np.flatnonzero(of_entities)
    mass = walk(edges, NO_TIES, of_passages, (entities, of_entities[entities]), damping)
    expected, _ = reference.personalized_pagerank(
        shares_of(counts), of_passages, of_entities, damping
    )
    assert np.abs(mass - expected).sum() <= TOLERANCE / (1 - damping)


@pytest.mark.parametrize("damping", [-0.1, 1.0, 1.5])
def test_a_damping_without_a_limit_is_refused(damping: float) -> None:
    nothing = np.empty(0, np.int64)
    edges = Edges(nothing, nothing, nothing, np.empty(0), nothing, nothing)
    with pytest.raises(ValueError, match="damping must be in"):
        walk(edges, NO_TIES, np.empty(0), (nothing, np.empty(0)), damping)


def test_a_few_passages_have_the_edges_that_they_have_among_all(
    corpus_of: Callable[..., Corpus],
) -> None:
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
