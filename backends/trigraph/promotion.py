"""Moves a passage up if one of the first passages mentions its title.

The walk shares out the mass of a passage among all that it mentions, so the passage about one of
the names in it may get little. A passage that the best ones name is often the next piece of
evidence, the more so if few others name it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backends.numerics import distinct, located, ranges, top_rows
from backends.types import Float64, Int64

if TYPE_CHECKING:
    from backends.store.snapshot import Corpus
    from backends.trigraph.graph import TriGraph
    from backends.trigraph.pagerank import Masses
    from backends.trigraph.retriever import FilteredGraph

FIRST = 5
"""How many of the first passages promote others."""


class Promoted(NamedTuple):
    """A walk's result after promotion.

    Attributes:
        settled: Passages, ascending, and the mass on each.
        named_in: Row of a passage that was moved up -> row of the one that mentions its title.
    """

    settled: "Masses"
    named_in: Mapping[int, int]


def promote(
    graph: "TriGraph", filtered: "FilteredGraph", corpus: "Corpus", settled: "Masses", share: float
) -> Promoted:
    """Promote passages whose titles the first ones mention.

    If a passage with mass M is among the first and mentions the title of one with a lower mass,
    the latter gets `promoted` mass. Of several such masses the largest counts. So no passage
    overtakes the one that it was named in.

    Args:
        settled: Passages, ascending, and the mass on each.
        share: From 0, which changes nothing, to 1.
    """
    if not share:
        return Promoted(settled, {})
    rows, mass = settled
    first = top_rows(mass, FIRST)
    by, entities = names_in(graph, corpus, rows[first])
    titled, over = filtered.titles(entities)
    name = np.repeat(np.arange(len(entities)), over)
    own = np.zeros(len(entities), bool)
    own[name[titled == rows[first][by[name]]]] = True
    places, known = located(titled, rows)
    known &= ~own[name]
    if not known.any():
        return Promoted(settled, {})
    source, power = first[by], reach(share, filtered.degree(entities))
    after, moved = promoted(mass, places[known], name[known], mass[source], power)
    named_in = {int(rows[place]): int(rows[source[own]]) for place, own in moved.items()}
    return Promoted((rows, after), named_in)


def names_in(graph: "TriGraph", corpus: "Corpus", rows: Int64) -> tuple[Int64, Int64]:
    """Entities that passages mention, their own titles among them.

    Returns:
        (e,) which of the passages, ascending, and (e,) an entity, each pair once.
    """
    owners = corpus.sentence_passage
    begin, end = np.searchsorted(owners, np.stack([rows, rows + 1]).astype(owners.dtype))
    sentences = ranges(begin, end)
    of = np.repeat(
        np.repeat(np.arange(len(rows)), end - begin), graph.mentions.entities.lengths(sentences)
    )
    pairs = distinct(of * len(graph) + graph.mentions.entities.of(sentences))
    by, entities = np.divmod(pairs, max(len(graph), 1))
    return by, entities


def reach(share: float, degree: Int64) -> Float64:
    """(e,) share / √(d - 1): how far names of titles move a passage up.

    Args:
        share: From 0 to 1.
        degree: (e,) d, how many passages mention each title or have it.
    """
    found: Float64 = share / np.sqrt(np.maximum(degree - 1, 1))
    return found


def promoted(
    mass: Float64, places: Int64, names: Int64, source: Float64, power: Float64
) -> tuple[Float64, dict[int, int]]:
    """Raise masses m towards the masses M of passages that name them: m · (M / m)^power.

    Args:
        mass: (r,) masses of passages; 0 stays 0.
        places: (p,) positions of passages whose title is mentioned.
        names: (p,) which mention each is about.
        source: (e,) M for each mention; a smaller one changes nothing.
        power: (e,) from 0 to 1; see `reach`.

    Returns:
        (r,) masses, and position -> mention for those that were raised.
    """
    own = mass[places]
    ratio = np.maximum(source[names] / np.where(own > 0, own, np.inf), 1)
    found = own * ratio ** power[names]
    after = mass.copy()
    np.maximum.at(after, places, found)
    moved = (found == after[places]) & (found > own)
    return after, dict(zip(places[moved].tolist(), names[moved].tolist(), strict=True))
