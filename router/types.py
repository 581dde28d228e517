"""What this folder gives to those above it: a route, and where a fused hit came from."""

from dataclasses import dataclass
from enum import StrEnum

from backends.types import Hit


class Route(StrEnum):
    """Which arm, or mix of arms, answers a question."""

    DENSE = "dense"
    LEXICAL = "lexical"
    GRAPH = "graph"
    FUSION = "fusion"


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """Why one list put a passage into a fused ranking.

    Attributes:
        retriever: Name of the arm.
        rank: 1-based, in that arm's list.
        score: The arm's own.
        share: What the list added to the fused score, w / (rrf_k + rank).
    """

    retriever: str
    rank: int
    score: float
    share: float


@dataclass(frozen=True, slots=True)
class FusedHit(Hit):
    """A hit of a fused ranking; its score is the sum of its sources' shares.

    Attributes:
        sources: The lists that held the passage, by name of the arm.
    """

    sources: tuple[Source, ...] = ()
