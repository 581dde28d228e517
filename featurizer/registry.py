"""All features, in the column order of a feature matrix."""

import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wye.featurizer.features import tokens, trees
from wye.featurizer.question import Feature, View
from wye.featurizer.types import Syntax

FEATURES: tuple[Feature, ...] = (*trees.FEATURES, *tokens.FEATURES)
FEATURE_NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)

TREE_FEATURES = tokens.OF_TREES.union(feature.name for feature in trees.FEATURES)
"""Features that are computed from trees; the others need only tokens."""

Float64 = NDArray[np.float64]


def syntax_matrix(questions: Sequence[Syntax], names: Iterable[str] = FEATURE_NAMES) -> Float64:
    """The features of questions (n, d); the same bytes for the same questions, in any process.

    Column j is the feature `FEATURE_NAMES[j]`, finite, or NaN if it is not in names.
    `TREE_FEATURES` need trees.
    """
    wanted = frozenset(names)
    views = map(View, questions)
    rows = [[float(f.value(v)) if f.name in wanted else math.nan for f in FEATURES] for v in views]
    return np.array(rows, np.float64).reshape(len(questions), len(FEATURES))


def schema_id(parsers: Mapping[str, str], features: Sequence[Feature] = FEATURES) -> str:
    """Identity of feature values: equal ids mean equal columns, computed with the same models.

    It is the first 16 hexadecimal digits of a SHA-256 over name, group and version of each feature
    in order, and over `Analyser.syntax_fingerprint`.
    """
    columns = [[feature.name, feature.group, feature.version] for feature in features]
    content = json.dumps([columns, sorted(parsers.items())], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def markdown() -> str:
    """Markdown page of all features, one table per group."""
    lines = [
        "# Features",
        "",
        f"The {len(FEATURES)} features of a question's syntax, in the order of their columns. "
        "Written from the code by `make docs`; do not edit.",
    ]
    for group in dict.fromkeys(feature.group for feature in FEATURES):
        lines += ["", f"## {group}", "", "| feature | meaning |", "|---|---|"]
        members = [feature for feature in FEATURES if feature.group == group]
        lines += [f"| `{feature.name}` | {feature.doc} |" for feature in members]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
