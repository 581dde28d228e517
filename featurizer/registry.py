"""All features, in the column order of a feature matrix, and a reference set of their values.

The reference set, `reference.json`, places a value among those of other questions;
`python -m training.feature_reference` writes it.
"""

import hashlib
import json
import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from featurizer.feature import Feature
from featurizer.features import constituency as constituency_features
from featurizer.features import dependency, interaction, lexical, relation, semantic
from featurizer.features import tree as tree_features
from featurizer.question import View
from featurizer.types import Syntax

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

_TREE_GROUPS = ("constituency", "tree")
TREE_FEATURES = frozenset(
    feature.name
    for feature in FEATURES
    if feature.group in _TREE_GROUPS or feature.name in interaction.OF_TREES
)
"""Features that are computed from trees; the others need only tokens."""

Float64 = NDArray[np.float64]


def syntax_matrix(questions: Sequence[Syntax], names: Iterable[str] = FEATURE_NAMES) -> Float64:
    """The features of questions; the same bytes for the same questions, in any process.

    Args:
        questions: With trees, if any of `TREE_FEATURES` is in names.
        names: Which features to compute.

    Returns:
        (n, d); column j is the feature `FEATURE_NAMES[j]`, finite, or NaN if not in names.
    """
    wanted = frozenset(names)
    rows = [feature_row(syntax, wanted) for syntax in questions]
    return np.array(rows, np.float64).reshape(len(questions), len(FEATURES))


def feature_row(syntax: Syntax, wanted: Container[str] = frozenset(FEATURE_NAMES)) -> list[float]:
    """One question's features, in the order of `FEATURE_NAMES`; NaN for those not wanted."""
    view = View(syntax)
    return [
        float(feature.value(view)) if feature.name in wanted else math.nan for feature in FEATURES
    ]


def schema_id(parsers: Mapping[str, str], features: Sequence[Feature] = FEATURES) -> str:
    """Identity of feature values: equal ids mean equal columns, computed with the same models.

    Args:
        parsers: `Analyser.syntax_fingerprint`: pipeline, constituency model, rules.

    Returns:
        The first 16 hexadecimal digits of a SHA-256 over name, group and version of each
        feature in order, and over the parsers.
    """
    columns = [[feature.name, feature.group, feature.version] for feature in features]
    content = json.dumps([columns, sorted(parsers.items())], ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


# Values are compared and stored with this rounding; differences beyond it mean nothing.
DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Reference:
    """Values of all features for a set of questions.

    Attributes:
        sources: Files that the questions come from, each with their number.
        values: Feature -> its values in ascending order, one per question.
    """

    schema_id: str
    sources: Mapping[str, int]
    values: Mapping[str, Sequence[float]]

    def percentile(self, name: str, value: float) -> float:
        """Percentile of a value in the reference set, 0 to 100; equal values count half.

        Raises:
            KeyError: There is no such feature.
        """
        known = self.values[name]
        value = round(value, DECIMALS)
        return 50 * (bisect_left(known, value) + bisect_right(known, value)) / len(known)

    def to_json(self) -> str:
        """JSON with one line per feature: a list of [value, count]."""
        lines = [
            f"{json.dumps(name)}: {json.dumps(_counted(values), separators=(',', ':'))}"
            for name, values in self.values.items()
        ]
        return (
            f'{{"schema_id": {json.dumps(self.schema_id)},\n'
            f'"sources": {json.dumps(dict(self.sources))},\n'
            '"values": {\n' + ",\n".join(lines) + "\n}}\n"
        )


def read_reference(text: str | None = None) -> Reference:
    """Read a reference set from JSON; by default the one that ships with Wye."""
    if text is None:
        text = (files("featurizer") / "reference.json").read_text(encoding="utf-8")
    content = json.loads(text)
    values = {
        name: [value for value, count in pairs for _ in range(count)]
        for name, pairs in content["values"].items()
    }
    return Reference(content["schema_id"], content["sources"], values)


def _counted(values: Sequence[float]) -> list[tuple[float, int]]:
    return [
        (int(value) if value == int(value) else value, bisect_right(values, value) - place)
        for place, value in enumerate(values)
        if not place or values[place - 1] != value
    ]


def markdown() -> str:
    """Markdown page of all features, one table per group."""
    lines = [
        "# Features",
        "",
        f"The {len(FEATURES)} features of a question's syntax, in the order of their columns. "
        "Written from the code by `make docs`; do not edit.",
    ]
    for group in dict.fromkeys(one.group for one in FEATURES):
        lines += ["", f"## {group}", "", "| feature | meaning |", "|---|---|"]
        lines += [f"| `{one.name}` | {one.doc} |" for one in FEATURES if one.group == group]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
