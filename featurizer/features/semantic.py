"""Features of the entities in a question, of what it asks for, and of semantic roles.

Entities have OntoNotes' labels, relations those of ClearNLP.
"""

from functools import partial

from wye.featurizer.features.dependency import arc_count
from wye.featurizer.question import Feature, View, ratio, words

_WORKS = frozenset({"WORK_OF_ART", "PRODUCT", "LAW", "EVENT"})
_LOCATIVE = words("in at near where within inside between across beneath under above")


def _entity_words(view: View) -> int:
    return sum(end - start for start, end in view.naming.entities)


_feature = partial(Feature, group="semantic")

FEATURES = (
    _feature(
        "entities", "Named entities, numbers left out.", lambda view: len(view.naming.entities)
    ),
    _feature(
        "entity_kinds", "Different labels among them.", lambda view: len(set(view.naming.labels))
    ),
    _feature(
        "entity_density",
        "Named entities for each word; 0 without a word.",
        lambda view: ratio(len(view.naming.entities), len(view.words)),
    ),
    _feature(
        "entity_token_share",
        "Tokens that are part of a named entity among all; 0 without a token.",
        lambda view: ratio(_entity_words(view), len(view.tokens)),
    ),
    _feature(
        "entity_length_mean",
        "Mean number of tokens of a named entity; 0 without any.",
        lambda view: ratio(_entity_words(view), len(view.naming.entities)),
    ),
    _feature(
        "entities_person",
        "Entities that are people.",
        lambda view: view.naming.labels.count("PERSON"),
    ),
    _feature(
        "entities_work",
        "Entities that are works, products, laws or events.",
        lambda view: sum(label in _WORKS for label in view.naming.labels),
    ),
    _feature(
        "target_place",
        "Whether the answer is a place, by question word and the noun beside it.",
        lambda view: view.asks_for_place,
    ),
    _feature(
        "role_patient",
        "Patients: direct objects, and subjects of passive verbs.",
        arc_count("dobj", "nsubjpass"),
    ),
    _feature(
        "role_locative",
        "Words that place something in space.",
        lambda view: sum(word in _LOCATIVE for word in view.lower),
    ),
)
