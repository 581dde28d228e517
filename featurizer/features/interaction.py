"""Features that combine two aspects of a question."""

from collections.abc import Callable, Mapping
from functools import partial

from wye.featurizer.features.constituency import phrase_count, unit_count
from wye.featurizer.features.relation import most
from wye.featurizer.question import Feature, View, ratio

_OF_TREES: Mapping[str, Callable[[View], float]] = {
    "clauses": unit_count("clauses"),
    "levels": lambda view: view.shape.depth,
    "noun phrases": phrase_count("NP"),
}
_COUNTS: Mapping[str, Callable[[View], float]] = {
    **_OF_TREES,
    "tokens": lambda view: len(view.tokens),
    "entities": lambda view: len(view.naming.entities),
    "descriptions": lambda view: view.naming.descriptions,
    "links": most("links"),
    "arcs": most("depth"),
}
"""Quantity that features divide or multiply -> its value. "links" are those of the longest chain,
"arcs" and "levels" the depths of the dependency and of the constituency tree."""
_RATIOS = (
    ("tokens_per_clause", "Tokens per clause", "tokens", "clauses"),
    ("entities_per_token", "Named entities per token", "entities", "tokens"),
    ("entities_per_clause", "Named entities per clause", "entities", "clauses"),
    ("tree_depth_per_token", "Depth of the constituency tree for each token", "levels", "tokens"),
    ("dependency_depth_per_token", "Depth of the dependency tree for each token", "arcs", "tokens"),
    ("noun_phrases_per_clause", "Noun phrases per clause", "noun phrases", "clauses"),
    ("noun_phrases_per_entity", "Noun phrases for each named entity", "noun phrases", "entities"),
    ("links_per_entity", "Links of the longest chain for each named entity", "links", "entities"),
    ("links_per_token", "Links of the longest chain for each token", "links", "tokens"),
    (
        "descriptions_per_entity",
        "Definite descriptions without a name for each named entity",
        "descriptions",
        "entities",
    ),
)
_WITHOUT = {"tokens": "a token", "clauses": "a clause", "entities": "an entity"}
_feature = partial(Feature, group="interaction")


def _ratio(name: str, doc: str, above: str, below: str) -> Feature:
    over, under = _COUNTS[above], _COUNTS[below]
    doc = f"{doc}; 0 without {_WITHOUT[below]}."
    return _feature(name, doc, lambda view: ratio(over(view), under(view)))


def _product(name: str, doc: str, left: str, right: str) -> Feature:
    one, other = _COUNTS[left], _COUNTS[right]
    return _feature(name, doc, lambda view: one(view) * other(view))


FEATURES = (
    *(_ratio(*row) for row in _RATIOS),
    _product(
        "entities_times_links",
        "Named entities times the links of the longest chain.",
        "entities",
        "links",
    ),
    _product(
        "descriptions_times_links",
        "Definite descriptions times the links of the longest chain.",
        "descriptions",
        "links",
    ),
    _product(
        "entities_times_depth",
        "Named entities times the depth of the dependency tree.",
        "entities",
        "arcs",
    ),
)
OF_TREES = frozenset(name for name, _, *counts in _RATIOS if {*_OF_TREES}.intersection(counts))
"""Features that need a constituency tree."""
