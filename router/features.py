"""The columns that a router may look at: what a question is like, and what the corpus says to it.

The corpus group is what seeds and the dense list tell before the graph is walked. A router that
looks at none of it needs no index to decide.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from featurizer import featurizer
from featurizer.featurizer import FEATURE_NAMES
from router.evidence import Evidence
from router.layers import Float64
from router.signals import CHEAP_SIGNALS, SIGNALS_VERSION, signals

NAMES: tuple[str, ...] = (*FEATURE_NAMES, *CHEAP_SIGNALS)
"""Of the columns, in order."""


def schema_id(parsers: Mapping[str, str]) -> str:
    """Identity of the columns' values: equal ids mean equal columns, made by the same models.

    Args:
        parsers: `Analyser.syntax_fingerprint`.

    Returns:
        The first 16 hexadecimal digits of a SHA-256.
    """
    content = json.dumps([featurizer.schema_id(parsers), list(CHEAP_SIGNALS), SIGNALS_VERSION])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def asks_corpus(names: Sequence[str]) -> bool:
    """Whether some of these columns depend on the corpus."""
    return not set(CHEAP_SIGNALS).isdisjoint(names)


def with_corpus(features: Float64, evidence: Sequence[Evidence]) -> Float64:
    """Columns of questions asked of an index.

    Args:
        features: (n, d) of `FEATURE_NAMES`.
        evidence: Seeds and dense list of each question.

    Returns:
        (n, len(NAMES)).
    """
    return np.concatenate([features, signals(evidence, CHEAP_SIGNALS)], axis=1)


def without_corpus(features: Float64) -> Float64:
    """Columns for a router that does not look at the corpus: zeros stand where it would be.

    Args:
        features: (n, d) of `FEATURE_NAMES`.

    Returns:
        (n, len(NAMES)).
    """
    empty = np.zeros((len(features), len(CHEAP_SIGNALS)))
    return np.concatenate([features, empty], axis=1)
