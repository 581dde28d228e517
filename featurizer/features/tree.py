"""Features of the shape of the constituency trees, regardless of labels.

Yngve depth: V. Yngve, "A model and an hypothesis for language structure", 1960.
"""

from functools import partial

from wye.featurizer.question import Feature, mean, ratio

_feature = partial(Feature, group="tree")

FEATURES = (
    _feature("tree_depth", "Depth of the deepest tag.", lambda view: view.shape.depth),
    _feature(
        "tree_depth_mean",
        "Mean depth of the tags; 0 without any.",
        lambda view: mean(view.shape.depths),
    ),
    _feature(
        "tree_width",
        "Most nodes at one depth, all sentences together.",
        lambda view: view.shape.width,
    ),
    _feature(
        "tree_depth_to_width",
        "Depth over width; 0 without a tree.",
        lambda view: ratio(view.shape.depth, view.shape.width),
    ),
    _feature("tree_phrases", "Phrases below the root.", lambda view: view.shape.phrases),
    _feature(
        "tree_phrases_per_tag",
        "Phrases for each tag; 0 without any.",
        lambda view: ratio(view.shape.phrases, len(view.shape.depths)),
    ),
    _feature(
        "tree_leaf_ratio",
        "Tags among all nodes; 0 without a tree.",
        lambda view: ratio(len(view.shape.depths), view.shape.nodes),
    ),
    _feature(
        "tree_branching_mean",
        "Mean number of children of a phrase, the root included; 0 without a tree.",
        lambda view: mean(view.shape.branches),
    ),
    _feature(
        "tree_branching_max",
        "Most children of one phrase.",
        lambda view: max(view.shape.branches, default=0),
    ),
    _feature(
        "tree_yngve_mean",
        "Mean over the tags of the sisters still to come on the way down; 0 without a tag.",
        lambda view: mean(view.shape.yngve),
    ),
    _feature(
        "tree_yngve_max",
        "The same for the tag with the most.",
        lambda view: max(view.shape.yngve, default=0),
    ),
    _feature(
        "noun_phrase_nesting",
        "Noun phrases within each other, at most.",
        lambda view: view.shape.nesting["NP"],
    ),
    _feature(
        "prepositional_nesting",
        "Prepositional phrases within each other, at most: of the capital of the country.",
        lambda view: view.shape.nesting["PP"],
    ),
)
