"""Features that tell a chain of facts from a single fact: relations, descriptions, comparisons.

A link is an arc from one thing to another: a possessive, a preposition between nouns, a relative
clause, or a participle that modifies a noun. "The father of the director of Alien" is a chain of
two.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, mean, words

_SUPERLATIVE = words("first last earliest latest oldest youngest only most least")
_SHARED = words("both same either also common together shared each")


def most(name: str) -> Callable[[View], float]:
    """The largest value of a list of `Arcs`."""
    return lambda view: max(getattr(view.arcs, name), default=0)


def _links(view: View) -> float:
    """Number of arcs that are links: those where the number of links to the root increases."""
    links, tokens = view.arcs.links, view.tokens
    return sum(links[position] - links[token.head] for position, token in enumerate(tokens))


def _entity_links(view: View) -> list[int]:
    return [view.arcs.links[position] for position in view.naming.heads]


def _coordinated(view: View) -> float:
    heads = frozenset(view.naming.heads)
    pairs = (
        position
        for position in view.naming.heads
        if view.tokens[position].dep == "conj" and view.tokens[position].head in heads
    )
    return sum(1 for _ in pairs)


def _choice(view: View) -> float:
    """How often "or" joins nouns, names, numbers or adjectives."""
    return sum(
        token.text.lower() == "or"
        and token.dep == "cc"
        and view.tokens[token.head].pos in ("NOUN", "PROPN", "NUM", "ADJ")
        for token in view.tokens
    )


def _marked(listed: frozenset[str], *tags: str) -> Callable[[View], float]:
    return lambda view: sum(
        token.tag in tags or token.text.lower() in listed for token in view.words
    )


def _pairwise(view: View) -> float:
    heads = view.naming.heads[:8]
    steps = [
        view.arcs.steps(view.tokens, head, other)
        for position, head in enumerate(heads)
        for other in heads[:position]
    ]
    return mean(steps)


def _offset(view: View) -> float:
    """Tokens between the question word and the nearest entity."""
    position = view.asking.position
    if position < 0:
        return 0.0
    return min((abs(head - position) for head in view.naming.heads), default=0)


def _embedded_verbs(view: View) -> float:
    return sum(
        token.pos in ("VERB", "AUX")
        and token.head != position
        and token.dep not in ("aux", "auxpass")
        for position, token in enumerate(view.tokens)
    )


_feature = partial(Feature, group="relation", source="Wye")

FEATURES = (
    _feature("relation_links", "links", "Links of any kind.", _links),
    _feature("relation_chain_max", "links", "Links in the longest chain.", most("links")),
    _feature("of_chain_max", "links", "The same, of links by of alone.", most("ofs")),
    _feature("possessive_chain_max", "links", "The same, of possessives alone.", most("owners")),
    _feature(
        "entity_chain_max",
        "links",
        "Links between the root and the entity that is behind the most; 0 without an entity.",
        lambda view: max(_entity_links(view), default=0),
    ),
    _feature(
        "entity_chain_mean",
        "links",
        "Mean number of links between the root and an entity; 0 without an entity.",
        lambda view: mean(_entity_links(view)),
    ),
    _feature(
        "entity_reach_min",
        "arcs",
        "Arcs from what is asked to the nearest entity; 0 without an entity.",
        lambda view: min(view.reach, default=0),
    ),
    _feature(
        "entity_reach_max",
        "arcs",
        "Arcs from what is asked to the farthest entity; 0 without an entity.",
        lambda view: max(view.reach, default=0),
    ),
    _feature(
        "entity_reach_mean",
        "arcs",
        "Mean number of arcs from what is asked to an entity; 0 without an entity.",
        lambda view: mean(view.reach),
    ),
    _feature(
        "entity_offset_min",
        "tokens",
        "Tokens from the question word to the nearest entity; 0 without either.",
        _offset,
    ),
    _feature(
        "entity_pair_distance",
        "arcs",
        "Mean number of arcs between two of the first eight entities; 0 with fewer than two.",
        _pairwise,
    ),
    _feature(
        "entities_coordinated",
        "entities",
        "Entities that are coordinated with another: Oslo and Bergen.",
        _coordinated,
    ),
    _feature("choices", "words", "Or between nouns, names, numbers or adjectives.", _choice),
    _feature(
        "comparatives",
        "words",
        "Comparative forms, and than.",
        _marked(frozenset({"than"}), "JJR", "RBR"),
    ),
    _feature(
        "superlatives",
        "words",
        "Superlative forms, and first, last and only.",
        _marked(_SUPERLATIVE, "JJS", "RBS"),
    ),
    _feature(
        "sharing_words",
        "words",
        "Words that ask what things share: both, same, also.",
        _marked(_SHARED),
    ),
    _feature(
        "descriptions",
        "nouns",
        "Definite descriptions without a name: the river.",
        lambda view: view.naming.descriptions,
    ),
    _feature(
        "descriptions_relational",
        "nouns",
        "Of these, those that a clause, participle or preposition modifies.",
        lambda view: view.naming.relational,
    ),
    _feature(
        "embedded_verbs",
        "verbs",
        "Verbs that depend on another word, auxiliaries left out.",
        _embedded_verbs,
    ),
    _feature(
        "target_noun_modifiers",
        "tokens",
        "Dependents of the noun that is asked for: which old bridge over the Neva; 0 without one.",
        lambda view: len(view.arcs.children[view.asking.noun]) if view.asking.noun >= 0 else 0,
    ),
    _feature(
        "question_word_place",
        "tokens",
        "Tokens before the question word: in the film of which director; 0 without one.",
        lambda view: max(view.asking.position, 0),
    ),
)
