"""Features of the constituency trees: Lu's units, his fourteen ratios of them, and phrases.

X. Lu, "Automatic analysis of syntactic complexity in second language writing", International
Journal of Corpus Linguistics 15(4), 2010, table 1.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, ratio

_LU = "Lu 2010"
_feature = partial(Feature, group="constituency", source=_LU)

_UNITS = (
    ("words", "words", "Words (W), by the trees' tags."),
    ("sentences", "sentences", "Sentences (S)."),
    ("clauses", "clauses", "Clauses (C): with a finite verb, or a fragment at the root."),
    ("dependent_clauses", "clauses", "Dependent clauses (DC)."),
    ("t_units", "T-units", "T-units (T): main clauses with all that depends on them."),
    ("complex_t_units", "T-units", "T-units that hold a dependent clause (CT)."),
    ("coordinate_phrases", "phrases", "Coordinate phrases (CP)."),
    ("complex_nominals", "nominals", "Complex nominals (CN): modified nouns, nominal clauses."),
    ("verb_phrases", "phrases", "Verb phrases (VP), finite or not."),
)
# Published name, meaning, and the fields of `SyntacticUnits` for numerator and denominator.
_INDICES = (
    ("MLS", "Mean length of a sentence, in words.", "words", "sentences"),
    ("MLT", "Mean length of a T-unit, in words.", "words", "t_units"),
    ("MLC", "Mean length of a clause, in words.", "words", "clauses"),
    ("C/S", "Clauses per sentence.", "clauses", "sentences"),
    ("VP/T", "Verb phrases per T-unit.", "verb_phrases", "t_units"),
    ("C/T", "Clauses per T-unit.", "clauses", "t_units"),
    ("DC/C", "Dependent clauses per clause.", "dependent_clauses", "clauses"),
    ("DC/T", "Dependent clauses per T-unit.", "dependent_clauses", "t_units"),
    ("T/S", "T-units per sentence.", "t_units", "sentences"),
    ("CT/T", "Share of the T-units that are complex.", "complex_t_units", "t_units"),
    ("CP/T", "Coordinate phrases per T-unit.", "coordinate_phrases", "t_units"),
    ("CP/C", "Coordinate phrases per clause.", "coordinate_phrases", "clauses"),
    ("CN/T", "Complex nominals per T-unit.", "complex_nominals", "t_units"),
    ("CN/C", "Complex nominals per clause.", "complex_nominals", "clauses"),
)
_SINGULAR = {"sentences": "sentence", "clauses": "clause", "t_units": "T-unit"}


def unit_count(field: str) -> Callable[[View], float]:
    """How often one of Lu's units occurs."""
    return lambda view: getattr(view.units, field)


def phrase_count(*labels: str) -> Callable[[View], float]:
    """How many phrases have one of the labels."""
    return lambda view: sum(view.shape.labels[label] for label in labels)


def _index(name: str, doc: str, above: str, below: str) -> Feature:
    counted = above.replace("t_units", "T-units").replace("_", " ")
    single = _SINGULAR[below]
    return _feature(
        f"{above}_per_{single.lower().replace('-', '_')}",
        f"{counted} per {single}",
        f"{name}: {doc[:-1]}; 0 without a {single}.",
        lambda view: ratio(getattr(view.units, above), getattr(view.units, below)),
        source=f"{_LU}, table 1",
    )


def _phrases(name: str, doc: str, value: Callable[[View], float]) -> Feature:
    return _feature(name, "phrases", doc, value, source="Penn Treebank labels")


FEATURES = (
    *(_feature(name, unit, doc, unit_count(name)) for name, unit, doc in _UNITS),
    *(_index(*row) for row in _INDICES),
    _phrases(
        "noun_phrases", "Noun phrases (NP), those within others included.", phrase_count("NP")
    ),
    _phrases("prepositional_phrases", "Prepositional phrases (PP).", phrase_count("PP")),
    _phrases("clause_phrases", "Subordinate clauses of any kind (SBAR).", phrase_count("SBAR")),
    _phrases(
        "wh_phrases",
        "Phrases with a question word or relative pronoun (WHNP, WHADVP, WHPP, WHADJP).",
        phrase_count("WHNP", "WHADVP", "WHPP", "WHADJP"),
    ),
    _phrases(
        "modifier_phrases",
        "Adjective and adverb phrases (ADJP, ADVP).",
        phrase_count("ADJP", "ADVP"),
    ),
    _phrases(
        "nominal_clauses",
        "Subordinate clauses within a noun phrase (SBAR under NP), relative ones above all.",
        lambda view: view.shape.pairs["NP", "SBAR"],
    ),
    _phrases(
        "nominal_prepositions",
        "Prepositional phrases within a noun phrase (PP under NP): the river of the town.",
        lambda view: view.shape.pairs["NP", "PP"],
    ),
    _phrases(
        "participial_phrases",
        "Participles that modify a noun (VP under NP): the bridge built in 1926.",
        lambda view: view.shape.participles,
    ),
    _phrases(
        "infinitive_phrases",
        "Verb phrases with to: the first person to cross it.",
        lambda view: view.shape.infinitives,
    ),
    _feature(
        "flat_trees",
        "sentences",
        "Sentences without a tree, too long or beyond the model; they count as one flat phrase.",
        lambda view: sum(view.syntax.flat),
        source="Wye",
    ),
)
