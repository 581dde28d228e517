"""Moves a passage up if one of the first passages mentions its title.

The walk shares out the mass of a passage among all that it mentions, so the passage about one of
the names in it may get little. A passage that the best ones name is often the next piece of
evidence, the more so if few others name it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wye.backends.numerics import located, top_rows
from wye.backends.trigraph.graph import FilteredGraph, TriGraph, counted
from wye.backends.trigraph.walk import Masses
from wye.backends.types import Float64, Int64

FIRST = 5
"""How many of the first passages promote others."""

MOST = 100
"""Passages may mention a title before it promotes none: at .5 it would move them by a twentieth."""


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
    firsts = [top_rows(mass, FIRST) for _, mass in walks]
    heads = np.concatenate([rows[first] for (rows, _), first in zip(walks, firsts, strict=True)])
    position, entities, _ = counted(*graph.entities_of(heads), len(graph))
    degree = filtered.degree(entities)
    position, entities, degree = (array[degree <= MOST] for array in (position, entities, degree))
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
