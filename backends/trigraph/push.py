"""Personalized PageRank whose cost follows what the walk touches, not the size of the graph.

Mass waiting at a node is pushed on only where there is enough of it for the node's number of
edges; less than that is held, and what is held bounds the error (Andersen, Chung and Lang, "Local
graph partitioning using PageRank vectors", FOCS 2006, whose pushes are made here for all waiting
nodes of one side at once). Every push over m edges settles at least (1 - d) * threshold * m of the
mass, so no more than 1 / ((1 - d) * threshold) edges are ever followed, however large the graph.

The walk is that of `backends.trigraph.pagerank`, and so is the result, up to the bound.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from backends.numerics import distinct, sums, top_rows, without
from backends.store.derived import Arrays
from backends.trigraph.lists import Lists, Numbers, PlainLists
from backends.trigraph.pagerank import reciprocal
from backends.types import Float64, Int64, Mask

if TYPE_CHECKING:
    from scipy import sparse

THRESHOLD = 1e-3
MOST = 300
LEAST_PART = 0.005
"""A filter that leaves fewer passages than this makes no hub any cheaper to push."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Where mass goes from one side of the graph.

    Attributes:
        lists: For each of m nodes the nodes of the other side, and the share of the node's mass
            that goes there; they add up to 1, or to 0 without edges.
    """

    lists: Lists

    def __len__(self) -> int:
        """How many nodes this side has."""
        return len(self.lists)

    def lengths(self, nodes: Int64) -> Int64:
        """How many edges each of some nodes has."""
        return self.lists.lengths(nodes)

    def cost(self, nodes: Int64) -> Float64:
        """The same, of those edges that take mass, as far as that is known."""
        return self.lengths(nodes).astype(np.float64)

    def follow(self, nodes: Int64, mass: Float64) -> tuple[Numbers, Float64, int]:
        """A target and its mass for each edge that takes mass of some nodes; how many there are."""
        targets, shares, lengths = self.lists.valued(nodes)
        return targets, shares * np.repeat(mass, lengths), len(targets)


@dataclass(frozen=True, slots=True)
class KeptEdges(Edges):
    """Edges of which a filter leaves some out, without a copy of the others.

    Attributes:
        of_nodes: (m,) what the share of each node's edges grows by; None for 1.
        of_targets: What counts of an edge by its target, 0 where it is left out; None for 1.
        is_whole: Whether the shares of what is left of a node's edges are to add up to 1.
        part: Of a node's edges about so many are left, of 1.
    """

    of_nodes: Float64 | None = None
    of_targets: Float64 | None = None
    is_whole: bool = False
    part: float = 1.0

    def cost(self, nodes: Int64) -> Float64:
        """About how many edges of each node are left."""
        return self.lengths(nodes) * np.float64(self.part)

    def follow(self, nodes: Int64, mass: Float64) -> tuple[Numbers, Float64, int]:
        """The same, on the edges that are left."""
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
    """The random walk, arranged to be followed from any node.

    Attributes:
        passages: From n passages to the entities that other passages share.
        entities: From e entities to passages.
        returned: (n,) share of a passage's mass that its own entities give back in two steps.
    """

    passages: Edges
    entities: Edges
    returned: Float64
    _spare: "list[tuple[_Room, _Room]]" = field(default_factory=list, repr=False, compare=False)

    def to_arrays(self) -> Arrays:
        """What the graph itself does not have, for `from_arrays`."""
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
        """The walk that gave these arrays, on the same counts: the passages of each entity."""
        passages = (arrays[f"passages.{name}"] for name in ("starts", "targets", "shares"))
        own = counts.plain()
        entities = PlainLists(own.starts, own.items, arrays["entities.shares"])
        return cls(Edges(PlainLists(*passages)), Edges(entities), arrays["returned"])

    def kept(self, passages: Int64, damping: float) -> Float64:
        """Share of what some passages restart with that stays, though they send nothing on."""
        kept: Float64 = (1 - damping) / (1 - damping**2 * self.returned[passages])
        return kept

    @contextmanager
    def states(self) -> "Iterator[_PushStates]":
        """Room for one walk at a time, kept for the next: fresh pages cost more than a walk."""
        try:
            rooms = self._spare.pop()
        except IndexError:
            rooms = _Room(len(self.passages)), _Room(len(self.entities))
        yield _PushStates(
            _PushState(self.passages, self.returned, rooms[0]),
            _PushState(self.entities, None, rooms[1]),
        )
        # A walk that failed half way would have left its mass behind.
        self._spare.append(rooms)

    def among(
        self, allowed: Mask, grown: Float64 | None = None, kept: Mask | None = None
    ) -> "LocalWalk":
        """The walk on the graph without some passages; nothing is copied.

        Entities that lead to one passage alone because of that are not folded into `returned`:
        mass goes to them and comes back.

        Args:
            allowed: (n,) passages that are left.
            grown: (n,) what the share of each edge of a passage grows by, where it lost others;
                None where none did.
            kept: (e,) entities that are left, among them all of one passage; None for all.
        """
        passages, entities = self.passages, self.entities
        weights = allowed.astype(np.float64) if grown is None else allowed * grown
        if grown is not None or kept is not None:
            kept_too = None if kept is None else kept.astype(np.float64)
            passages = KeptEdges(passages.lists, of_nodes=grown, of_targets=kept_too)
        return replace(
            self,
            passages=passages,
            entities=KeptEdges(
                entities.lists,
                of_targets=weights,
                is_whole=True,
                part=max(float(allowed.mean()), LEAST_PART) if len(allowed) else 1.0,
            ),
            returned=self.returned if grown is None else self.returned * grown,
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """Where one walk restarts.

    Attributes:
        passages: (p,) rows of passages, ascending.
        passage_mass: (p,) non-negative.
        entities: (a,) entities, each at most once.
        entity_mass: (a,) non-negative.
        reached: Gives what some further passages restart with, by their rows: asked of those that
            most mass reaches, which keep it and send nothing on. None where the rest has nothing.
    """

    passages: Int64
    passage_mass: Float64
    entities: Int64
    entity_mass: Float64
    reached: Callable[[Int64], Float64] | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Where one walk settles, as far as it was followed.

    Attributes:
        passages: (t,) rows of the passages that any mass reached, ascending.
        mass: (t,) never more than the walk's true mass there. A passage not listed has none.
        error: Largest sum over all passages of what is missing from `mass`.
        edges: How many edges were followed.
    """

    passages: Int64
    mass: Float64
    error: float
    edges: int


_NOWHERE = Settled(np.empty(0, np.int64), np.empty(0), 0.0, 0)


def local_walk(weights: "sparse.csc_array") -> LocalWalk:
    """Arrange the random walk of `backends.trigraph.pagerank.walk_on` for pushing.

    A share depends on nothing but the weights of its own node, so that a graph with a few other
    passages has the same elsewhere.

    Args:
        weights: (n, e) edge weights, above 0, each edge once.
    """
    from scipy import sparse  # noqa: PLC0415 - see `TriGraph.counts`

    passage, degree = weights.indices, np.diff(weights.indptr)
    entity = np.repeat(np.arange(len(degree), dtype=np.int64), degree)
    by_entity = sums(entity, weights.data, len(degree))
    onto = PlainLists(weights.indptr, passage, weights.data * reciprocal(by_entity)[entity])
    inverse = reciprocal(sums(passage, weights.data, weights.shape[0]))
    shared = np.flatnonzero(degree > 1).astype(np.int32)
    leads_on = (degree > 1)[entity]
    starts = np.concatenate([[0], np.cumsum(degree[shared])]).astype(np.int32)
    shares = weights.data[leads_on] * inverse[passage[leads_on]]
    by_passage = sparse.csc_array(
        (shares, passage[leads_on], starts), shape=(len(inverse), len(shared))
    ).tocsr()
    own = sums(passage[~leads_on], weights.data[~leads_on], len(inverse))
    return LocalWalk(
        Edges(PlainLists(by_passage.indptr, shared[by_passage.indices], by_passage.data)),
        Edges(onto),
        own * inverse,
    )


def settle(
    walk: LocalWalk, restarts: Sequence[Restart], *, damping: float, threshold: float
) -> list[Settled]:
    """Personalized PageRank of several restart vectors, one after the other.

    Args:
        restarts: Each is normalised; one without mass settles nowhere.
        damping: Probability in [0, 1) of following an edge rather than restarting.
        threshold: Above 0. A node with m edges holds up to m times this much of the mass.

    Raises:
        ValueError: Damping or threshold is out of range.
    """
    _require(damping, threshold)
    with walk.states() as states:
        return [_settle(states, restart, damping, threshold) for restart in restarts]


def personalized_pagerank(
    walk: LocalWalk,
    restarts: Sequence[Restart],
    *,
    damping: float,
    threshold: float = THRESHOLD,
    most: int = MOST,
) -> list[Settled]:
    """What `backends.trigraph.pagerank` computes, where many passages restart.

    Every passage keeps what it restarts with, and what its own entities give back of that. Only
    those that stand out send the rest on, so beyond one look at each passage of a restart the work
    does not grow.

    Args:
        restarts: Each is normalised; one without mass settles nowhere.
        damping: Probability in [0, 1) of following an edge rather than restarting.
        threshold: Above 0. A node with m edges holds up to m times this share of the largest
            restart mass that any node of its walk has. A share of the largest and not of the
            sum, which grows with the passages while what stands out does not.
        most: At least 1. So many passages may push what they restart with, those with most of it.

    Raises:
        ValueError: Damping or threshold is out of range.
    """
    _require(damping, threshold)
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
    mass = prior * walk.kept(rows, damping)
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
        own = reached[late]
        settled[late] += restart.reached(own) * walk.kept(own, damping) / total
    error = missing / total + walked.error * share / total
    return Settled(reached, settled, error, walked.edges)


def _require(damping: float, threshold: float) -> None:
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), not {damping}")
    if not threshold > 0:
        raise ValueError(f"threshold must be above 0, not {threshold}")


def _settle(states: "_PushStates", restart: Restart, damping: float, threshold: float) -> Settled:
    passages, entities = states.passages, states.entities
    total = float(restart.passage_mass.sum() + restart.entity_mass.sum())
    if total <= 0:
        return _NOWHERE
    entities.start(restart.entities, restart.entity_mass / total)
    passages.start(restart.passages, restart.passage_mass / total)
    edges = 0
    while len(passages.fresh) or len(entities.fresh):
        edges += entities.push_to(passages, damping, threshold)
        edges += passages.push_to(entities, damping, threshold)
    found = _read(states, damping, edges)
    passages.clean()
    entities.clean()
    return found


def _read(states: "_PushStates", damping: float, edges: int) -> Settled:
    """What settled, and how much at most is missing.

    Of all mass that starts at passages 1 / (1 + d) ends at passages, of what starts at entities
    d / (1 + d). Of a held residual the passage itself keeps its part for certain.
    """
    rows = distinct(np.concatenate(states.passages.touched))
    held = states.passages.waiting[rows]
    certain = (1 - damping) * states.passages.gain(rows, damping) * held
    mass = states.passages.settled[rows] + certain
    most = (float(held.sum()) + damping * states.entities.held()) / (1 + damping)
    return Settled(rows, mass, max(most - float(certain.sum()), 0.0), edges)


class _Room:
    """What one side of the graph needs during a walk, clean whenever none is under way."""

    def __init__(self, nodes: int) -> None:
        self.waiting = np.zeros(nodes)
        self.settled = np.zeros(nodes)
        self.place = np.empty(nodes, np.int32)


class _PushState:
    """The passages or the entities during one walk."""

    def __init__(self, edges: Edges, returned: Float64 | None, room: _Room) -> None:
        self._edges = edges
        self._returned = returned
        self.waiting, self.settled, self._place = room.waiting, room.settled, room.place
        self.touched: list[Int64] = []
        self.fresh = np.empty(0, np.int64)
        """Nodes that mass has come to since this side last pushed, each once."""

    def start(self, nodes: Int64, mass: Float64) -> None:
        """Put the restart mass down."""
        self.waiting[nodes] = mass
        self.fresh = nodes[mass > 0]
        self.touched = [self.fresh]

    def push_to(self, other: "_PushState", damping: float, threshold: float) -> int:
        """Settle what waits at nodes that have enough, and send the rest on; returns edges."""
        enough = self.waiting[self.fresh] > threshold * self._edges.cost(self.fresh)
        nodes = self.fresh[enough]
        self.fresh = np.empty(0, np.int64)
        mass = self.waiting[nodes] * self.gain(nodes, damping)
        self.waiting[nodes] = 0
        self.settled[nodes] += (1 - damping) * mass
        if not damping or not len(nodes):
            return 0
        targets, moved, edges = self._edges.follow(nodes, damping * mass)
        if edges:
            other.receive(targets, moved)
        return edges

    def gain(self, nodes: Int64, damping: float) -> Float64:
        """How often mass is at each of these nodes before it goes on, coming back each time."""
        if self._returned is None:
            return np.ones(len(nodes))
        gain: Float64 = 1 / (1 - damping**2 * self._returned[nodes])
        return gain

    def receive(self, nodes: Numbers, mass: Float64) -> None:
        """Take mass in; a node may occur many times."""
        np.add.at(self.waiting, nodes, mass)
        self.fresh = self._distinct(np.concatenate([self.fresh, nodes]))
        self.touched.append(self.fresh)

    def _distinct(self, nodes: Int64) -> Int64:
        """Each node once, without sorting: of its occurrences the last one's place stays."""
        order = np.arange(len(nodes), dtype=np.int32)
        self._place[nodes] = order
        distinct: Int64 = nodes[self._place[nodes] == order]
        return distinct

    def held(self) -> float:
        """All that waits."""
        # A node may have been touched often, but waits once.
        return float(self.waiting[distinct(np.concatenate(self.touched))].sum())

    def clean(self) -> None:
        """Leave the arrays as they were."""
        for nodes in self.touched:
            self.waiting[nodes] = 0
            self.settled[nodes] = 0
        self.touched = []
        self.fresh = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _PushStates:
    """Both sides during one walk. Not for two threads at once."""

    passages: _PushState
    entities: _PushState
