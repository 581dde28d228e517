"""The walk on the graph of a question, against a dense solver."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends import reference
from tests.backends.conftest import counts_of, many_passages, shares_of
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import assemble
from wye.backends.trigraph.settings import AssemblySettings
from wye.backends.trigraph.walk import TOLERANCE, QuestionGraphs
from wye.backends.types import Passage


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
    passage, node = np.nonzero(counts)
    by_node = np.lexsort((passage, node))
    passage, node = passage[by_node], node[by_node]
    graph = QuestionGraphs(
        np.zeros(c, np.int64),
        np.arange(e),
        max(e, 1),
        passage,
        np.searchsorted(node, np.arange(e + 1)),
        counts[passage, node],
    )
    entities = np.flatnonzero(of_entities)
    (mass,) = graph.walk(of_passages, [(entities, of_entities[entities])], damping)
    expected, _ = reference.personalized_pagerank(
        shares_of(counts), of_passages, of_entities, damping
    )
    assert np.abs(mass - expected).sum() <= TOLERANCE / (1 - damping)


@pytest.mark.parametrize("damping", [-0.1, 1.0, 1.5])
def test_a_damping_without_a_limit_is_refused(damping: float) -> None:
    nothing = np.empty(0, np.int64)
    graph = QuestionGraphs(nothing, nothing, 1, nothing, np.zeros(1, int), np.empty(0))
    with pytest.raises(ValueError, match="damping must be in"):
        graph.walk(np.empty(0), [], damping)


def test_a_few_passages_have_the_edges_that_they_have_among_all(
    corpus_of: Callable[..., Corpus],
) -> None:
    corpus = corpus_of(*many_passages(30, 3))
    graph = assemble(corpus, AssemblySettings(noun_phrases="on"))
    for rows in (np.arange(30), np.arange(4, 30, 3), np.array([7]), np.empty(0, np.int64)):
        allowed = np.isin(np.arange(30), rows)
        own = QuestionGraphs.of(graph, corpus, [rows], [np.arange(len(graph))])
        node = np.repeat(np.arange(len(own.starts) - 1), np.diff(own.starts))
        dense = np.zeros((len(rows), len(own.starts) - 1))
        dense[own.passage, node] = own.count
        expected = counts_of(graph, corpus, allowed)[rows]
        e = len(own.entities)
        assert dense[:, :e].tolist() == expected[:, own.entities].tolist()
        assert np.count_nonzero(expected[:, : len(graph)]) == np.count_nonzero(dense[:, :e])
        assert sorted(dense[:, e:].T.tolist()) == sorted(expected[:, len(graph) :].T.tolist())


def test_consecutive_chunks_of_one_document_are_tied(corpus_of: Callable[..., Corpus]) -> None:
    chunks = [("d", 0), ("d", 1), ("d", 2), ("d", 10), ("d", 11), ("e", 0), ("e", 2), ("f", 0)]
    corpus = corpus_of(
        *(Passage(f"{d}#{n}", f"{d}{n}", f"[Nr{d}{n}].", {}, d, n) for d, n in chunks),
        Passage("g", "G", "[Gus] is alone."),
    )
    graph = assemble(corpus, AssemblySettings())
    walked = QuestionGraphs.of(graph, corpus, [np.arange(9)], [np.arange(len(graph))])
    tied = np.sort(walked.passage[walked.starts[len(walked.entities)] :].reshape(-1, 2), axis=1)
    names = sorted([corpus.ids[one], corpus.ids[other]] for one, other in tied.tolist())
    assert names == [["d#0", "d#1"], ["d#1", "d#2"], ["d#10", "d#11"]]


def test_several_questions_are_walked_as_each_alone_to_the_last_bit(
    corpus_of: Callable[..., Corpus],
) -> None:
    chance = np.random.default_rng(1)
    names = [[f"[Uma{n}{m}]" for m in range(n)] for n in (5, 6, 7)]
    lonely = [Passage(f"z{len(each)}", "", f"{' and '.join(each)}.") for each in names]
    corpus = corpus_of(*many_passages(30, 3), *lonely)
    graph = assemble(corpus, AssemblySettings(noun_phrases="on"))
    rows = [np.arange(33), np.empty(0, np.int64), np.arange(4, 30, 3), np.array([7]), np.arange(30)]
    restarts = [chance.random(len(each)) for each in rows]
    restarts[-1][:] = 0  # no mass at all
    entities = [np.array([0, 3]), np.array([1]), np.empty(0, np.int64), np.array([2, 5]), rows[1]]
    entities[3] = np.flatnonzero(graph.degrees == 1)  # no nodes of another question's graph
    assert len(entities[3])
    masses = [(each, chance.random(len(each))) for each in entities]
    restart = np.concatenate(restarts)
    together = QuestionGraphs.of(graph, corpus, rows, entities).walk(restart, masses, 0.5)
    assert len(together) == len(rows)
    for each, restart, mass, result in zip(rows, restarts, masses, together, strict=True):
        (alone,) = QuestionGraphs.of(graph, corpus, [each], [mass[0]]).walk(restart, [mass], 0.5)
        assert alone.tolist() == result.tolist()
        every = QuestionGraphs.of(graph, corpus, [each], [np.arange(len(graph))])
        assert result == pytest.approx(every.walk(restart, [mass], 0.5)[0], abs=1e-12)
    assert 0.5 < together[0].sum() <= 1
    assert not together[-1].any()
