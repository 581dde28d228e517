"""Features of the constituency trees: Lu's units, his fourteen ratios of them, and phrases.

X. Lu, "Automatic analysis of syntactic complexity in second language writing", International
Journal of Corpus Linguistics 15(4), 2010, table 1. Phrases have the labels of the Penn Treebank.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.constituency.units import UNITS
from wye.featurizer.question import Feature, View, ratio

_feature = partial(Feature, group="constituency")

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
    return _feature(
        f"{above}_per_{single.lower().replace('-', '_')}",
        f"{name}: {doc}; 0 without a {single}.",
        lambda view: ratio(view.units[above], view.units[below]),
    )


FEATURES = (
    *(_feature(name, doc, unit_count(name)) for name, doc in UNITS.items()),
    *(_index(*row) for row in _INDICES),
    *(_feature(name, doc, phrase_count(*labels)) for name, doc, labels in _PHRASES),
    _feature(
        "nominal_prepositions",
        "Prepositional phrases within a noun phrase (PP under NP): the river of the town.",
        lambda view: view.shape.nominal_prepositions,
    ),
)
