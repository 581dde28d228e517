"""Features that combine two aspects of a question."""

from collections.abc import Callable
from dataclasses import dataclass

from wye.featurizer.features.constituency import phrase_count, unit_count
from wye.featurizer.features.relation import most
from wye.featurizer.question import Feature, View, ratio


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount that features divide or multiply.

    Attributes:
        unit: What it counts, in the plural; `singular` is that, for what is divided by.
        none: What there is none of where a ratio is 0.
    """

    unit: str
    value: Callable[[View], float]
    singular: str = ""
    none: str = ""


_TOKENS = Amount("tokens", lambda view: len(view.tokens), "token", "a token")
_CLAUSES = Amount("clauses", unit_count("clauses"), "clause", "a clause")
_ENTITIES = Amount("entities", lambda view: len(view.naming.entities), "entity", "an entity")
_NOUNS = Amount("nouns", lambda view: view.pos["NOUN"] + view.pos["PROPN"], "noun", "any")
_CONNECTORS = Amount("words", lambda view: view.pos["CCONJ"] + view.pos["SCONJ"])
_PREPOSITIONS = Amount("words", lambda view: view.pos["ADP"])
_VERBS = Amount("verbs", lambda view: view.pos["VERB"])
_NOUN_PHRASES = Amount("phrases", phrase_count("NP"))
_DESCRIPTIONS = Amount("nouns", lambda view: view.naming.descriptions)
_LINKS = Amount("links", most("links"))
_ARCS = Amount("arcs", most("depth"))
_LEVELS = Amount("levels", lambda view: view.shape.depth)

OF_TREES = (
    "tokens_per_clause",
    "entities_per_clause",
    "tree_depth_per_token",
    "connectors_per_clause",
    "noun_phrases_per_clause",
    "noun_phrases_per_entity",
)
"""Features that need a constituency tree."""

_RATIOS = (
    ("tokens_per_clause", "Tokens per clause", _TOKENS, _CLAUSES),
    ("entities_per_token", "Named entities per token", _ENTITIES, _TOKENS),
    ("entities_per_clause", "Named entities per clause", _ENTITIES, _CLAUSES),
    ("tree_depth_per_token", "Depth of the constituency tree for each token", _LEVELS, _TOKENS),
    ("dependency_depth_per_token", "Depth of the dependency tree for each token", _ARCS, _TOKENS),
    (
        "connectors_per_clause",
        "Markers of coordination and subordination per clause",
        _CONNECTORS,
        _CLAUSES,
    ),
    ("noun_phrases_per_clause", "Noun phrases per clause", _NOUN_PHRASES, _CLAUSES),
    ("noun_phrases_per_entity", "Noun phrases for each named entity", _NOUN_PHRASES, _ENTITIES),
    ("links_per_entity", "Links of the longest chain for each named entity", _LINKS, _ENTITIES),
    ("links_per_token", "Links of the longest chain for each token", _LINKS, _TOKENS),
    ("verbs_per_entity", "Verbs for each named entity", _VERBS, _ENTITIES),
    ("prepositions_per_noun", "Prepositions for each noun or name", _PREPOSITIONS, _NOUNS),
    (
        "descriptions_per_entity",
        "Definite descriptions without a name for each named entity",
        _DESCRIPTIONS,
        _ENTITIES,
    ),
)
_PRODUCTS = (
    ("entities_times_links", "Named entities", "links of the longest chain", _ENTITIES, _LINKS),
    (
        "descriptions_times_links",
        "Definite descriptions",
        "links of the longest chain",
        _DESCRIPTIONS,
        _LINKS,
    ),
    ("entities_times_depth", "Named entities", "depth of the dependency tree", _ENTITIES, _ARCS),
)


def _feature(name: str, unit: str, doc: str, value: Callable[[View], float]) -> Feature:
    return Feature(name, unit, doc, value, group="interaction", source="Wye")


def _ratio(name: str, doc: str, above: Amount, below: Amount) -> Feature:
    return _feature(
        name,
        f"{above.unit} per {below.singular}",
        f"{doc}; 0 without {below.none}.",
        lambda view: ratio(above.value(view), below.value(view)),
    )


def _product(name: str, doc: str, other: str, left: Amount, right: Amount) -> Feature:
    return _feature(
        name,
        "product",
        f"{doc} times the {other}.",
        lambda view: left.value(view) * right.value(view),
    )


FEATURES = (*(_ratio(*row) for row in _RATIOS), *(_product(*row) for row in _PRODUCTS))
