"""Features of the shape of the constituency trees, regardless of labels."""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, mean, ratio

_feature = partial(Feature, group="tree", source="constituency tree")


def _nesting(label: str) -> Callable[[View], float]:
    return lambda view: view.shape.nesting[label]


FEATURES = (
    _feature("tree_depth", "levels", "Depth of the deepest tag.", lambda view: view.shape.depth),
    _feature(
        "tree_depth_mean",
        "levels",
        "Mean depth of the tags; 0 without any.",
        lambda view: mean(view.shape.depths),
    ),
    _feature(
        "tree_width",
        "nodes",
        "Most nodes at one depth, all sentences together.",
        lambda view: view.shape.width,
    ),
    _feature(
        "tree_depth_to_width",
        "levels per node",
        "Depth over width; 0 without a tree.",
        lambda view: ratio(view.shape.depth, view.shape.width),
    ),
    _feature("tree_phrases", "phrases", "Phrases below the root.", lambda view: view.shape.phrases),
    _feature(
        "tree_phrases_per_tag",
        "phrases per tag",
        "Phrases for each tag; 0 without any.",
        lambda view: ratio(view.shape.phrases, len(view.shape.depths)),
    ),
    _feature(
        "tree_leaf_ratio",
        "share",
        "Tags among all nodes; 0 without a tree.",
        lambda view: ratio(len(view.shape.depths), view.shape.nodes),
    ),
    _feature(
        "tree_branching_mean",
        "children per phrase",
        "Mean number of children of a phrase, the root included; 0 without a tree.",
        lambda view: mean(view.shape.branches),
    ),
    _feature(
        "tree_branching_max",
        "children",
        "Most children of one phrase.",
        lambda view: max(view.shape.branches, default=0),
    ),
    _feature(
        "tree_unary_share",
        "share",
        "Phrases whose only child is a phrase, among all phrases; 0 without any.",
        lambda view: ratio(view.shape.unary, view.shape.phrases),
    ),
    _feature(
        "tree_yngve_mean",
        "sisters",
        "Mean over the tags of the sisters still to come on the way down; 0 without a tag.",
        lambda view: mean(view.shape.yngve),
        source="Yngve 1960",
    ),
    _feature(
        "tree_yngve_max",
        "sisters",
        "The same for the tag with the most.",
        lambda view: max(view.shape.yngve, default=0),
        source="Yngve 1960",
    ),
    _feature(
        "noun_phrase_nesting", "phrases", "Noun phrases within each other, at most.", _nesting("NP")
    ),
    _feature(
        "prepositional_nesting",
        "phrases",
        "Prepositional phrases within each other, at most: of the capital of the country.",
        _nesting("PP"),
    ),
    _feature(
        "clause_nesting",
        "clauses",
        "Subordinate clauses within each other, at most.",
        _nesting("SBAR"),
    ),
    _feature(
        "verb_phrase_nesting", "phrases", "Verb phrases within each other, at most.", _nesting("VP")
    ),
    _feature(
        "noun_phrase_words_max",
        "words",
        "Tags in the longest noun phrase.",
        lambda view: max(view.shape.noun_phrase_words, default=0),
    ),
    _feature(
        "noun_phrase_words_mean",
        "words per phrase",
        "Mean number of tags in a noun phrase; 0 without any.",
        lambda view: mean(view.shape.noun_phrase_words),
    ),
)
