import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from backends.trigraph import push as local
from backends.trigraph.pagerank import Walk, personalized_pagerank, walk_on
from backends.trigraph.push import LocalWalk, Restart, Settled, local_walk, settle
from tests.backends import reference

DAMPING = 0.5


def random_weights(rng: np.random.Generator, n: int, e: int, density: float) -> sparse.csr_array:
    weights = rng.random((n, e)) * (rng.random((n, e)) < density)
    return sparse.csr_array(weights)


def random_restart(rng: np.random.Generator, n: int, e: int) -> Restart:
    rows = np.sort(rng.choice(n, rng.integers(0, n + 1), replace=False))
    entities = np.sort(rng.choice(e, rng.integers(0, e + 1), replace=False))
    return Restart(rows, rng.random(len(rows)), entities, rng.random(len(entities)))


def laid_out(weights: sparse.csr_array) -> LocalWalk:
    return local_walk(walk_on(weights))


def one(walk: LocalWalk, restart: Restart, threshold: float, damping: float = DAMPING) -> Settled:
    (settled,) = settle(walk, [restart], damping=damping, threshold=threshold)
    return settled


def dense(settled: Settled, n: int) -> np.ndarray:
    mass = np.zeros(n)
    mass[settled.passages] = settled.mass
    return mass


def solved(weights: sparse.csr_array, restart: Restart, damping: float = DAMPING) -> np.ndarray:
    n, e = weights.shape
    passages, entities = np.zeros(n), np.zeros(e)
    passages[restart.passages] = restart.passage_mass
    entities[restart.entities] = restart.entity_mass
    return reference.personalized_pagerank(weights.toarray(), passages, entities, damping)[0]


def swept(walk: Walk, restart: Restart) -> np.ndarray:
    passages = np.zeros((walk.passages, 1))
    passages[restart.passages, 0] = restart.passage_mass
    entities = np.zeros((walk.entities, 1))
    entities[restart.entities, 0] = restart.entity_mass
    restarted = sparse.csc_array(entities)
    return personalized_pagerank(
        walk, passages, restarted, damping=DAMPING, tolerance=1e-14
    ).passages[:, 0]


sizes = st.integers(1, 25)
seeds = st.integers(0, 2**32 - 1)


@given(seeds, sizes, sizes, st.floats(0.02, 0.9), st.floats(0, 0.95))
def test_what_is_missing_is_within_the_bound(
    seed: int, n: int, e: int, density: float, damping: float
) -> None:
    rng = np.random.default_rng(seed)
    weights, restart = random_weights(rng, n, e, density), random_restart(rng, n, e)
    truth = solved(weights, restart, damping)
    for threshold in (1e-1, 1e-3, 1e-6):
        settled = one(laid_out(weights), restart, threshold, damping)
        missing = truth - dense(settled, n)
        assert missing.min(initial=0.0) >= -1e-12
        assert missing.sum() <= settled.error + 1e-12


@given(seeds, sizes, sizes, st.floats(0.05, 0.9))
def test_a_small_threshold_gives_what_full_sweeps_give(
    seed: int, n: int, e: int, density: float
) -> None:
    rng = np.random.default_rng(seed)
    weights, restart = random_weights(rng, n, e, density), random_restart(rng, n, e)
    settled = one(laid_out(weights), restart, 1e-13)
    assert settled.error < 1e-9
    full = swept(walk_on(weights), restart)
    np.testing.assert_allclose(dense(settled, n), full, rtol=0, atol=1e-10)


@given(seeds)
def test_ranks_agree_where_scores_differ_by_more_than_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, restart = random_weights(rng, 20, 15, 0.2), random_restart(rng, 20, 15)
    truth = solved(weights, restart)
    settled = one(laid_out(weights), restart, 1e-5)
    found = dense(settled, 20)
    apart = np.subtract.outer(truth, truth) > settled.error + 1e-12
    assert (np.subtract.outer(found, found)[apart] > 0).all()


@given(seeds, st.floats(1e-4, 0.1))
def test_no_more_edges_are_followed_than_the_threshold_allows(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    weights, restart = random_weights(rng, 30, 30, 0.4), random_restart(rng, 30, 30)
    settled = one(laid_out(weights), restart, threshold)
    assert settled.edges <= 1 / ((1 - DAMPING) * threshold)


def test_a_mass_below_the_threshold_stays_where_it_is() -> None:
    # A hub of 10 passages holds half of the mass: 0.05 an edge.
    walk = laid_out(sparse.csr_array(np.ones((10, 1))))
    restart = Restart(np.array([3]), np.ones(1), np.array([0]), np.ones(1))
    settled = one(walk, restart, 0.6)
    assert settled.edges == 0
    assert settled.passages.tolist() == [3]
    assert settled.mass.tolist() == [0.25]
    assert settled.error == pytest.approx((0.5 * 0.5 + 0.5) / 3)


def test_far_parts_of_the_graph_are_not_listed() -> None:
    walk = laid_out(sparse.csr_array(sparse.block_diag([np.ones((3, 2))] * 4)))
    settled = one(walk, Restart(np.array([4]), np.ones(1), np.empty(0, int), np.empty(0)), 1e-9)
    assert settled.passages.tolist() == [3, 4, 5]


def test_without_restart_nothing_settles() -> None:
    nothing = Restart(np.empty(0, int), np.empty(0), np.empty(0, int), np.empty(0))
    zero = Restart(np.array([1]), np.zeros(1), np.array([0]), np.zeros(1))
    walk = laid_out(sparse.csr_array(np.ones((3, 2))))
    for settled in settle(walk, [nothing, zero], damping=DAMPING, threshold=1e-6):
        assert settled.passages.size == settled.mass.size == 0
        assert settled.error == 0


def test_a_passage_without_entities_keeps_what_its_restarts_give() -> None:
    walk = laid_out(sparse.csr_array((1, 0)))
    settled = one(walk, Restart(np.array([0]), np.ones(1), np.empty(0, int), np.empty(0)), 1e-6)
    assert settled.mass.tolist() == [1 - DAMPING]
    assert settled.error == 0


def test_a_single_passage_with_a_single_entity() -> None:
    weights = sparse.csr_array(np.ones((1, 1)))
    restart = Restart(np.array([0]), np.ones(1), np.empty(0, int), np.empty(0))
    assert one(laid_out(weights), restart, 1e-12).mass == pytest.approx([1 / (1 + DAMPING)])


def test_walks_leave_nothing_behind() -> None:
    rng = np.random.default_rng(3)
    weights = random_weights(rng, 40, 30, 0.1)
    walk = laid_out(weights)
    restarts = [random_restart(rng, 40, 30) for _ in range(6)]
    alone = [one(laid_out(weights), restart, 1e-6) for restart in restarts]
    for _ in range(2):
        together = settle(walk, restarts, damping=DAMPING, threshold=1e-6)
        for one_of_them, own in zip(together, alone, strict=True):
            assert one_of_them.passages.tobytes() == own.passages.tobytes()
            assert one_of_them.mass.tobytes() == own.mass.tobytes()
            assert one_of_them.error == own.error


@given(seeds, st.integers(0, 4), st.floats(1e-6, 0.5), st.integers(1, 30))
def test_dense_restarts_settle_within_the_bound(
    seed: int, columns: int, threshold: float, most: int
) -> None:
    rng = np.random.default_rng(seed)
    walk = walk_on(random_weights(rng, 25, 20, 0.15))
    passages = rng.random((25, columns)) ** 8 * (rng.random((1, columns)) < 0.8)
    entities = sparse.csc_array(rng.random((20, columns)) * (rng.random((20, columns)) < 0.2))
    full = personalized_pagerank(walk, passages, entities, damping=DAMPING, tolerance=1e-14)
    found = local.personalized_pagerank(
        local_walk(walk), passages, entities, damping=DAMPING, threshold=threshold, most=most
    )
    missing = full.passages - found.passages
    assert missing.min(initial=0.0) >= -1e-12
    assert (missing.sum(axis=0) <= found.residual + 1e-12).all()


def test_dense_restarts_with_a_small_threshold_give_what_full_sweeps_give() -> None:
    rng = np.random.default_rng(5)
    walk = walk_on(random_weights(rng, 60, 40, 0.1))
    passages, entities = rng.random((60, 3)), sparse.csc_array((40, 3))
    full = personalized_pagerank(walk, passages, entities, damping=DAMPING, tolerance=1e-14)
    found = local.personalized_pagerank(
        local_walk(walk), passages, entities, damping=DAMPING, threshold=1e-13
    )
    np.testing.assert_allclose(found.passages, full.passages, rtol=0, atol=1e-11)


def test_settings_out_of_range_are_refused() -> None:
    walk = laid_out(sparse.csr_array(np.ones((2, 2))))
    with pytest.raises(ValueError, match="damping"):
        settle(walk, [], damping=1.0, threshold=1e-6)
    with pytest.raises(ValueError, match="threshold"):
        settle(walk, [], damping=0.5, threshold=0.0)
