"""Analyses to a feature matrix, and the identity of what its columns are."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from featurizer.errors import FeaturizerError
from featurizer.feature import Feature
from featurizer.registry import FEATURE_NAMES, FEATURES
from featurizer.types import Analysis, Syntax
from featurizer.view import View

__all__ = [
    "FEATURE_NAMES",
    "Float64",
    "feature_matrix",
    "feature_row",
    "schema_id",
    "syntax_matrix",
]

Float64 = NDArray[np.float64]


def feature_matrix(analyses: Sequence[Analysis]) -> Float64:
    """The features of questions; the same bytes for the same questions, in any process.

    Args:
        analyses: With their syntax.

    Returns:
        (n, d) finite values; column j is the feature `FEATURE_NAMES[j]`.

    Raises:
        FeaturizerError: An analysis was made without syntax.
    """
    found = [analysis.syntax for analysis in analyses if analysis.syntax is not None]
    if len(found) < len(analyses):
        raise FeaturizerError(
            f"{len(analyses) - len(found)} of {len(analyses)} questions were analysed without the "
            "syntax that features are made of; analyse them with syntax=True."
        )
    return syntax_matrix(found)


def syntax_matrix(questions: Sequence[Syntax]) -> Float64:
    """The same of syntax alone, for which no encoder is needed."""
    matrix = np.empty((len(questions), len(FEATURES)), np.float64)
    for row, syntax in enumerate(questions):
        matrix[row] = feature_row(syntax)
    return matrix


def feature_row(syntax: Syntax) -> list[float]:
    """One question's features, in the order of `FEATURE_NAMES`."""
    view = View(syntax)
    return [feature.value(view) for feature in FEATURES]


def schema_id(parsers: Mapping[str, str], features: Sequence[Feature] = FEATURES) -> str:
    """Identity of feature values: equal ids mean equal columns, made by the same models.

    Args:
        parsers: `Analyser.syntax_fingerprint`: pipeline, constituency model, rules.
        features: In the order of the columns.

    Returns:
        The first 16 hexadecimal digits of a SHA-256 over name, group and version of each
        feature in order, and over the parsers.
    """
    columns = [[feature.name, feature.group, feature.version] for feature in features]
    content = json.dumps([columns, sorted(parsers.items())], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
