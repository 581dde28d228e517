"""Personalized PageRank on the graph of one question: its candidate passages and what they mention.

A walk with damping d from restart distribution r settles at x = (1 - d) r + d P x, where P moves
mass from a node to its neighbours in proportion to edge weight. The graph is bipartite, so the
entities can be eliminated:

    x_p = (1 - d) (r_p + d A r_e) + d^2 A B x_p        A: entity -> passage, B: passage -> entity

which is iterated: the error falls as d^2m. Passages that are no candidates are not in the graph, so
a walk costs the same in any corpus, and a filter or a deletion leaves nothing to undo.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from wye.backends.numerics import located, sums
from wye.backends.store.corpus import Corpus
from wye.backends.trigraph.graph import TriGraph, counted
from wye.backends.types import Float64, Int64

Masses = tuple[Int64, Float64]
"""Distinct nodes of one side, entities or passages, ascending, and the mass on each."""

TOLERANCE = 1e-5
"""Share of the mass that is not followed any further."""


@dataclass(frozen=True, slots=True)
class QuestionGraph:
    """c passages, the e nodes that tie them together, and the x edges between them.

    A node is an entity, or a pair of consecutive chunks of one document.

    Attributes:
        entities: Entities that the passages mention, ascending; they are the first nodes.
        passage: (x,) position of each edge's passage.
        node: (x,) number of each edge's node.
        count: (x,) how often the passage mentions the entity; 1 for a pair of chunks.
        sizes: c and e.
    """

    entities: Int64
    passage: Int64
    node: Int64
    count: Float64
    sizes: tuple[int, int]

    @classmethod
    def of(cls, graph: TriGraph, corpus: Corpus, passages: Int64) -> "QuestionGraph":
        """The graph of some passages: their rows, ascending."""
        passage, entity = graph.entities_of(passages)
        entity, passage, count = counted(entity, passage, len(passages))
        is_first = np.diff(entity, prepend=-1) > 0
        entities, node = entity[is_first], np.cumsum(is_first) - 1
        chunks = _consecutive_chunks(corpus, passages)
        pairs = np.repeat(np.arange(len(chunks)), 2) + len(entities)
        return cls(
            entities,
            np.concatenate([passage, chunks.ravel()]),
            np.concatenate([node, pairs]),
            np.concatenate([count, np.ones(len(pairs))]),
            (len(passages), len(entities) + len(chunks)),
        )

    def walk(self, restart: Float64, entity_restart: Masses, damping: float) -> Float64:
        """(c,) probability mass on the passages.

        Args:
            restart: (c,) non-negative restart mass of the passages.
            entity_restart: Restart mass of some entities; that of an entity without a mention here
                is left out. Both are normalised together; without any mass all stays zero.
                What would move on from a passage without entities is lost.
            damping: Probability in [0, 1) of following an edge rather than restarting.

        Raises:
            ValueError: The damping is out of range.
        """
        if not 0 <= damping < 1:
            raise ValueError(f"damping must be in [0, 1), not {damping}")
        c, e = self.sizes
        by_passage = sums(self.passage, self.count, c)
        # An edge weighs an entity's share of all mentions in the passage (LinearRAG, section 3.1).
        shares = self.count / by_passage[self.passage]
        by_node = sums(self.node, shares, e)
        position, known = located(entity_restart[0], self.entities)
        entity_mass = np.zeros(e)
        entity_mass[position[known]] = entity_restart[1][known]
        total = float(restart.sum() + entity_mass.sum())
        if total <= 0:
            return np.zeros(c)
        reached = sums(self.passage, shares * (entity_mass / by_node)[self.node], c)
        source = (1 - damping) * (restart + damping * reached) / total
        # What a passage sends to an entity of its own comes back at once.
        is_shared = np.bincount(self.node, minlength=e)[self.node] > 1
        returned = sums(self.passage[~is_shared], shares[~is_shared], c)
        edges = shares[is_shared], (self.node[is_shared], self.passage[is_shared])
        onward = sparse.csr_array(edges, shape=(e, c))
        back = onward.T
        gain = 1 / (1 - damping**2 * returned)
        mass = gain * source
        for _ in range(math.ceil(math.log(TOLERANCE) / math.log(damping**2)) if damping else 0):
            on_nodes = np.asarray(onward @ mass) / by_node
            mass = gain * (source + damping**2 * np.asarray(back @ on_nodes))
        return mass


def _consecutive_chunks(corpus: Corpus, passages: Int64) -> Int64:
    """(j, 2) positions of the passages that are consecutive chunks of one document."""
    chunks = corpus.chunks[passages].tolist()
    if not any(chunks):
        return np.empty((0, 2), np.int64)
    names = [(corpus.documents[row], n) for row, n in zip(passages.tolist(), chunks, strict=True)]
    positions = {name: position for position, name in enumerate(names)}
    pairs = [
        (position, positions[document, chunk + 1])
        for (document, chunk), position in positions.items()
        if (document, chunk + 1) in positions
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)
