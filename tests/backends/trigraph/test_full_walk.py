"""The walk, against a dense solver of our own and against scikit-network."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sknetwork.ranking import PageRank

from tests.backends import reference
from wye.backends.trigraph.full_walk import (
    Masses,
    build_full_walk,
    personalized_pagerank,
    share_of_mentions,
    with_edges,
)
from wye.backends.types import Float64

DAMPINGS = [0.0, 0.5, 0.85, 0.99]
seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 12))


def bipartite(
    generator: np.random.Generator, n: int, e: int, density: float = 0.3
) -> sparse.csc_array:
    """Weights with, often, rows and columns that are empty or hold a single edge."""
    edges = generator.random((n, e)) < density
    return sparse.csc_array(edges * generator.uniform(0.1, 3, (n, e)))


def restarts(
    generator: np.random.Generator, n: int, e: int, b: int
) -> tuple[Float64, sparse.csc_array]:
    """Mostly sparse restart masses; the first of several columns has none at all."""
    passages = generator.random((n, b)) * (generator.random((n, b)) < 0.5)
    entities = generator.random((e, b)) * (generator.random((e, b)) < 0.3)
    if b > 1:
        passages[:, 0], entities[:, 0] = 0, 0
    return passages, sparse.csc_array(entities)


def per_column(entities: sparse.csc_array) -> list[Masses]:
    parts = pairwise(entities.indptr.tolist())
    return [(entities.indices[a:b].astype(np.int64), entities.data[a:b]) for a, b in parts]


def both_masses(
    weights: sparse.csc_array,
    passages: Float64,
    entities: sparse.csc_array,
    damping: float,
    tolerance: float,
) -> tuple[Float64, Float64]:
    walk, dense = build_full_walk(weights), weights.toarray()
    settled = personalized_pagerank(
        walk, passages, per_column(entities), damping=damping, tolerance=tolerance
    )
    totals, degree = passages.sum(axis=0) + entities.sum(axis=0), dense.sum(axis=1)
    to_entities = dense.T / np.where(degree > 0, degree, 1)
    restarted = entities.toarray() * ((1 - damping) / np.where(totals > 0, totals, 1))
    return settled, restarted + damping * to_entities @ settled


@settings(max_examples=200)
@given(
    seed=seeds,
    size=sizes,
    b=st.integers(1, 4),
    damping=st.sampled_from(DAMPINGS),
    tolerance=st.sampled_from([1e-1, 1e-3, 1e-6, 1e-10, 1e-13]),
)
def test_values_equal_a_direct_solution_as_closely_as_they_should(
    seed: int, size: tuple[int, int], b: int, damping: float, tolerance: float
) -> None:
    generator = np.random.default_rng(seed)
    weights = bipartite(generator, *size)
    passages, entities = restarts(generator, *size, b)
    settled, of_entities = both_masses(weights, passages, entities, damping, tolerance)
    dense = weights.toarray()
    degree = dense.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1))
    for column in range(b):
        of_passages, reached = reference.personalized_pagerank(
            dense, passages[:, column], entities.toarray()[:, column], damping
        )
        error = (settled[:, column] - of_passages) / root
        bound = tolerance * float(np.linalg.norm(of_passages / root)) + 1e-11
        assert float(np.linalg.norm(error)) <= bound
        np.testing.assert_allclose(error[degree == 0], 0, atol=1e-14)
        # In the L1 norm, the entities' error is at most the passages'.
        assert np.abs(of_entities[:, column] - reached).sum() <= np.linalg.norm(root) * bound
    if b > 1:  # the first of several has no restart at all
        assert not settled[:, 0].any()


@settings(max_examples=60)
@given(seed=seeds, size=sizes, damping=st.sampled_from([0.5, 0.85, 0.99]))
def test_values_equal_scikit_network(seed: int, size: tuple[int, int], damping: float) -> None:
    # scikit-network moves what reaches a node without edges back to the restart and normalises;
    # here such mass is lost. The two agree wherever no restart mass lies on such a node.
    generator = np.random.default_rng(seed)
    weights = bipartite(generator, *size, density=0.4)
    passages, entities = restarts(generator, *size, 1)
    passages[np.asarray(weights.sum(axis=1)).ravel() == 0] = 0
    from_entities = entities.toarray()
    from_entities[np.asarray(weights.sum(axis=0)).ravel() == 0] = 0
    if passages.sum() + from_entities.sum() == 0:
        return
    other = PageRank(damping, n_iter=10_000, tol=1e-14)
    other.fit(
        sparse.csr_matrix(weights),
        weights_row=passages[:, 0],
        weights_col=from_entities[:, 0],
        force_bipartite=True,
    )
    settled, of_entities = both_masses(
        weights, passages, sparse.csc_array(from_entities), damping, 1e-13
    )
    np.testing.assert_allclose(settled[:, 0], other.scores_row_, atol=1e-9)
    np.testing.assert_allclose(of_entities[:, 0], other.scores_col_, atol=1e-9)


def test_by_hand() -> None:
    # p - x - q, and r alone: from p and with damping 1/2, a/2 of what x gets comes back.
    weights = sparse.csc_array(np.array([[1.0], [1.0], [0.0]]))
    start = np.array([[1.0], [0.0], [3.0]])
    settled, of_entities = both_masses(weights, start, sparse.csc_array((1, 1)), 0.5, 1e-14)
    # p = 1/2 + x/4, q = x/4, x = (p + q)/2  ->  x = 1/3; r keeps what restarts there and no more.
    expected = [7 / 48, 1 / 48, 3 / 8]
    np.testing.assert_allclose(settled[:, 0], expected, atol=1e-14)
    np.testing.assert_allclose(of_entities[:, 0], [1 / 12], atol=1e-14)


def test_entities_of_one_passage_are_folded_and_nothing_changes() -> None:
    weights = np.array([[2.0, 1.0, 0, 1.0, 0], [0, 1.0, 3.0, 0, 0], [0, 0, 0, 0, 0]])
    walk = build_full_walk(sparse.csc_array(weights))
    # Only the second entity has two passages; the others' shares of the passages return.
    assert walk.kernel.shape == (3, 1)
    np.testing.assert_allclose(walk.returned[:, 0], [0.75, 0.75, 0])
    mass = np.array([[1.0, 0], [0, 2.0], [3.0, 0]])
    full = walk.from_entities @ (weights.T / np.array([4, 4, np.inf]) @ mass)
    root = np.array([[2.0], [2.0], [1.0]])
    np.testing.assert_allclose(root * walk.two_steps(mass / root), full, atol=1e-15)


@pytest.mark.parametrize(("n", "e", "b"), [(0, 0, 2), (3, 0, 2), (0, 3, 1), (3, 2, 0)])
def test_graphs_without_passages_entities_or_questions(n: int, e: int, b: int) -> None:
    walk = build_full_walk(share_of_mentions(sparse.csc_array((n, e))))
    assert walk.from_entities.shape == (n, e)
    settled = personalized_pagerank(
        walk, np.ones((n, b)), per_column(sparse.csc_array((e, b))), damping=0.5
    )
    assert settled.tolist() == np.full((n, b), 0.5 / max(n, 1)).tolist()


@settings(max_examples=60)
@given(seed=seeds, b=st.integers(2, 33), damping=st.sampled_from(DAMPINGS))
def test_a_column_is_the_same_to_the_last_bit_alone_and_in_any_batch(
    seed: int, b: int, damping: float
) -> None:
    generator = np.random.default_rng(seed)
    n, e = 40, 70
    walk = build_full_walk(share_of_mentions(bipartite(generator, n, e, 0.05)))
    passages, entities = restarts(generator, n, e, b)
    passages[:, 1:] *= generator.random(b - 1) < 0.7
    together = personalized_pagerank(walk, passages, per_column(entities), damping=damping)
    for column in range(b):
        alone = personalized_pagerank(
            walk, passages[:, [column]], per_column(entities)[column : column + 1], damping=damping
        )
        assert np.array_equal(together[:, column], alone[:, 0])


def test_a_walk_of_two_long_chains_settles_at_any_damping() -> None:
    n = 200
    chain = sparse.csc_array(np.eye(n) + np.eye(n, k=-1))
    start = np.zeros((n, 2))
    start[0, 0] = start[n // 2, 1] = 1
    none = per_column(sparse.csc_array((n, 2)))
    for damping in (0.9, 0.999):
        settled = personalized_pagerank(
            build_full_walk(chain), start, none, damping=damping, tolerance=1e-9
        )
        for column in range(2):
            expected, _ = reference.personalized_pagerank(
                chain.toarray(), start[:, column], np.zeros(n), damping
            )
            np.testing.assert_allclose(settled[:, column], expected, atol=1e-6)


@settings(max_examples=60)
@given(seed=seeds, size=sizes, damping=st.sampled_from(DAMPINGS))
def test_restricting_equals_building_without_the_passages(
    seed: int, size: tuple[int, int], damping: float
) -> None:
    generator = np.random.default_rng(seed)
    n, e = size
    counts = sparse.csc_array(np.round(bipartite(generator, n, e).toarray()))
    whole = share_of_mentions(counts)
    before = whole.toarray()
    allowed = generator.random(n) < 0.6
    passages, entities = restarts(generator, n, e, 2)
    passages[~allowed] = 0
    restricted = with_edges(whole, allowed[whole.indices])
    built = share_of_mentions(sparse.csc_array(counts[np.flatnonzero(allowed)]))
    found, expected = (
        personalized_pagerank(
            build_full_walk(weights), own, per_column(entities), damping=damping, tolerance=1e-13
        )
        for weights, own in ((restricted, passages), (built, passages[allowed]))
    )
    np.testing.assert_allclose(found[allowed], expected, atol=1e-11)
    assert not found[~allowed].any()
    # The original is left as it was.
    assert np.array_equal(whole.toarray(), before)


def test_shares_of_mentions_add_up_to_one_or_to_nothing() -> None:
    counts = sparse.csc_array(np.array([[2, 0, 6], [0, 0, 0], [0, 5, 0]], np.float32))
    shares = share_of_mentions(counts)
    assert shares.toarray().tolist() == [[0.25, 0, 0.75], [0, 0, 0], [0, 1, 0]]
    assert shares.dtype == np.float64


@pytest.mark.parametrize("damping", [-0.1, 1.0, 1.5, float("nan")])
def test_a_damping_that_never_restarts_is_refused(damping: float) -> None:
    walk = build_full_walk(sparse.csc_array(np.ones((1, 1))))
    with pytest.raises(ValueError, match=r"damping must be in \[0, 1\)"):
        personalized_pagerank(
            walk, np.ones((1, 1)), per_column(sparse.csc_array((1, 1))), damping=damping
        )
