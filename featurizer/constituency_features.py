"""Features of what the constituency trees consist of: Lu's units and ratios, and phrases."""

from collections.abc import Callable

from featurizer.complexity import INDICES, Index
from featurizer.feature import Feature
from featurizer.view import View

GROUP = "constituency"
_LU = "Lu 2010"

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
_SINGULAR = {"sentences": "sentence", "clauses": "clause", "t_units": "T-unit"}


def _unit(field: str) -> Callable[[View], float]:
    return lambda view: float(getattr(view.units, field))


def _index(index: Index) -> Callable[[View], float]:
    return lambda view: index.value(view.units)


def _labels(*labels: str) -> Callable[[View], float]:
    return lambda view: float(sum(view.shape.labels[label] for label in labels))


def _index_feature(index: Index) -> Feature:
    below = _SINGULAR[index.below]
    above = index.above.replace("t_units", "T-units").replace("_", " ")
    return Feature(
        f"{index.above}_per_{below.lower().replace('-', '_')}",
        GROUP,
        f"{above} a {below}",
        f"{index.name}: {index.doc[:-1]}; 0 without a {below}.",
        f"{_LU}, table 1",
        _index(index),
    )


def _phrases(name: str, doc: str, value: Callable[[View], float]) -> Feature:
    return Feature(name, GROUP, "phrases", doc, "Penn Treebank labels", value)


FEATURES = (
    *(Feature(name, GROUP, unit, doc, _LU, _unit(name)) for name, unit, doc in _UNITS),
    *map(_index_feature, INDICES),
    _phrases("noun_phrases", "Noun phrases (NP), those within others included.", _labels("NP")),
    _phrases("prepositional_phrases", "Prepositional phrases (PP).", _labels("PP")),
    _phrases("clause_phrases", "Subordinate clauses of any kind (SBAR).", _labels("SBAR")),
    _phrases(
        "wh_phrases",
        "Phrases with a question word or relative pronoun (WHNP, WHADVP, WHPP, WHADJP).",
        _labels("WHNP", "WHADVP", "WHPP", "WHADJP"),
    ),
    _phrases(
        "modifier_phrases", "Adjective and adverb phrases (ADJP, ADVP).", _labels("ADJP", "ADVP")
    ),
    _phrases(
        "nominal_clauses",
        "Subordinate clauses within a noun phrase (SBAR under NP), relative ones above all.",
        lambda view: float(view.shape.pairs["NP", "SBAR"]),
    ),
    _phrases(
        "nominal_prepositions",
        "Prepositional phrases within a noun phrase (PP under NP): the river of the town.",
        lambda view: float(view.shape.pairs["NP", "PP"]),
    ),
    _phrases(
        "participial_phrases",
        "Participles that mark a noun out (VP under NP): the bridge built in 1926.",
        lambda view: float(view.shape.participles),
    ),
    _phrases(
        "infinitive_phrases",
        "Verb phrases with to: the first person to cross it.",
        lambda view: float(view.shape.infinitives),
    ),
    Feature(
        "flat_trees",
        GROUP,
        "sentences",
        "Sentences without a tree, too long or beyond the model; they count as one flat phrase.",
        "Wye",
        lambda view: float(sum(view.syntax.flat)),
    ),
)
