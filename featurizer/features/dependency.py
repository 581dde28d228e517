"""Features of the dependency tree: distances between words and their heads, and relations.

Distances: H. Liu, "Dependency distance as a metric of language comprehension difficulty", 2008.
Relations have ClearNLP's labels.
"""

from collections.abc import Callable
from functools import partial
from math import log2

from wye.featurizer.question import Feature, View, mean, ratio

LONG = 5

_RELATIONS = (
    ("objects", "Objects of verbs, direct and indirect.", ("dobj", "dative", "oprd")),
    ("prepositional_objects", "Objects of prepositions.", ("pobj",)),
    ("adverbial_modifiers", "Adverbs and noun phrases used as adverbs.", ("advmod", "npadvmod")),
    ("compounds", "Nouns or names before nouns.", ("compound", "nmod")),
    ("appositions", "Appositions.", ("appos",)),
    ("attributes", "Complements of copulas.", ("attr", "acomp")),
)


def arc_count(*labels: str) -> Callable[[View], float]:
    """How many arcs have one of the labels."""
    return lambda view: sum(view.arcs.labels[label] for label in labels)


def _entropy(view: View) -> float:
    labels = view.arcs.labels
    total = labels.total()
    return -sum(count / total * log2(count / total) for count in labels.values()) + 0.0


_feature = partial(Feature, group="dependency")

FEATURES = (
    _feature(
        "dependency_distance_mean",
        "Mean distance between a word and its head; 0 without an arc.",
        lambda view: mean(view.arcs.distances),
    ),
    _feature(
        "dependency_distance_max",
        "Largest distance between a word and its head.",
        lambda view: max(view.arcs.distances, default=0),
    ),
    _feature(
        "long_dependencies",
        f"Arcs over more than {LONG} tokens.",
        lambda view: sum(distance > LONG for distance in view.arcs.distances),
    ),
    _feature(
        "dependency_depth",
        "Arcs between the root and the word farthest from it.",
        lambda view: max(view.arcs.depth, default=0),
    ),
    _feature(
        "dependency_depth_mean",
        "Mean number of arcs between the root and a token; 0 without a token.",
        lambda view: mean(view.arcs.depth),
    ),
    _feature(
        "dependency_branching_max",
        "Most dependents of one token, punctuation included.",
        lambda view: max(map(len, view.arcs.children), default=0),
    ),
    _feature(
        "dependency_left_share",
        "Arcs whose dependent stands before its head, among all; 0 without an arc.",
        lambda view: ratio(view.arcs.left, len(view.arcs.distances)),
    ),
    _feature(
        "dependency_label_entropy",
        "Entropy of the relations' frequencies, in bits; 0 without a relation.",
        _entropy,
    ),
    *(_feature(f"dependency_{name}", doc, arc_count(*labels)) for name, doc, labels in _RELATIONS),
)
