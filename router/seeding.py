"""Walking the graph from another arm's best passages: fusion that adds nothing up.

On the train questions of three datasets it was some points above the list that it starts from and
far below the graph arm's own seeds. It is kept to be compared with.
"""

import math
from dataclasses import replace

from backends.types import Ranking
from router.blend import scaled

STARTS = 5
"""Passages to walk from. From ten, weighed by rank, the walk hardly changed the list's order."""
SHARPNESS = 20.0
"""How fast a passage's restart mass falls with its distance to the best one."""


def start_mass(ranking: Ranking) -> dict[str, float]:
    """Restart mass of the first passages of a list: exp(20·(v - v_best)), v as `router.blend`'s."""
    values = scaled(ranking)[:STARTS]
    return {
        hit.id: math.exp(SHARPNESS * (value - values[0]))
        for hit, value in zip(ranking.hits, values, strict=False)
    }


def as_fusion(ranking: Ranking) -> Ranking:
    """The walk's ranking under the name that fusion gives its own."""
    return replace(ranking, retriever="fusion")
