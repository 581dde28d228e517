"""Features that combine two aspects of a question."""

from collections.abc import Callable
from functools import partial

from wye.featurizer.features.constituency import phrase_count, unit_count
from wye.featurizer.features.relation import most
from wye.featurizer.question import Feature, View, ratio

_feature = partial(Feature, group="interaction", source="Wye")


def _connectors(view: View) -> int:
    return view.pos["CCONJ"] + view.pos["SCONJ"]


def _per(
    name: str, unit: str, doc: str, above: Callable[[View], float], below: Callable[[View], float]
) -> Feature:
    return _feature(name, unit, doc, lambda view: ratio(above(view), below(view)))


def _times(
    name: str, doc: str, left: Callable[[View], float], right: Callable[[View], float]
) -> Feature:
    return _feature(name, "product", doc, lambda view: left(view) * right(view))


def _entities(view: View) -> int:
    return len(view.naming.entities)


def _tokens(view: View) -> int:
    return len(view.tokens)


_links, _depth = most("links"), most("depth")
_clauses, _noun_phrases = unit_count("clauses"), phrase_count("NP")

OF_TREES = (
    "tokens_per_clause",
    "entities_per_clause",
    "tree_depth_per_token",
    "connectors_per_clause",
    "noun_phrases_per_clause",
    "noun_phrases_per_entity",
)
"""Features that need a constituency tree."""

FEATURES = (
    _per(
        "tokens_per_clause",
        "tokens per clause",
        "Tokens per clause; 0 without a clause.",
        _tokens,
        _clauses,
    ),
    _per(
        "entities_per_token",
        "entities per token",
        "Named entities per token; 0 without a token.",
        _entities,
        _tokens,
    ),
    _per(
        "entities_per_clause",
        "entities per clause",
        "Named entities per clause; 0 without a clause.",
        _entities,
        _clauses,
    ),
    _per(
        "tree_depth_per_token",
        "levels per token",
        "Depth of the constituency tree for each token; 0 without a token.",
        lambda view: view.shape.depth,
        _tokens,
    ),
    _per(
        "dependency_depth_per_token",
        "arcs per token",
        "Depth of the dependency tree for each token; 0 without a token.",
        _depth,
        _tokens,
    ),
    _per(
        "connectors_per_clause",
        "words per clause",
        "Markers of coordination and subordination per clause; 0 without a clause.",
        _connectors,
        _clauses,
    ),
    _per(
        "noun_phrases_per_clause",
        "phrases per clause",
        "Noun phrases per clause; 0 without a clause.",
        _noun_phrases,
        _clauses,
    ),
    _per(
        "noun_phrases_per_entity",
        "phrases per entity",
        "Noun phrases for each named entity; 0 without an entity.",
        _noun_phrases,
        _entities,
    ),
    _per(
        "links_per_entity",
        "links per entity",
        "Links of the longest chain for each named entity; 0 without an entity.",
        _links,
        _entities,
    ),
    _per(
        "links_per_token",
        "links per token",
        "Links of the longest chain for each token; 0 without a token.",
        _links,
        _tokens,
    ),
    _per(
        "verbs_per_entity",
        "verbs per entity",
        "Verbs for each named entity; 0 without an entity.",
        lambda view: view.pos["VERB"],
        _entities,
    ),
    _per(
        "prepositions_per_noun",
        "words per noun",
        "Prepositions for each noun or name; 0 without any.",
        lambda view: view.pos["ADP"],
        lambda view: view.pos["NOUN"] + view.pos["PROPN"],
    ),
    _per(
        "descriptions_per_entity",
        "nouns per entity",
        "Definite descriptions without a name for each named entity; 0 without an entity.",
        lambda view: view.naming.descriptions,
        _entities,
    ),
    _times(
        "entities_times_links",
        "Named entities times the links of the longest chain.",
        _entities,
        _links,
    ),
    _times(
        "descriptions_times_links",
        "Definite descriptions times the links of the longest chain.",
        lambda view: view.naming.descriptions,
        _links,
    ),
    _times(
        "entities_times_depth",
        "Named entities times the depth of the dependency tree.",
        _entities,
        _depth,
    ),
)
