"""Random walks on the bipartite graph of passages and entities: pure functions on sparse arrays.

A walk with damping d from restart distribution r settles at x = (1 - d) r + d P x, where P moves
mass from a node to its neighbours in proportion to edge weight. The graph is bipartite, so the
entities can be eliminated:

    x_p = (1 - d) (r_p + d A r_e) + d^2 A B x_p        A: entity -> passage, B: passage -> entity

With W the edge weights and D, E their sums by passage and by entity, A = W / E and B = W' / D, so
that A B = sqrt(D) K K' / sqrt(D) with K = W / sqrt(D E): one matrix serves both ways, and the
eigenvalues are those of K K', in [0, 1]. With these bounds a polynomial in A B comes as close to
the inverse of 1 - d^2 A B as one likes: the error of a Chebyshev series of degree m falls as 0.07^m
at d = 0.5, that of power iteration as 0.25^m (Saad, Iterative Methods for Sparse Linear Systems,
2003, section 12.3). No step mixes columns, so queries advance together and independently, and all
take the same number of steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wye.backends.numerics import spans, sums
from wye.backends.types import Float64, Int32, Int64

if TYPE_CHECKING:
    from scipy import sparse

Masses = tuple[Int64, Float64]
"""Distinct nodes of one side, entities or passages, and the mass on each."""

COLUMNS = 16
"""Walks that advance together: more would share passes over the graph but overflow the cache."""


@dataclass(frozen=True, slots=True)
class FullWalk:
    """One step of the random walk, in both directions.

    Most entities are mentioned in a single passage, to which all their mass returns. They are
    folded into `returned`, so that two steps touch only entities that several passages share.

    Attributes:
        from_entities: (n, e) CSC float64, A; column j spreads entity j's mass over its passages.
        shared: (c,) entities that several passages share, ascending.
        kernel: (n, c) CSR float64, K restricted to the shared entities.
        transposed: (c, n) CSC, the transpose of `kernel` on the same arrays.
        root: (n, 1) sqrt(D), where D is the sum of each passage's edge weights.
        returned: (n, 1) share of a passage's mass that its own entities return in two steps.
    """

    from_entities: "sparse.csc_array"
    shared: Int32
    kernel: "sparse.csr_array"
    transposed: "sparse.csc_array"
    root: Float64
    returned: Float64

    def two_steps(self, mass: Float64) -> Float64:
        """(n, b) mass on passages after a step to entities and back; all divided by sqrt(D)."""
        # A vector is multiplied faster than a one-column matrix, and summed in the same order.
        if mass.shape[1] == 1:
            moved: Float64 = (self.kernel @ (self.transposed @ mass[:, 0]))[:, None]
        else:
            moved = self.kernel @ (self.transposed @ mass)
        moved += self.returned * mass
        return moved


def share_of_mentions(counts: "sparse.csc_array") -> "sparse.csc_array":
    """Edge weights: an entity's share of all mentions in the passage (LinearRAG, section 3.1).

    Args:
        counts: (n, e) how often passage i mentions entity j.

    Returns:
        (n, e) float64 on the same index arrays. Rows sum to 1, or to 0 for a passage without
        entities.
    """
    totals = sums(counts.indices, counts.data, counts.shape[0])
    shares = counts.data * reciprocal(totals)[counts.indices]
    return _of_same_edges(counts, shares)


def build_full_walk(weights: "sparse.csc_array") -> FullWalk:
    """The random walk on an undirected bipartite graph.

    Args:
        weights: (n, e) edge weights, above 0, each edge once. Mass that would move on from a node
            without edges is lost, as from a dangling node without teleport.
    """
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    passage, degree = weights.indices, np.diff(weights.indptr)
    entity = np.repeat(np.arange(len(degree), dtype=np.int64), degree)
    by_passage = sums(passage, weights.data, weights.shape[0])
    by_entity = sums(entity, weights.data, len(degree))
    root, shared = np.sqrt(by_passage), degree > 1
    leads_on = shared[entity]
    kernel = weights.data * reciprocal(root[passage] * np.sqrt(by_entity)[entity])
    starts = np.concatenate([[0], np.cumsum(degree[shared])]).astype(np.int32)
    by_shared = sparse.csc_array(
        (kernel[leads_on], passage[leads_on], starts), shape=(len(root), int(shared.sum()))
    ).tocsr()
    returned = sums(passage[~leads_on], weights.data[~leads_on], len(root))
    return FullWalk(
        _of_same_edges(weights, weights.data * reciprocal(by_entity)[entity]),
        np.flatnonzero(shared).astype(np.int32),
        by_shared,
        sparse.csc_array(by_shared.T),
        root[:, None],
        (returned * reciprocal(by_passage))[:, None],
    )


def with_edges(weights: "sparse.csc_array", is_left: NDArray[np.bool_]) -> "sparse.csc_array":
    """The edges that a mask over the stored entries keeps; the shape stays."""
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    starts = np.concatenate([[0], np.cumsum(is_left)])[weights.indptr].astype(np.int32)
    return sparse.csc_array(
        (weights.data[is_left], weights.indices[is_left], starts), weights.shape
    )


def personalized_pagerank(
    walk: FullWalk,
    restart_passages: Float64,
    restart_entities: Sequence[Masses],
    *,
    damping: float,
    tolerance: float = 1e-3,
) -> Float64:
    """Personalized PageRank of b restart vectors at once, on the passages.

    Args:
        restart_passages: (n, b) non-negative restart mass of passages.
        restart_entities: b restart masses of entities, non-negative. Each is normalised together
            with its column of passages; a column without any mass stays zero.
        damping: Probability in [0, 1) of following an edge rather than restarting.
        tolerance: Largest relative error, in the norm of x / sqrt(D).

    Returns:
        (n, b) probability mass.

    Raises:
        ValueError: The damping is out of range.
    """
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), not {damping}")
    source = np.empty(restart_passages.shape, order="F")
    for column, (entities, mass) in enumerate(restart_entities):
        passages = restart_passages[:, column]
        column_source = source[:, column]
        column_source[:] = spread(walk.from_entities, entities, mass)
        column_source *= damping
        column_source += passages
        total = float(passages.sum() + mass.sum())
        column_source *= (1 - damping) / total if total else 0
    coefficients = series(damping, tolerance)
    inverse, connected = reciprocal(walk.root), walk.root > 0
    for start in range(0, len(restart_entities), COLUMNS):
        part = slice(start, start + COLUMNS)
        scaled = np.ascontiguousarray(source[:, part] * inverse)
        solved = _chebyshev(walk, scaled, coefficients)
        solved *= walk.root
        # A passage without entities keeps its restart mass.
        np.copyto(source[:, part], solved, where=connected)
    return source


def series(damping: float, tolerance: float) -> list[float]:
    """Chebyshev coefficients of 1 / (1 - d^2 z) for z from 0 to 1.

    They fall as rho^k; the omitted ones sum to at most the tolerance.
    """
    root = math.sqrt(1 - damping**2)
    rho = (1 - root) / (1 + root)
    degree = 0
    while 2 / root * rho ** (degree + 1) / (1 - rho) > tolerance:
        degree += 1
    return [1 / root, *(2 / root * rho**k for k in range(1, degree + 1))]


def _chebyshev(walk: FullWalk, source: Float64, coefficients: Sequence[float]) -> Float64:
    """Sum over k of c_k T_k(2 M - 1) y, where M is two steps, by Clenshaw's recurrence."""
    # b_k = c_k y + 2 (2 M - 1) b_{k+1} - b_{k+2}; the last step has 1 in place of the factor 2.
    last, before = coefficients[-1] * source, np.zeros_like(source)
    for k in range(len(coefficients) - 2, -1, -1):
        current = walk.two_steps(last)
        current -= 0.5 * last
        current *= 4 if k else 2
        current += coefficients[k] * source
        current -= before
        last, before = current, last
    return last


def spread(from_entities: "sparse.csc_array", entities: Int32 | Int64, mass: Float64) -> Float64:
    """(n,) mass that passages get from (a,) mass on some entities, added in the given order."""
    starts = from_entities.indptr
    edges = spans(starts, entities)
    moved = from_entities.data[edges] * np.repeat(mass, starts[entities + 1] - starts[entities])
    return sums(from_entities.indices[edges], moved, from_entities.shape[0])


def reciprocal(values: Float64) -> Float64:
    """1 / v; 0 where v is 0."""
    return np.divide(1.0, values, out=np.zeros(values.shape), where=values > 0)


def _of_same_edges(weights: "sparse.csc_array", data: Float64) -> "sparse.csc_array":
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    return sparse.csc_array((data, weights.indices, weights.indptr), shape=weights.shape)
