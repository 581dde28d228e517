"""Random walks on the bipartite graph of passages and entities: pure functions on sparse arrays.

A walk with damping d from restart distribution r settles at x = (1 - d) r + d P x, where P moves
mass from a node to its neighbours in proportion to edge weight. The graph is bipartite, so the
entities can be eliminated:

    x_p = (1 - d) (r_p + d A r_e) + d^2 A B x_p        A: entity -> passage, B: passage -> entity

A B is similar to a symmetric matrix with eigenvalues in [0, 1]. The system matrix 1 - d^2 A B
therefore has its own in [1 - d^2, 1], and Chebyshev iteration, which needs nothing but those two
bounds, multiplies the error by 0.07 a step at d = 0.5 where plain power iteration multiplies it by
0.5. No step looks across columns, so queries advance together without ever mixing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from backends.types import Float64

MAX_STEPS = 1000
COLUMNS = 16
"""Walks that advance together: more share each look at the graph, but overflow the cache."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One step of the random walk, in both directions.

    Most entities stand in a single passage: all their mass comes back to it. They are folded into
    `returned`, so that a step touches only entities that lead somewhere else.

    Attributes:
        from_entities: (e, n) CSR float64; row j spreads entity j's mass over its passages.
        to_entities: (e, n) CSR float64; column i spreads passage i's mass over its entities.
        shared_to_passages: (n, c) CSR; the columns of entities that several passages share.
        shared_to_entities: (c, n) CSR; their rows.
        returned: (n,) share of a passage's mass that its own entities give back in two steps.
    """

    from_entities: sparse.csr_array
    to_entities: sparse.csr_array
    shared_to_passages: sparse.csr_array
    shared_to_entities: sparse.csr_array
    returned: Float64

    @property
    def passages(self) -> int:
        """Number n of passage nodes."""
        return int(self.to_entities.shape[1])

    @property
    def entities(self) -> int:
        """Number e of entity nodes."""
        return int(self.to_entities.shape[0])

    def two_steps(self, mass: Float64) -> Float64:
        """Where (n, b) mass on passages is after going to entities and back."""
        moved: Float64 = self.shared_to_passages @ (self.shared_to_entities @ mass)
        moved += self.returned[:, None] * mass
        return moved


@dataclass(frozen=True, slots=True)
class Stationary:
    """Where the walks settle.

    Attributes:
        passages: (n, b) probability mass.
        residual: (b,) L1 norm of what is left of the passage equations.
        steps: Iterations taken.
    """

    passages: Float64
    residual: Float64
    steps: int


def share_of_mentions(counts: sparse.csr_array) -> sparse.csr_array:
    """Edge weights: an entity's share of all mentions in the passage (LinearRAG, section 3.1).

    Args:
        counts: (n, e) how often passage i mentions entity j.

    Returns:
        (n, e) CSR float64 whose rows add up to 1, or to 0 for a passage without entities.
    """
    totals = np.asarray(counts.sum(axis=1), np.float64).ravel()
    scale = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ counts, dtype=np.float64)


def walk_on(weights: sparse.csr_array) -> Walk:
    """The random walk on an undirected bipartite graph.

    Args:
        weights: (n, e) CSR of non-negative edge weights. A node without edges keeps nothing: mass
            that would move on from it is lost, as from a dangling node without teleport.
    """
    by_passage = np.asarray(weights.sum(axis=1), np.float64).ravel()
    by_entity = np.asarray(weights.sum(axis=0), np.float64).ravel()
    to_passages = sparse.csr_array(weights @ sparse.diags_array(_reciprocal(by_entity)))
    to_entities = sparse.csr_array(weights.T.tocsr() @ sparse.diags_array(_reciprocal(by_passage)))
    shared = np.diff(weights.tocsc().indptr) > 1
    own = sparse.csc_array(to_passages)[:, ~shared] @ to_entities[~shared]
    return Walk(
        sparse.csr_array(to_passages.T.tocsr()),
        to_entities,
        sparse.csr_array(sparse.csc_array(to_passages)[:, shared]),
        sparse.csr_array(to_entities[shared]),
        np.asarray(own.diagonal(), np.float64),
    )


def restrict(weights: sparse.csr_array, allowed: NDArray[np.bool_]) -> sparse.csr_array:
    """Edge weights without those of passages that are not allowed.

    Args:
        weights: (n, e) CSR.
        allowed: (n,) mask.
    """
    return sparse.csr_array(sparse.diags_array(allowed.astype(np.float64)) @ weights)


def personalized_pagerank(
    walk: Walk,
    restart_passages: Float64,
    restart_entities: sparse.csc_array,
    *,
    damping: float,
    tolerance: float = 1e-6,
) -> Stationary:
    """Personalized PageRank of b restart vectors at once, on the passages.

    Args:
        restart_passages: (n, b) non-negative.
        restart_entities: (e, b) CSC, non-negative; each column is normalised together with that of
            the passages. An all-zero column stays all zero.
        damping: Probability in [0, 1) of following an edge rather than restarting.
        tolerance: Largest L1 residual that may remain in any column.

    Raises:
        ValueError: The damping is out of range.
    """
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), not {damping}")
    totals = _column_sums(restart_passages) + np.asarray(restart_entities.sum(axis=0)).ravel()
    source = np.ascontiguousarray((restart_entities.T @ walk.from_entities).toarray().T)
    source *= damping
    source += restart_passages
    source *= _reciprocal(totals) * (1 - damping)
    residual, steps = np.zeros(len(totals)), 0
    for start in range(0, len(totals), COLUMNS):
        part = slice(start, start + COLUMNS)
        source[:, part], residual[part], taken = _chebyshev(
            walk, np.ascontiguousarray(source[:, part]), damping, tolerance
        )
        steps = max(steps, taken)
    return Stationary(source, residual, steps)


def entity_mass(
    walk: Walk,
    passages: Float64,
    restart_entities: sparse.csc_array,
    totals: Float64,
    damping: float,
) -> Float64:
    """What settles on the entities once the passages' mass is known: (e, b).

    Args:
        passages: (n, b) settled mass.
        restart_entities: (e, b) CSC as given to `personalized_pagerank`.
        totals: (b,) sum of each whole restart vector.
    """
    restarted = restart_entities.toarray() * (_reciprocal(totals) * (1 - damping))
    mass: Float64 = restarted + damping * (walk.to_entities @ passages)
    return mass


def _chebyshev(
    walk: Walk, source: Float64, damping: float, tolerance: float
) -> tuple[Float64, Float64, int]:
    """Solve (1 - d^2 A B) x = source by Chebyshev iteration.

    Follows Saad, Iterative Methods for Sparse Linear Systems (2003), algorithm 12.1, with the
    eigenvalue bounds [1 - d^2, 1]. The start x = source is the walk's first two steps. A column
    that has settled stays as it is while others go on, so it ends as it would have alone.
    """
    decay = damping * damping
    left = np.zeros(source.shape[1])
    if decay == 0:
        return source.copy(), left, 0
    centre, radius = 1 - decay / 2, decay / 2
    ratio = centre / radius
    rho = 1 / ratio
    solution = source.copy()
    residual = decay * walk.two_steps(solution)
    step = residual / centre
    moving = np.ones(source.shape[1], bool)
    scratch = np.empty_like(residual)
    for steps in range(MAX_STEPS):
        error = _column_sums(np.abs(residual, out=scratch))
        left[moving] = error[moving]
        settled = moving & (error <= tolerance)
        if settled.any():
            moving &= ~settled
            residual[:, settled] = step[:, settled] = 0
        if not moving.any():
            return solution, left, steps
        solution += step
        residual -= step
        moved = walk.two_steps(step)
        moved *= decay
        residual += moved
        rho_next = 1 / (2 * ratio - rho)
        step *= rho_next * rho
        step += np.multiply(residual, 2 * rho_next / radius, out=scratch)
        rho = rho_next
    left[moving] = _column_sums(np.abs(residual))[moving]
    return solution, left, MAX_STEPS


def _column_sums(values: Float64) -> Float64:
    """Sums of columns, each added up in an order that does not depend on how many there are."""
    sums: Float64 = np.ascontiguousarray(values.T).sum(axis=1)
    return sums


def _reciprocal(values: Float64) -> Float64:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
