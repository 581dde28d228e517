"""Features that tell a chain of facts from a single fact: links, distances, descriptions.

A link is an arc from one thing to another: a possessive, a preposition between nouns, a relative
clause, or a participle that modifies a noun. "The father of the director of Alien" is a chain of
two.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, mean


def most(name: str) -> Callable[[View], float]:
    """The largest value of a list of `Arcs`."""
    return lambda view: max(getattr(view.arcs, name), default=0)


def _links(view: View) -> float:
    """Number of arcs that are links: those where the number of links to the root increases."""
    links, tokens = view.arcs.links, view.tokens
    return sum(links[position] - links[token.head] for position, token in enumerate(tokens))


def _entity_links(view: View) -> list[int]:
    return [view.arcs.links[position] for position in view.naming.heads]


def _pairwise(view: View) -> float:
    heads = view.naming.heads[:8]
    steps = [
        view.arcs.steps(view.tokens, head, other)
        for position, head in enumerate(heads)
        for other in heads[:position]
    ]
    return mean(steps)


def _offset(view: View) -> float:
    position = view.question_word
    if position < 0:
        return 0.0
    return min((abs(head - position) for head in view.naming.heads), default=0)


_feature = partial(Feature, group="relation")

FEATURES = (
    _feature("relation_links", "Links of any kind.", _links),
    _feature("relation_chain_max", "Links in the longest chain.", most("links")),
    _feature("of_chain_max", "The same, of links by of alone.", most("ofs")),
    _feature(
        "entity_chain_max",
        "Links between the root and the entity that is behind the most; 0 without an entity.",
        lambda view: max(_entity_links(view), default=0),
    ),
    _feature(
        "entity_chain_mean",
        "Mean number of links between the root and an entity; 0 without an entity.",
        lambda view: mean(_entity_links(view)),
    ),
    _feature(
        "entity_reach_min",
        "Arcs from what is asked to the nearest entity; 0 without an entity.",
        lambda view: min(view.reach, default=0),
    ),
    _feature(
        "entity_reach_max",
        "Arcs from what is asked to the farthest entity; 0 without an entity.",
        lambda view: max(view.reach, default=0),
    ),
    _feature(
        "entity_reach_mean",
        "Mean number of arcs from what is asked to an entity; 0 without an entity.",
        lambda view: mean(view.reach),
    ),
    _feature(
        "entity_offset_min",
        "Tokens from the question word to the nearest entity; 0 without either.",
        _offset,
    ),
    _feature(
        "entity_pair_distance",
        "Mean number of arcs between two of the first eight entities; 0 with fewer than two.",
        _pairwise,
    ),
    _feature(
        "descriptions_relational",
        "Definite descriptions without a name (the river) that a clause, participle or preposition "
        "modifies.",
        lambda view: view.naming.relational,
    ),
    _feature(
        "question_word_place",
        "Tokens before the question word: in the film of which director; 0 without one.",
        lambda view: max(view.question_word, 0),
    ),
)
