"""Personalized PageRank on the graph of a question: its candidate passages and what they mention.

A walk with damping d from restart distribution r settles at x = (1 - d) r + d P x, where P moves
mass from a node to its neighbours in proportion to edge weight. The graph is bipartite, so the
entities can be eliminated:

    x_p = (1 - d) (r_p + d A r_e) + d^2 A B x_p        A: entity -> passage, B: passage -> entity

A B is symmetric with eigenvalues in [0, 1], so I - d^2 A B has its in [1 - d^2, 1], and Chebyshev
iteration (Saad, Iterative Methods for Sparse Linear Systems, algorithm 12.1) needs five steps where
repeating the equation needs nine. Passages that are no candidates are not in the graph, so a walk
costs the same in any corpus, and a filter or a deletion leaves nothing to undo.

The graphs of several questions are the parts of one graph without edges between them, which takes
as many array operations as one question's.

After the walk, a passage moves up if one of the first passages mentions its title. The walk shares
out the mass of a passage among all that it mentions, so the passage about one of the names in it
may get little. A passage that the best ones name is often the next piece of evidence, the more so
if few others name it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wye.backends.numerics import first_of_each, located, ranges, sums, top_rows
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import FilteredGraph, TriGraph, counted
from wye.backends.types import Float64, Int64

Masses = tuple[Int64, Float64]
"""Distinct nodes of one side, entities or passages, ascending, and the mass on each."""

TOLERANCE = 1e-5
"""Share of the mass that is not followed any further."""

PROMOTING = 5
"""How many of the first passages promote others."""

MOST_NAMING = 100
"""Passages may mention a title before it promotes none: at .5 it would move them by a twentieth."""


@dataclass(frozen=True, slots=True)
class QuestionGraphs:
    """The graphs of q questions: c passages, the e nodes that tie them, and x edges between them.

    A node is an entity, a pair of consecutive chunks of one document, or all entities that a
    passage alone mentions: what it sends there comes back from any of them.

    Attributes:
        question: (c,) the question of each passage, ascending.
        entities: The first nodes: each question's entities, ascending, as the question's position
            times `stride` plus the entity.
        stride: Number of entities in the whole graph, at least 1.
        passage: (x,) position of each edge's passage.
        starts: (e + 1,) offsets: the edges of node i are starts[i]:starts[i + 1].
        count: (x,) how often the passage mentions the entity; 1 for a pair of chunks.
    """

    question: Int64
    entities: Int64
    stride: int
    passage: Int64
    starts: Int64
    count: Float64

    @classmethod
    def of(
        cls, graph: TriGraph, corpus: Corpus, passages: Sequence[Int64], starts: Sequence[Int64]
    ) -> "QuestionGraphs":
        """The graphs of some passages.

        Args:
            passages: Rows of each question's passages, ascending.
            starts: Entities that each question's walk may start from, which are nodes of their own.
        """
        lengths = np.array([len(rows) for rows in passages], np.int64)
        question, stride = np.repeat(np.arange(len(passages)), lengths), max(len(graph), 1)
        rows = np.concatenate([np.empty(0, np.int64), *passages])
        passage, entity = graph.entities_of(rows)
        is_node, entity = graph.degrees[entity] > 1, question[passage] * stride + entity
        for number, each in enumerate(starts):  # another question's starts would change the sums
            for start in each[graph.degrees[each] == 1].tolist():
                is_node |= entity == number * stride + start
        others = np.bincount(passage[~is_node], minlength=len(rows))
        entity, passage = entity[is_node], passage[is_node]
        entity, passage, count = counted(entity, passage, len(rows))
        first, with_others = first_of_each(entity), np.flatnonzero(others)
        chunks = _consecutive_chunks(corpus, rows, question)
        ends = len(entity) + np.cumsum(np.repeat([1, 2], [len(with_others), len(chunks)]))
        return cls(
            question,
            entity[first],
            stride,
            np.concatenate([passage, with_others, chunks.ravel()]),
            np.concatenate([first, [len(entity)], ends]),
            np.concatenate([count, others[with_others], np.ones(chunks.size)]),
        )

    def walk(
        self, restart: Float64, entity_restart: Sequence[Masses], damping: float
    ) -> list[Float64]:
        """Probability mass on each question's passages.

        Args:
            restart: (c,) non-negative restart mass of the passages.
            entity_restart: Restart mass of some entities for each question; that of an entity
                without a mention here is left out. Both are normalised together; without any mass
                all stays zero. What would move on from a passage without entities is lost.
            damping: Probability in [0, 1) of following an edge rather than restarting.

        Raises:
            ValueError: The damping is out of range.
        """
        if not 0 <= damping < 1:
            raise ValueError(f"damping must be in [0, 1), not {damping}")
        c, degree = len(self.question), np.diff(self.starts)
        by_passage = sums(self.passage, self.count, c)
        # An edge weighs an entity's share of all mentions in the passage (LinearRAG, section 3.1).
        shares = self.count / by_passage[self.passage]
        by_node = sums(np.repeat(np.arange(len(degree)), degree), shares, len(degree))
        nodes, node_mass = self._on_nodes(entity_restart)
        edges = ranges(self.starts[nodes], self.starts[nodes + 1])
        by_edge = np.repeat(node_mass / by_node[nodes], degree[nodes])
        reached = sums(self.passage[edges], shares[edges] * by_edge, c)
        totals = sums(self.question, restart, len(entity_restart))
        totals += sums(self.entities[nodes] // self.stride, node_mass, len(totals))
        totals[totals <= 0] = np.inf
        source = (1 - damping) * (restart + damping * reached) / totals[self.question]
        # What a passage sends to an entity that no other mentions comes back at once.
        alone = self.starts[:-1][degree == 1]
        returned = sums(self.passage[alone], shares[alone], c)
        ties = np.flatnonzero(degree > 1)
        lengths = degree[ties]
        starts = np.cumsum(lengths) - lengths
        shared = ranges(self.starts[ties], self.starts[ties + 1])
        passage = self.passage[shared]
        share = shares[shared] / np.repeat(np.sqrt(by_node[ties]), lengths)

        def followed(mass: Float64) -> Float64:
            on_nodes = np.add.reduceat(share * mass[passage], starts) if len(starts) else starts
            return returned * mass + sums(passage, share * np.repeat(on_nodes, lengths), c)

        mass = solved(source, followed, damping**2)
        ends = np.searchsorted(self.question, np.arange(1, len(entity_restart)))
        return np.split(mass, ends) if len(entity_restart) else []

    def _on_nodes(self, restarts: Sequence[Masses]) -> Masses:
        """The nodes that have restart mass, ascending, and the mass of each."""
        numbers = [n * self.stride + entities for n, (entities, _) in enumerate(restarts)]
        position, known = located(np.concatenate([np.empty(0, np.int64), *numbers]), self.entities)
        masses = np.concatenate([np.empty(0), *(mass for _, mass in restarts)])
        return position[known], masses[known]


def solved(source: Float64, followed: Callable[[Float64], Float64], share: float) -> Float64:
    """Solve x = source + share * followed(x) by Chebyshev iteration; below 0 by rounding is 0.

    Args:
        followed: A symmetric linear map whose eigenvalues are in [0, 1].
        share: In [0, 1).
    """
    if not share:
        return source
    middle, radius = 1 - share / 2, share / 2
    root = math.sqrt(1 - share)
    steps = math.ceil(math.log(TOLERANCE / 2) / math.log((1 - root) / (1 + root)))
    factor = radius / middle
    mass, residual = source, share * followed(source)
    step = residual / middle
    for left in range(steps, 0, -1):
        mass = mass + step
        if left > 1:
            residual = residual - step + share * followed(step)
            after = 1 / (2 * middle / radius - factor)
            step, factor = after * factor * step + 2 * after / radius * residual, after
    return np.maximum(mass, 0)


def _consecutive_chunks(corpus: Corpus, passages: Int64, question: Int64) -> Int64:
    """(j, 2) positions of a question's passages that are consecutive chunks of one document."""
    chunks = corpus.chunks[passages]
    if not chunks.any():
        return np.empty((0, 2), np.int64)
    columns = question.tolist(), passages.tolist(), chunks.tolist()
    names = [(q, corpus.documents[row], n) for q, row, n in zip(*columns, strict=True)]
    positions = {name: position for position, name in enumerate(names)}
    pairs = [
        (position, positions[q, document, chunk + 1])
        for (q, document, chunk), position in positions.items()
        if (q, document, chunk + 1) in positions
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


class Promoted(NamedTuple):
    """A walk's result after promotion.

    Attributes:
        settled: Passages, ascending, and the mass on each.
        named_in: Row of a passage that was moved up -> row of the one that mentions its title.
    """

    settled: Masses
    named_in: Mapping[int, int]


def promote(
    graph: TriGraph, filtered: FilteredGraph, walks: Sequence[Masses], share: float
) -> list[Promoted]:
    """Promote passages whose titles the first ones mention.

    If a passage with mass M is among the first and mentions the title of one with a lower mass,
    the latter gets `promoted` mass. Of several such masses the largest counts. So no passage
    overtakes the one that it was named in.

    Args:
        walks: For each question the passages, ascending, and the mass on each.
        share: From 0, which changes nothing, to 1.
    """
    if not share or not walks:
        return [Promoted(settled, {}) for settled in walks]
    # Names are looked up for all questions at once, since most of the time is that of the calls.
    firsts = [top_rows(mass, PROMOTING) for _, mass in walks]
    heads = np.concatenate([rows[first] for (rows, _), first in zip(walks, firsts, strict=True)])
    position, entities, _ = counted(*graph.entities_of(heads), len(graph))
    degree = filtered.degree(entities)
    position, entities, degree = (
        array[degree <= MOST_NAMING] for array in (position, entities, degree)
    )
    titled, titled_counts = filtered.titles(entities)
    name_of_title = np.repeat(np.arange(len(entities)), titled_counts)
    head_of_title = position[name_of_title]
    is_own_title = np.zeros(len(entities), bool)
    is_own_title[name_of_title[titled == heads[head_of_title]]] = True
    power = reach(share, degree)
    results: list[Promoted] = []
    start = 0
    for (rows, mass), first in zip(walks, firsts, strict=True):
        part = slice(*np.searchsorted(head_of_title, [start, start + len(first)]))
        positions, known = located(titled[part], rows)
        known &= ~is_own_title[name_of_title[part]]
        positions, source = positions[known], first[head_of_title[part][known] - start]
        after, moved = promoted(mass, positions, mass[source], power[name_of_title[part]][known])
        pairs = zip(rows[positions[moved]].tolist(), rows[source[moved]].tolist(), strict=True)
        results.append(Promoted((rows, after), dict(pairs)))
        start += len(first)
    return results


def reach(share: float, degree: Int64) -> Float64:
    """(e,) share / √(d - 1): how far names of titles move a passage up.

    Args:
        share: From 0 to 1.
        degree: (e,) d, how many passages mention each title or have it.
    """
    power: Float64 = share / np.sqrt(np.maximum(degree - 1, 1))
    return power


def promoted(
    mass: Float64, positions: Int64, source: Float64, power: Float64
) -> tuple[Float64, Int64]:
    """Raise masses m towards the masses M of passages that name them: m · (M / m)^power.

    Args:
        mass: (r,) masses of passages; 0 stays 0.
        positions: (p,) positions of passages whose title is mentioned.
        source: (p,) M; a smaller one changes nothing.
        power: (p,) from 0 to 1; see `reach`.

    Returns:
        (r,) masses, and which of the p raised one.
    """
    before = mass[positions]
    raises = np.flatnonzero((source > before) & (before > 0))
    low, high = before[raises], source[raises]
    share = power[raises]
    raised = before.copy()
    raised[raises] = np.clip(np.exp((1 - share) * np.log(low) + share * np.log(high)), low, high)
    after = mass.copy()
    np.maximum.at(after, positions, raised)
    return after, np.flatnonzero((raised == after[positions]) & (raised > before))
