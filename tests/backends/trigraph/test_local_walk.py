from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.backends import reference
from tests.backends.trigraph.test_full_walk import per_column
from wye.backends.trigraph import local_walk as local
from wye.backends.trigraph.full_walk import (
    Masses,
    build_full_walk,
    personalized_pagerank,
    reciprocal,
    share_of_mentions,
)
from wye.backends.trigraph.local_walk import LocalWalk, Restart, Settled, build_local_walk

DAMPING = 0.5
sizes = st.integers(1, 25)
seeds = st.integers(0, 2**32 - 1)


def some_walk(seed: int, n: int, e: int, density: float) -> tuple[sparse.csc_array, Restart]:
    rng = np.random.default_rng(seed)
    weights = sparse.csc_array(rng.random((n, e)) * (rng.random((n, e)) < density))
    rows = np.sort(rng.choice(n, rng.integers(0, n + 1), replace=False))
    entities = np.sort(rng.choice(e, rng.integers(0, e + 1), replace=False))
    return weights, Restart(rows, rng.random(len(rows)), entities, rng.random(len(entities)))


def from_passages(*rows: int, mass: float = 1.0) -> Restart:
    return Restart(np.array(rows, int), np.full(len(rows), mass), np.empty(0, int), np.empty(0))


def laid_out(weights: sparse.csc_array) -> LocalWalk:
    return build_local_walk(weights)


def settle(
    walk: LocalWalk, restarts: list[Restart], damping: float, threshold: float
) -> list[Settled]:
    """The walks alone: every passage pushes its restart mass."""
    with walk.states() as states:
        return [local._settle(states, restart, damping, threshold) for restart in restarts]


def one(walk: LocalWalk, restart: Restart, threshold: float, damping: float = DAMPING) -> Settled:
    (settled,) = settle(walk, [restart], damping, threshold)
    return settled


def dense(settled: Settled, n: int) -> np.ndarray:
    mass = np.zeros(n)
    mass[settled.passages] = settled.mass
    return mass


def sparse_restarts(passages: np.ndarray, entities: list[Masses]) -> list[Restart]:
    """Of the passages that have mass, for each column."""
    rows = [np.flatnonzero(column) for column in passages.T]
    return [
        Restart(own, column[own], *mass)
        for own, column, mass in zip(rows, passages.T, entities, strict=True)
    ]


def assert_within_the_bound(full: np.ndarray, found: list[Settled]) -> None:
    for column, settled in zip(full.T, found, strict=True):
        missing = column - dense(settled, len(column))
        assert missing.min(initial=0.0) >= -1e-12
        assert missing.sum() <= settled.error + 1e-12


def solved(weights: sparse.csc_array, restart: Restart, damping: float = DAMPING) -> np.ndarray:
    n, e = weights.shape
    passages, entities = np.zeros(n), np.zeros(e)
    passages[restart.passages] = restart.passage_mass
    entities[restart.entities] = restart.entity_mass
    return reference.personalized_pagerank(weights.toarray(), passages, entities, damping)[0]


@given(seeds, sizes, sizes, st.floats(0.02, 0.9), st.floats(0, 0.95))
def test_what_is_missing_is_within_the_bound(
    seed: int, n: int, e: int, density: float, damping: float
) -> None:
    weights, restart = some_walk(seed, n, e, density)
    truth = solved(weights, restart, damping)
    for threshold in (1e-1, 1e-3, 1e-5, 1e-13):
        settled = one(laid_out(weights), restart, threshold, damping)
        found = dense(settled, n)
        missing = truth - found
        assert missing.min(initial=0.0) >= -1e-12
        assert missing.sum() <= settled.error + 1e-12
        # No more edges are followed than the threshold allows.
        assert settled.edges <= 1 / ((1 - damping) * threshold)
        # Ranks agree where scores differ by more than the bound.
        apart = np.subtract.outer(truth, truth) > settled.error + 1e-12
        assert (np.subtract.outer(found, found)[apart] > 0).all()
    # With so small a threshold as the last, it is what full sweeps give.
    assert settled.error < 1e-8
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-8)


def test_a_mass_below_the_threshold_stays_where_it_is() -> None:
    # A hub of 10 passages holds half of the mass: 0.05 an edge.
    walk = laid_out(sparse.csc_array(np.ones((10, 1))))
    restart = Restart(np.array([3]), np.ones(1), np.array([0]), np.ones(1))
    settled = one(walk, restart, 0.6)
    assert settled.edges == 0
    assert settled.passages.tolist() == [3]
    assert settled.mass.tolist() == [0.25]
    assert settled.error == pytest.approx((0.5 * 0.5 + 0.5) / 3)


def test_far_parts_of_the_graph_are_not_listed() -> None:
    walk = laid_out(sparse.csc_array(sparse.block_diag([np.ones((3, 2))] * 4)))
    assert one(walk, from_passages(4), 1e-9).passages.tolist() == [3, 4, 5]


def test_without_restart_nothing_settles() -> None:
    walk = laid_out(sparse.csc_array(np.ones((3, 2))))
    restarts = [from_passages(), from_passages(1, mass=0)]
    for settled in settle(walk, restarts, DAMPING, 1e-6):
        assert settled.passages.size == settled.mass.size == 0
        assert settled.error == 0


def test_a_single_passage_without_and_with_an_entity() -> None:
    alone = one(laid_out(sparse.csc_array((1, 0))), from_passages(0), 1e-6)
    assert (alone.mass.tolist(), alone.error) == ([1 - DAMPING], 0)
    tied = one(laid_out(sparse.csc_array(np.ones((1, 1)))), from_passages(0), 1e-12)
    assert tied.mass == pytest.approx([1 / (1 + DAMPING)])


def test_walks_leave_nothing_behind() -> None:
    weights, _ = some_walk(3, 40, 30, 0.1)
    walk = laid_out(weights)
    restarts = [some_walk(seed, 40, 30, 0)[1] for seed in range(6)]
    alone = [one(laid_out(weights), restart, 1e-6) for restart in restarts]
    for _ in range(2):
        together = settle(walk, restarts, DAMPING, 1e-6)
        for shared, own in zip(together, alone, strict=True):
            assert shared.passages.tobytes() == own.passages.tobytes()
            assert shared.mass.tobytes() == own.mass.tobytes()
            assert shared.error == own.error


@given(seeds, st.integers(0, 4), st.floats(1e-6, 0.5), st.integers(1, 30))
def test_dense_restarts_settle_within_the_bound(
    seed: int, columns: int, threshold: float, most: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = some_walk(seed, 25, 20, 0.15)[0]
    walk, pushed = build_full_walk(weights), build_local_walk(weights)
    passages = rng.random((25, columns)) ** 8 * (rng.random((1, columns)) < 0.8)
    entities = sparse.csc_array(rng.random((20, columns)) * (rng.random((20, columns)) < 0.2))
    own = per_column(entities)
    full = personalized_pagerank(walk, passages, own, damping=DAMPING, tolerance=1e-14)
    given = sparse_restarts(passages, own)
    found = local.personalized_pagerank(
        pushed, given, damping=DAMPING, threshold=threshold, most=most
    )
    assert_within_the_bound(full, found)
    whole = local.personalized_pagerank(pushed, given, damping=DAMPING, threshold=1e-13)
    for column, settled in zip(full.T, whole, strict=True):
        np.testing.assert_allclose(dense(settled, 25), column, rtol=0, atol=1e-10)


def test_passages_that_are_reached_keep_what_they_restart_with() -> None:
    # A chain: passages 0 and 1 share an entity, and so do 1 and 2; 3 is alone.
    walk = laid_out(sparse.csc_array([[1.0, 0], [1, 1], [0, 1], [0, 0]]))
    start = Restart(np.array([0]), np.array([2.0]), np.empty(0, int), np.empty(0))
    asked: list[int] = []

    def reached(rows: np.ndarray) -> np.ndarray:
        asked.extend(rows.tolist())
        own: np.ndarray = np.array([0.0, 0.5, 0.25, 0.125])[rows]
        return own

    (without,) = local.personalized_pagerank(walk, [start], damping=DAMPING)
    (found,) = local.personalized_pagerank(walk, [replace(start, reached=reached)], damping=DAMPING)
    assert asked == [1, 2]
    kept = (1 - DAMPING) / (1 - DAMPING**2 * walk.returned)
    added = dense(found, 4) - dense(without, 4)
    assert added == pytest.approx(np.array([0, 0.5, 0.25, 0]) * kept / 2)
    (one,) = local.personalized_pagerank(
        walk, [replace(start, reached=reached)], damping=DAMPING, most=1
    )
    assert (dense(one, 4) > dense(without, 4)).tolist() == [False, True, False, False]


def test_settings_out_of_range_are_refused() -> None:
    walk = laid_out(sparse.csc_array(np.ones((2, 2))))
    with pytest.raises(ValueError, match="damping"):
        local.personalized_pagerank(walk, [], damping=1.0)
    with pytest.raises(ValueError, match="threshold"):
        local.personalized_pagerank(walk, [], damping=0.5, threshold=0.0)


@given(seeds, st.integers(0, 4), st.floats(1e-6, 0.5), st.floats(0, 1))
def test_among_some_passages_mass_settles_as_in_a_graph_of_them(
    seed: int, columns: int, threshold: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    counts = sparse.csc_array(rng.integers(1, 4, (25, 20)) * (rng.random((25, 20)) < 0.15))
    allowed, kept = rng.random(25) < share, rng.random(20) < 0.9
    kept |= (counts.toarray() > 0).sum(axis=0) < 2
    left = counts.toarray().astype(np.float64)
    totals = left.sum(axis=1)
    left[:, ~kept] = 0
    grown = totals * reciprocal(left.sum(axis=1))
    left[~allowed] = 0
    passages = rng.random((25, columns)) ** 8 * allowed[:, None]
    restart = rng.random((20, columns)) * (rng.random((20, columns)) < 0.2)
    restart *= (left.sum(axis=0) > 0)[:, None]
    own = per_column(sparse.csc_array(restart))
    small = build_full_walk(share_of_mentions(sparse.csc_array(left)))
    full = personalized_pagerank(small, passages, own, damping=DAMPING, tolerance=1e-14)
    walk = build_local_walk(share_of_mentions(counts))
    for some in (walk.among(allowed, grown, kept), walk.among(allowed, grown, kept)):
        given = sparse_restarts(passages, own)
        found = local.personalized_pagerank(some, given, damping=DAMPING, threshold=threshold)
        assert_within_the_bound(full, found)
        whole = local.personalized_pagerank(some, given, damping=DAMPING, threshold=1e-13)
        for column, settled in zip(full.T, whole, strict=True):
            np.testing.assert_allclose(dense(settled, 25), column, rtol=0, atol=1e-10)
