"""Features of the dependency tree: distances between words and their heads, and relations."""

from collections.abc import Callable
from functools import partial
from math import log2

from wye.featurizer.question import Feature, View, mean, ratio

_DISTANCE = "Liu 2008"
_LABELS = "ClearNLP labels"
LONG = 5

_RELATIONS = (
    ("subjects", "Subjects.", ("nsubj", "nsubjpass", "csubj", "csubjpass", "expl")),
    ("objects", "Objects of verbs, direct and indirect.", ("dobj", "dative", "oprd")),
    ("prepositional_objects", "Objects of prepositions.", ("pobj",)),
    ("adjectival_modifiers", "Adjectives before nouns.", ("amod",)),
    ("adverbial_modifiers", "Adverbs and noun phrases used as adverbs.", ("advmod", "npadvmod")),
    ("numeric_modifiers", "Numbers before nouns.", ("nummod", "quantmod")),
    ("compounds", "Nouns or names before nouns.", ("compound", "nmod")),
    ("possessives", "Possessors: whose, its, the painter's.", ("poss",)),
    ("appositions", "Appositions.", ("appos",)),
    ("attributes", "Complements of copulas.", ("attr", "acomp")),
    ("conjuncts", "Second and further parts of coordinations.", ("conj",)),
    ("relative_clauses", "Relative clauses.", ("relcl",)),
    ("adnominal_clauses", "Participles and infinitives that modify a noun.", ("acl",)),
    ("adverbial_clauses", "Adverbial clauses.", ("advcl",)),
    ("complement_clauses", "Clauses as complements.", ("ccomp", "xcomp", "pcomp")),
    (
        "subordinations",
        "Clauses that depend on a word, of any kind.",
        ("relcl", "acl", "advcl", "ccomp", "xcomp", "pcomp", "csubj", "csubjpass"),
    ),
    ("auxiliaries", "Auxiliary verbs.", ("aux", "auxpass")),
)


def arc_count(*labels: str) -> Callable[[View], float]:
    """How many arcs have one of the labels."""
    return lambda view: sum(view.arcs.labels[label] for label in labels)


def _imbalance(view: View) -> float:
    arcs = len(view.arcs.distances)
    return ratio(abs(arcs - 2 * view.arcs.left), arcs)


def _long(view: View) -> int:
    return sum(distance > LONG for distance in view.arcs.distances)


def _entropy(view: View) -> float:
    labels = view.arcs.labels
    total = labels.total()
    return -sum(count / total * log2(count / total) for count in labels.values()) + 0.0


_feature = partial(Feature, group="dependency", source="dependency tree")

FEATURES = (
    _feature(
        "dependency_distance_mean",
        "tokens",
        "Mean distance between a word and its head; 0 without an arc.",
        lambda view: mean(view.arcs.distances),
        source=_DISTANCE,
    ),
    _feature(
        "dependency_distance_max",
        "tokens",
        "Largest distance between a word and its head.",
        lambda view: max(view.arcs.distances, default=0),
        source=_DISTANCE,
    ),
    _feature("long_dependencies", "arcs", f"Arcs over more than {LONG} tokens.", _long),
    _feature(
        "long_dependency_share",
        "share",
        f"Arcs over more than {LONG} tokens among all; 0 without an arc.",
        lambda view: ratio(_long(view), len(view.arcs.distances)),
    ),
    _feature(
        "dependency_depth",
        "arcs",
        "Arcs between the root and the word farthest from it.",
        lambda view: max(view.arcs.depth, default=0),
    ),
    _feature(
        "dependency_depth_mean",
        "arcs",
        "Mean number of arcs between the root and a token; 0 without a token.",
        lambda view: mean(view.arcs.depth),
    ),
    _feature(
        "dependency_branching_max",
        "tokens",
        "Most dependents of one token, punctuation included.",
        lambda view: max(map(len, view.arcs.children), default=0),
    ),
    _feature(
        "dependency_left_share",
        "share",
        "Arcs whose dependent stands before its head, among all; 0 without an arc.",
        lambda view: ratio(view.arcs.left, len(view.arcs.distances)),
    ),
    _feature(
        "dependency_imbalance",
        "share",
        "Imbalance of left and right arcs, from 0 to 1; 0 without an arc.",
        _imbalance,
    ),
    _feature(
        "dependency_label_entropy",
        "bits",
        "Entropy of the relations' frequencies; 0 without a relation.",
        _entropy,
    ),
    *(
        _feature(f"dependency_{name}", "arcs", doc, arc_count(*labels), source=_LABELS)
        for name, doc, labels in _RELATIONS
    ),
)
