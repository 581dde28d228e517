"""Features of the constituency trees: Lu's units, his fourteen ratios of them, phrases, and shape.

X. Lu, "Automatic analysis of syntactic complexity in second language writing", International
Journal of Corpus Linguistics 15(4), 2010, table 1. Phrases have the labels of the Penn Treebank.
Yngve depth: V. Yngve, "A model and an hypothesis for language structure", 1960.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.constituency.units import UNITS
from wye.featurizer.question import Feature, View, mean, ratio

_constituency = partial(Feature, group="constituency")
_tree = partial(Feature, group="tree")

# Published name, meaning, and the `UNITS` above and below the line.
_INDICES = (
    ("MLS", "Mean length of a sentence, in words", "words", "sentences"),
    ("MLT", "Mean length of a T-unit, in words", "words", "t_units"),
    ("MLC", "Mean length of a clause, in words", "words", "clauses"),
    ("C/S", "Clauses per sentence", "clauses", "sentences"),
    ("VP/T", "Verb phrases per T-unit", "verb_phrases", "t_units"),
    ("C/T", "Clauses per T-unit", "clauses", "t_units"),
    ("DC/C", "Dependent clauses per clause", "dependent_clauses", "clauses"),
    ("DC/T", "Dependent clauses per T-unit", "dependent_clauses", "t_units"),
    ("T/S", "T-units per sentence", "t_units", "sentences"),
    ("CT/T", "Share of the T-units that are complex", "complex_t_units", "t_units"),
    ("CP/T", "Coordinate phrases per T-unit", "coordinate_phrases", "t_units"),
    ("CP/C", "Coordinate phrases per clause", "coordinate_phrases", "clauses"),
    ("CN/T", "Complex nominals per T-unit", "complex_nominals", "t_units"),
    ("CN/C", "Complex nominals per clause", "complex_nominals", "clauses"),
)
_SINGULAR = {"sentences": "sentence", "clauses": "clause", "t_units": "T-unit"}
_PHRASES = (
    ("noun_phrases", "Noun phrases (NP), those within others included.", ("NP",)),
    ("prepositional_phrases", "Prepositional phrases (PP).", ("PP",)),
    ("modifier_phrases", "Adjective and adverb phrases (ADJP, ADVP).", ("ADJP", "ADVP")),
)


def unit_count(unit: str) -> Callable[[View], float]:
    """How often one of Lu's units occurs."""
    return lambda view: view.units[unit]


def phrase_count(*labels: str) -> Callable[[View], float]:
    """How many phrases have one of the labels."""
    return lambda view: sum(view.shape.labels[label] for label in labels)


def _index(name: str, doc: str, above: str, below: str) -> Feature:
    single = _SINGULAR[below]
    return _constituency(
        f"{above}_per_{single.lower().replace('-', '_')}",
        f"{name}: {doc}; 0 without a {single}.",
        lambda view: ratio(view.units[above], view.units[below]),
    )


FEATURES = (
    *(_constituency(name, doc, unit_count(name)) for name, doc in UNITS.items()),
    *(_index(*row) for row in _INDICES),
    *(_constituency(name, doc, phrase_count(*labels)) for name, doc, labels in _PHRASES),
    _constituency(
        "nominal_prepositions",
        "Prepositional phrases within a noun phrase (PP under NP): the river of the town.",
        lambda view: view.shape.nominal_prepositions,
    ),
    # Their shape, regardless of labels
    _tree("tree_depth", "Depth of the deepest tag.", lambda view: view.shape.depth),
    _tree(
        "tree_depth_mean",
        "Mean depth of the tags; 0 without any.",
        lambda view: mean(view.shape.depths),
    ),
    _tree(
        "tree_width",
        "Most nodes at one depth, all sentences together.",
        lambda view: view.shape.width,
    ),
    _tree(
        "tree_depth_to_width",
        "Depth over width; 0 without a tree.",
        lambda view: ratio(view.shape.depth, view.shape.width),
    ),
    _tree("tree_phrases", "Phrases below the root.", lambda view: view.shape.phrases),
    _tree(
        "tree_phrases_per_tag",
        "Phrases for each tag; 0 without any.",
        lambda view: ratio(view.shape.phrases, len(view.shape.depths)),
    ),
    _tree(
        "tree_leaf_ratio",
        "Tags among all nodes; 0 without a tree.",
        lambda view: ratio(len(view.shape.depths), view.shape.nodes),
    ),
    _tree(
        "tree_branching_mean",
        "Mean number of children of a phrase, the root included; 0 without a tree.",
        lambda view: mean(view.shape.branches),
    ),
    _tree(
        "tree_branching_max",
        "Most children of one phrase.",
        lambda view: max(view.shape.branches, default=0),
    ),
    _tree(
        "tree_yngve_mean",
        "Mean over the tags of the sisters still to come on the way down; 0 without a tag.",
        lambda view: mean(view.shape.yngve),
    ),
    _tree(
        "tree_yngve_max",
        "The same for the tag with the most.",
        lambda view: max(view.shape.yngve, default=0),
    ),
    _tree(
        "noun_phrase_nesting",
        "Noun phrases within each other, at most.",
        lambda view: view.shape.nesting["NP"],
    ),
    _tree(
        "prepositional_nesting",
        "Prepositional phrases within each other, at most: of the capital of the country.",
        lambda view: view.shape.nesting["PP"],
    ),
)
