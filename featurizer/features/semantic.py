"""Features of the entities in a question, of what it asks for, and of semantic roles."""

from collections.abc import Callable
from functools import partial

from wye.featurizer.features.dependency import arc_count
from wye.featurizer.question import Feature, View, ratio, words

_ONTONOTES = "OntoNotes labels"
_FLAG = "0 or 1"

_KINDS = (
    ("person", "Entities that are people.", ("PERSON",)),
    ("organisation", "Entities that are organisations.", ("ORG",)),
    ("place", "Entities that are places or buildings.", ("GPE", "LOC", "FAC")),
    (
        "group",
        "Entities that are nationalities, religions, parties or languages.",
        ("NORP", "LANGUAGE"),
    ),
    (
        "work",
        "Entities that are works, products, laws or events.",
        ("WORK_OF_ART", "PRODUCT", "LAW", "EVENT"),
    ),
    ("time", "Entities that are dates or times.", ("DATE", "TIME")),
    ("quantity", "Entities that are amounts.", ("QUANTITY", "MONEY", "PERCENT")),
)
_FORMS = ("who", "what", "which", "when", "where", "why", "how", "how many", "yes or no", "none")
_TARGETS = ("person", "place", "time", "number", "thing", "reason")
_TEMPORAL = words(
    "before after during since until when while ago year century date month day first last "
    "earlier later"
)
_LOCATIVE = words("in at near where within inside between across beneath under above")
_NEGATIONS = words("no not n't n\u2019t never none nor neither without")


def _entities(labels: tuple[str, ...]) -> Callable[[View], float]:
    return lambda view: sum(label in labels for label in view.naming.labels)


def _asks(kind: str) -> Callable[[View], float]:
    return lambda view: view.asking.kind == kind


def _target(target: str) -> Callable[[View], float]:
    return lambda view: view.asking.target == target


def _cues(listed: frozenset[str]) -> Callable[[View], float]:
    return lambda view: sum(word in listed for word in view.lower)


def _entity_words(view: View) -> int:
    return sum(end - start for start, end in view.naming.entities)


_feature = partial(Feature, group="semantic", source="Wye")

FEATURES = (
    _feature(
        "entities",
        "entities",
        "Named entities, numbers left out.",
        lambda view: len(view.naming.entities),
        source=_ONTONOTES,
    ),
    _feature(
        "entity_kinds",
        "labels",
        "Different labels among them.",
        lambda view: len(set(view.naming.labels)),
        source=_ONTONOTES,
    ),
    _feature(
        "entity_density",
        "entities per word",
        "Named entities for each word; 0 without a word.",
        lambda view: ratio(len(view.naming.entities), len(view.words)),
    ),
    _feature(
        "entity_token_share",
        "share",
        "Tokens that are part of a named entity among all; 0 without a token.",
        lambda view: ratio(_entity_words(view), len(view.tokens)),
    ),
    _feature(
        "entity_length_mean",
        "tokens per entity",
        "Mean number of tokens of a named entity; 0 without any.",
        lambda view: ratio(_entity_words(view), len(view.naming.entities)),
    ),
    *(
        _feature(f"entities_{name}", "entities", doc, _entities(labels), source=_ONTONOTES)
        for name, doc, labels in _KINDS
    ),
    *(
        _feature(
            f"asks_{kind.replace(' ', '_')}",
            _FLAG,
            "Whether no question word and no inverted verb says what is asked."
            if kind == "none"
            else f"Whether the question is of the kind '{kind}'.",
            _asks(kind),
        )
        for kind in _FORMS
    ),
    *(
        _feature(
            f"target_{target}",
            _FLAG,
            f"Whether the answer is a {target}, by question word and the noun beside it.",
            _target(target),
        )
        for target in _TARGETS
    ),
    _feature(
        "role_agent",
        "arcs",
        "Agents: subjects of active verbs, and by-phrases of passive ones.",
        arc_count("nsubj", "agent"),
        source="ClearNLP labels",
    ),
    _feature(
        "role_patient",
        "arcs",
        "Patients: direct objects, and subjects of passive verbs.",
        arc_count("dobj", "nsubjpass"),
        source="ClearNLP labels",
    ),
    _feature("role_temporal", "words", "Words that place something in time.", _cues(_TEMPORAL)),
    _feature("role_locative", "words", "Words that place something in space.", _cues(_LOCATIVE)),
    _feature("negations", "words", "Words that negate.", _cues(_NEGATIONS)),
    _feature(
        "passives",
        "arcs",
        "Passive verbs, by their subjects or auxiliaries, whichever are more.",
        lambda view: max(
            view.arcs.labels["nsubjpass"] + view.arcs.labels["csubjpass"],
            view.arcs.labels["auxpass"],
        ),
        source="ClearNLP labels",
    ),
)
