"""Personalized PageRank on the graph of a question: its passages and what they mention.

A walk with damping d from restart distribution r settles at x = (1 - d) r + d P x, where P moves
mass from a node to its neighbours in proportion to edge weight. The graph is bipartite, so the
entities can be eliminated:

    x_p = (1 - d) (r_p + d A r_e) + d^2 A B x_p        A: entity -> passage, B: passage -> entity

A B is symmetric with eigenvalues in [0, 1], so I - d^2 A B has its in [1 - d^2, 1], and Chebyshev
iteration (Saad, Iterative Methods for Sparse Linear Systems, algorithm 12.1) needs five steps where
repeating the equation needs nine.

After the walk, a passage moves up if one of the first passages mentions its title. The walk shares
out the mass of a passage among all that it mentions, so the passage about one of the names in it
may get little. A passage that the best ones name is often the next piece of evidence, the more so
if few others name it.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from wye.backends.arrays import first_of_each, located, ranges, sums
from wye.backends.numerics import top_rows
from wye.backends.trigraph.question import MOST_NAMING, Edges, PassageSource
from wye.backends.types import Float64, Int64

Masses = tuple[Int64, Float64]  # distinct entities or passages, in order, and their mass

TOLERANCE = 1e-5  # share of the mass that is not followed any further

PROMOTING = 5  # how many of the first passages promote others


def walk(edges: Edges, ties: Int64, prior: Float64, restart: Masses, damping: float) -> Float64:
    """(c,) probability mass on the passages of a graph.

    Args:
        ties: (j, 2) positions of passages, tied as by an entity that both mention once.
        prior: (c,) non-negative restart mass of the passages.
        restart: Restart mass of some entities, ascending; that of an entity without a mention here
            is left out. Both are normalised together; without any mass all stays zero. What would
            move on from a passage without entities is lost.
        damping: Probability of following an edge, in [0, 1).
    """
    c = len(prior)
    mentions = sums(edges.passage, edges.count, c) + np.bincount(ties.ravel(), minlength=c)
    order = np.argsort(edges.entity, kind="stable")
    entity = edges.entity[order]
    # Only entities that restart, or that several passages here mention, send mass elsewhere.
    is_used = located(entity, restart[0])[1]
    is_same = entity[1:] == entity[:-1]
    is_used[1:] |= is_same
    is_used[:-1] |= is_same
    used = order[is_used]
    entity = edges.entity[used]
    named = first_of_each(entity)
    passage = np.concatenate([edges.passage[used], ties.ravel()])
    count = np.concatenate([edges.count[used], np.ones(ties.size)])
    first = np.concatenate([named, np.arange(len(entity), len(passage), 2)])
    e, owner = len(first), np.arange(len(first)).repeat(np.diff(first, append=len(passage)))
    # An edge weighs an entity's share of all mentions in the passage (LinearRAG, section 3.1).
    share = count / mentions[passage]
    by_entity = sums(owner, share, e)
    position, is_here = located(restart[0], entity[named])
    position, mass = position[is_here], restart[1][is_here]
    of_entity = np.zeros(e)
    of_entity[position] = mass / by_entity[position]
    total = float(prior.sum() + mass.sum())
    source = prior + damping * sums(passage, share * of_entity[owner], c)
    source *= (1 - damping) / total if total > 0 else 0
    share /= np.sqrt(by_entity)[owner]
    # What a passage sends to any other entity comes back at once.
    returned = (mentions - sums(passage, count, c)) / np.maximum(mentions, 1)

    def followed(mass: Float64) -> Float64:
        on_entities = sums(owner, share * mass[passage], e)
        return returned * mass + sums(passage, share * on_entities[owner], c)

    return solved(source, followed, damping**2)


def solved(source: Float64, followed: Callable[[Float64], Float64], share: float) -> Float64:
    """Solve x = source + share * followed(x) by Chebyshev iteration; below 0 by rounding is 0.

    `followed` is a symmetric linear map with eigenvalues in [0, 1], and the share is in [0, 1).
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


class Promoted(NamedTuple):
    """A walk's mass (c,) after promotion, and the passage that names each that was moved up."""

    mass: Float64
    named_in: Mapping[int, int]


def promote(source: PassageSource, edges: Edges, mass: Float64, share: float) -> Promoted:
    """Promote passages whose titles the first ones mention, by a share from 0 to 1.

    If a passage with mass M is among the first and mentions the title of one with a lower mass, the
    latter gets `promoted` mass. Of several such masses the largest counts. So no passage overtakes
    the one that it was named in.
    """
    if not share:
        return Promoted(mass, {})
    is_first = np.zeros(len(mass), bool)
    is_first[top_rows(mass, PROMOTING)] = True
    naming = np.flatnonzero(is_first[edges.passage])
    degree = source.degree(edges.entity[naming])
    naming, degree = naming[degree <= MOST_NAMING], degree[degree <= MOST_NAMING]
    order = np.argsort(edges.title_entity, kind="stable")
    title_entity, titled = edges.title_entity[order], edges.title_passage[order]
    named = edges.entity[naming]
    begin, end = (np.searchsorted(title_entity, named, side) for side in ("left", "right"))
    name = np.repeat(np.arange(len(naming)), end - begin)
    passage, head = titled[ranges(begin, end)], edges.passage[naming[name]]
    # Of a name that is the title of the passage that mentions it, no other passage is the page.
    of_head = np.zeros(len(naming), bool)
    of_head[name[passage == head]] = True
    is_other = ~of_head[name]
    passage, head, name = passage[is_other], head[is_other], name[is_other]
    after, moved = promoted(mass, passage, mass[head], reach(share, degree[name]))
    titles, heads = (edges.passages[each[moved]].tolist() for each in (passage, head))
    return Promoted(after, dict(zip(titles, heads, strict=True)))


def reach(share: float, degree: Int64) -> Float64:
    """(e,) share / √(d - 1): how far titles that d passages mention or have move a passage up."""
    power: Float64 = share / np.sqrt(np.maximum(degree - 1, 1))
    return power


def promoted(
    mass: Float64, positions: Int64, source: Float64, power: Float64
) -> tuple[Float64, Int64]:
    """Masses m (r,) raised towards M of passages that name them: m · (M / m)^power; 0 stays 0.

    `positions` (p,) have titles that are mentioned, `source` (p,) is M, and `power` (p,) is from 0
    to 1, see `reach`. Also returns which of the p raised one.
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
