"""Every feature there is, in the order of the columns of a feature matrix."""

from featurizer import (
    constituency_features,
    dependency,
    interaction,
    lexical,
    relation,
    semantic,
    tree_features,
)
from featurizer.feature import Feature

FEATURES: tuple[Feature, ...] = (
    *constituency_features.FEATURES,
    *tree_features.FEATURES,
    *dependency.FEATURES,
    *lexical.FEATURES,
    *semantic.FEATURES,
    *relation.FEATURES,
    *interaction.FEATURES,
)
FEATURE_NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(feature.group for feature in FEATURES))
