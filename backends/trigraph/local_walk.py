"""Personalized PageRank at a cost that depends on the nodes it touches, not on the graph's size.

Mass that waits at a node is pushed on only if there is enough of it for the node's number of edges.
Less than that is held, and the held mass bounds the error (Andersen, Chung and Lang, "Local graph
partitioning using PageRank vectors", FOCS 2006; here all waiting nodes of one side are pushed at
once). Every push over m edges settles at least (1 - d) * threshold * m of the mass, so at most
1 / ((1 - d) * threshold) edges are ever followed, however large the graph.

The walk and the result are those of `wye.backends.trigraph.full_walk`, up to the error bound.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.numerics import distinct, sums, top_rows, without
from wye.backends.store.derived import Arrays
from wye.backends.trigraph.full_walk import reciprocal
from wye.backends.trigraph.lists import Lists, Numbers, PlainLists
from wye.backends.types import Float64, Int64, Mask

if TYPE_CHECKING:
    from scipy import sparse

THRESHOLD = 1e-3
MOST = 300

_ROOM = 1.01
"""Nodes that buffers have room for, per node, so that later versions on a base use them too."""

LEAST_PART = 0.005
"""Least share of passages that a filter counts as leaving when the cost of a push is estimated."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges from one side of the graph to the other.

    Attributes:
        lists: For each of m nodes its neighbours, and the share of the node's mass that goes to
            each; the shares sum to 1, or to 0 without edges.
    """

    lists: Lists

    def __len__(self) -> int:
        """Number of nodes on this side."""
        return len(self.lists)

    def lengths(self, nodes: Int64) -> Int64:
        """Number of edges of each of the nodes."""
        return self.lists.lengths(nodes)

    def cost(self, nodes: Int64) -> Float64:
        """Number of edges of each of the nodes that take mass, as an estimate."""
        return self.lengths(nodes).astype(np.float64)

    def follow(self, nodes: Int64, mass: Float64) -> tuple[Numbers, Float64, int]:
        """Target and mass of each edge of the nodes that takes mass, and the edges looked at."""
        targets, shares, lengths = self.lists.valued(nodes)
        return targets, shares * np.repeat(mass, lengths), len(targets)


@dataclass(frozen=True, slots=True)
class FilteredEdges(Edges):
    """Edges of which a filter excludes some, without a copy of the others.

    Attributes:
        of_nodes: (m,) factor of the shares of each node's edges; None for 1.
        of_targets: Factor of an edge's share by its target, 0 if it is excluded; None for 1.
        is_whole: Whether the shares of each node's remaining edges are rescaled to sum to 1.
        part: Estimated share of a node's edges that remain, 0 to 1.
    """

    of_nodes: Float64 | None = None
    of_targets: Float64 | None = None
    is_whole: bool = False
    part: float = 1.0

    def cost(self, nodes: Int64) -> Float64:
        """Estimated number of remaining edges of each node."""
        return self.lengths(nodes) * np.float64(self.part)

    def follow(self, nodes: Int64, mass: Float64) -> tuple[Numbers, Float64, int]:
        """As `Edges.follow`, on the remaining edges."""
        targets, shares, lengths = self.lists.valued(nodes)
        followed = len(targets)
        owner = np.repeat(np.arange(len(nodes)), lengths)
        if self.of_targets is not None:
            shares = shares * self.of_targets[targets]
            left = np.flatnonzero(shares)
            targets, shares, owner = targets[left], shares[left], owner[left]
        if self.is_whole:
            mass = mass * reciprocal(sums(owner, shares, len(nodes)))
        if self.of_nodes is not None:
            mass = mass * self.of_nodes[nodes]
        return targets, shares * mass[owner], followed


@dataclass(frozen=True, slots=True)
class LocalWalk:
    """The random walk, stored so that it can be followed from any node.

    Attributes:
        passages: Edges from n passages to the entities that they share with others.
        entities: Edges from e entities to passages.
        returned: (n,) share of a passage's mass that its own entities return in two steps.
    """

    passages: Edges
    entities: Edges
    returned: Float64
    _spare: "list[tuple[_Room, _Room]]" = field(default_factory=list, repr=False, compare=False)

    def to_arrays(self) -> Arrays:
        """The arrays that the graph does not have itself, for `from_arrays`."""
        passages = self.passages.lists.plain()
        return {
            "passages.starts": passages.starts,
            "passages.targets": passages.items,
            "passages.shares": passages.values,
            "entities.shares": self.entities.lists.plain().values,
            "returned": self.returned,
        }

    @classmethod
    def from_arrays(cls, counts: Lists, arrays: Arrays) -> "LocalWalk":
        """The inverse of `to_arrays`, given the same counts: the passages of each entity."""
        passages = (arrays[f"passages.{name}"] for name in ("starts", "targets", "shares"))
        counted = counts.plain()
        entities = PlainLists(counted.starts, counted.items, arrays["entities.shares"])
        return cls(Edges(PlainLists(*passages)), Edges(entities), arrays["returned"])

    def retained(self, passages: Int64, damping: float) -> Float64:
        """Share of its restart mass that each passage keeps if it sends nothing on."""
        share: Float64 = (1 - damping) / (1 - damping**2 * self.returned[passages])
        return share

    @contextmanager
    def states(self) -> "Iterator[_PushStates]":
        """Buffers for one walk, reused by the next: fresh memory pages cost more than a walk."""
        nodes = len(self.passages), len(self.entities)
        try:  # another thread may take the last ones
            rooms = self._spare.pop()
        except IndexError:
            rooms = _Room(0), _Room(0)
        if any(size > len(room.place) for size, room in zip(nodes, rooms, strict=True)):
            passages, entities = (int(size * _ROOM) + 1 for size in nodes)
            # Nobody asks what settles at entities, so those need no room for it.
            rooms = _Room(passages, settled=passages), _Room(entities)
        yield (
            _PushState(self.passages, self.returned, rooms[0]),
            _PushState(self.entities, None, rooms[1]),
        )
        # Not in a `finally`: a walk that failed leaves its mass in the buffers.
        self._spare.append(rooms)

    def among(
        self, allowed: Mask, growth: Float64 | None = None, is_left: Mask | None = None
    ) -> "LocalWalk":
        """The walk on the graph of the allowed passages; nothing is copied.

        Entities that are left with a single passage are not folded into `returned`: mass goes to
        them and comes back.

        Args:
            allowed: (n,) mask of the allowed passages.
            growth: (n,) factor of the shares of each passage's edges, where it lost some; None if
                none did.
            is_left: (e,) mask of the remaining entities, including all of a single passage; None
                for all.
        """
        passages, entities = self.passages, self.entities
        weights = allowed.astype(np.float64) if growth is None else allowed * growth
        if growth is not None or is_left is not None:
            left_factors = None if is_left is None else is_left.astype(np.float64)
            passages = FilteredEdges(passages.lists, of_nodes=growth, of_targets=left_factors)
        return replace(
            self,
            passages=passages,
            entities=FilteredEdges(
                entities.lists,
                of_targets=weights,
                is_whole=True,
                part=max(float(allowed.mean()), LEAST_PART) if len(allowed) else 1.0,
            ),
            returned=self.returned if growth is None else self.returned * growth,
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """The restart vector of one walk.

    Attributes:
        passages: (p,) rows of passages, ascending.
        passage_mass: (p,) non-negative.
        entities: (a,) distinct entities.
        entity_mass: (a,) non-negative.
        reached: From rows of further passages to their restart mass. It is called for those that
            most mass reaches, which keep it and send nothing on. None if the rest have none.
    """

    passages: Int64
    passage_mass: Float64
    entities: Int64
    entity_mass: Float64
    reached: Callable[[Int64], Float64] | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The mass that one walk settled, as far as it was followed.

    Attributes:
        passages: (t,) rows of the passages that any mass reached, ascending.
        mass: (t,) a lower bound of the walk's true mass there; that of other passages is 0.
        error: Upper bound of the mass missing from `mass`, summed over all passages.
        edges: Number of edges followed.
    """

    passages: Int64
    mass: Float64
    error: float
    edges: int


_NOWHERE = Settled(np.empty(0, np.int64), np.empty(0), 0.0, 0)


def build_local_walk(weights: "sparse.csc_array") -> LocalWalk:
    """Store the random walk of `wye.backends.trigraph.full_walk.build_full_walk` for pushing.

    A share depends on the weights of its own node alone, so a graph that differs in a few passages
    has the same shares elsewhere.

    Args:
        weights: (n, e) edge weights, above 0, each edge once.
    """
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    passage, degree = weights.indices, np.diff(weights.indptr)
    entity = np.repeat(np.arange(len(degree), dtype=np.int64), degree)
    by_entity = sums(entity, weights.data, len(degree))
    to_passages = PlainLists(weights.indptr, passage, weights.data * reciprocal(by_entity)[entity])
    inverse = reciprocal(sums(passage, weights.data, weights.shape[0]))
    shared = np.flatnonzero(degree > 1).astype(np.int32)
    leads_on = (degree > 1)[entity]
    starts = np.concatenate([[0], np.cumsum(degree[shared])]).astype(np.int32)
    shares = weights.data[leads_on] * inverse[passage[leads_on]]
    by_passage = sparse.csc_array(
        (shares, passage[leads_on], starts), shape=(len(inverse), len(shared))
    ).tocsr()
    returned = sums(passage[~leads_on], weights.data[~leads_on], len(inverse))
    return LocalWalk(
        Edges(PlainLists(by_passage.indptr, shared[by_passage.indices], by_passage.data)),
        Edges(to_passages),
        returned * inverse,
    )


def personalized_pagerank(
    walk: LocalWalk,
    restarts: Sequence[Restart],
    *,
    damping: float,
    threshold: float = THRESHOLD,
    most: int = MOST,
) -> list[Settled]:
    """Personalized PageRank of restart vectors with mass on many passages.

    Every passage keeps its share of its restart mass, and what its own entities return of it. Only
    those that stand out push the rest on, so apart from one look at each passage of a restart
    vector the work does not grow with their number.

    Args:
        restarts: Each is normalised; one without mass settles nothing.
        damping: Probability in [0, 1) of following an edge rather than restarting.
        threshold: Above 0. A node with m edges holds up to m times this share of the largest
            restart mass of any node of its walk. It is relative to the largest and not to the sum,
            since the sum grows with the passages and the mass that stands out does not.
        most: At least 1. How many passages may push their restart mass, those with the most of it.

    Raises:
        ValueError: Damping or threshold is out of range.
    """
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), not {damping}")
    if not threshold > 0:
        raise ValueError(f"threshold must be above 0, not {threshold}")
    with walk.states() as states:
        return [
            _settle_far(walk, states, restart, damping=damping, threshold=threshold, most=most)
            for restart in restarts
        ]


def _settle_far(
    walk: LocalWalk,
    states: "_PushStates",
    restart: Restart,
    *,
    damping: float,
    threshold: float,
    most: int,
) -> Settled:
    rows, prior, values = restart.passages, restart.passage_mass, restart.entity_mass
    total = float(prior.sum() + values.sum())
    if total <= 0:
        return _NOWHERE
    level = threshold * max(prior.max(initial=0.0), values.max(initial=0.0))
    far = np.flatnonzero(prior > level * walk.passages.lengths(rows))
    if len(far) > most:
        far = np.sort(far[top_rows(prior[far], most)])
    started = Restart(rows[far], prior[far], restart.entities, values)
    pushed = float(prior[far].sum())
    share = pushed + float(values.sum())
    mass = prior * walk.retained(rows, damping)
    mass[far] = 0
    missing = max((float(prior.sum()) - pushed) / (1 + damping) - float(mass.sum()), 0)
    walked = _settle(states, started, damping, level / share) if share > 0 else _NOWHERE
    reached = distinct(np.concatenate([rows, walked.passages]))
    settled = np.zeros(len(reached))
    settled[np.searchsorted(reached, rows)] = mass / total
    settled[np.searchsorted(reached, walked.passages)] += walked.mass * (share / total)
    if restart.reached is not None:
        late = np.searchsorted(reached, without(walked.passages, rows))
        late = np.sort(late[top_rows(settled[late], most)])
        late_rows = reached[late]
        settled[late] += restart.reached(late_rows) * walk.retained(late_rows, damping) / total
    error = missing / total + walked.error * share / total
    return Settled(reached, settled, error, walked.edges)


def _settle(states: "_PushStates", restart: Restart, damping: float, threshold: float) -> Settled:
    passages, entities = states
    total = float(restart.passage_mass.sum() + restart.entity_mass.sum())
    if total <= 0:
        return _NOWHERE
    entities.start(restart.entities, restart.entity_mass / total)
    passages.start(restart.passages, restart.passage_mass / total)
    edges = 0
    while len(passages.fresh) or len(entities.fresh):
        edges += entities.push_to(passages, damping, threshold)
        edges += passages.push_to(entities, damping, threshold)
    settled = _read(passages, entities, damping, edges)
    passages.clean()
    entities.clean()
    return settled


def _read(passages: "_PushState", entities: "_PushState", damping: float, edges: int) -> Settled:
    """The settled mass, and how much of it is missing at most.

    Of mass that starts at passages, 1 / (1 + d) ends at passages; of mass that starts at entities,
    d / (1 + d). A passage certainly keeps its own part of a held residual.
    """
    rows = distinct(np.concatenate(passages.touched))
    held = passages.waiting[rows]
    certain = (1 - damping) * passages.gain(rows, damping) * held
    mass = passages.settled[rows] + certain
    most = (float(held.sum()) + damping * entities.held()) / (1 + damping)
    return Settled(rows, mass, max(most - float(certain.sum()), 0.0), edges)


class _Room:
    """Buffers of one side of the graph for a walk; they are zeroed again after each walk."""

    def __init__(self, nodes: int, settled: int = 0) -> None:
        self.waiting = np.zeros(nodes)
        self.settled = np.zeros(settled)
        self.place = np.empty(nodes, np.int32)


class _PushState:
    """The state of one side, passages or entities, during a walk."""

    def __init__(self, edges: Edges, returned: Float64 | None, room: _Room) -> None:
        self._edges = edges
        self._returned = returned
        self.waiting, self.settled, self._place = room.waiting, room.settled, room.place
        self.touched: list[Int64] = []
        self.fresh = np.empty(0, np.int64)
        """Distinct nodes that received mass since this side last pushed."""

    def start(self, nodes: Int64, mass: Float64) -> None:
        """Place the restart mass on distinct nodes."""
        self.waiting[nodes] = mass
        self.fresh = nodes[mass > 0]
        self.touched = [self.fresh]

    def push_to(self, other: "_PushState", damping: float, threshold: float) -> int:
        """Settle mass at nodes that have enough, push the rest, and return the edges followed."""
        enough = self.waiting[self.fresh] > threshold * self._edges.cost(self.fresh)
        nodes = self.fresh[enough]
        self.fresh = np.empty(0, np.int64)
        mass = self.waiting[nodes] * self.gain(nodes, damping)
        self.waiting[nodes] = 0
        if len(self.settled):
            self.settled[nodes] += (1 - damping) * mass
        if not damping or not len(nodes):
            return 0
        targets, moved, edges = self._edges.follow(nodes, damping * mass)
        if edges:
            other.receive(targets, moved)
        return edges

    def gain(self, nodes: Int64, damping: float) -> Float64:
        """Expected visits of mass to each node before it moves on, with returns in two steps."""
        if self._returned is None:
            return np.ones(len(nodes))
        gain: Float64 = 1 / (1 - damping**2 * self._returned[nodes])
        return gain

    def receive(self, nodes: Numbers, mass: Float64) -> None:
        """Add mass to nodes; a node may repeat."""
        np.add.at(self.waiting, nodes, mass)
        self.fresh = self._distinct(np.concatenate([self.fresh, nodes]))
        self.touched.append(self.fresh)

    def _distinct(self, nodes: Int64) -> Int64:
        """Each node once, without sorting: only a node's last occurrence finds its own position."""
        order = np.arange(len(nodes), dtype=np.int32)
        self._place[nodes] = order
        distinct: Int64 = nodes[self._place[nodes] == order]
        return distinct

    def held(self) -> float:
        """The sum of the waiting mass."""
        # A node may have been touched repeatedly, but its mass counts once.
        return float(self.waiting[distinct(np.concatenate(self.touched))].sum())

    def clean(self) -> None:
        """Reset the buffers to zero."""
        for nodes in self.touched:
            self.waiting[nodes] = 0
            if len(self.settled):
                self.settled[nodes] = 0
        self.touched = []
        self.fresh = np.empty(0, np.int64)


_PushStates = tuple[_PushState, _PushState]
"""The state of passages and of entities during one walk, for one thread."""
