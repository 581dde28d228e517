"""What this folder gives to those above it: a route, and where a fused hit came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from backends.types import Hit, Ranking
from router.errors import PolicyError

if TYPE_CHECKING:  # it would bring all of the graph along
    from backends.explanation import Explanation
    from router.decision import Decision


class Route(StrEnum):
    """Which arm, or mix of arms, answers a question; or that the router is to choose.

    Hybrid is the dense and the lexical arm without the graph; fusion is what the settings say.
    """

    AUTO = "auto"
    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    GRAPH = "graph"
    FUSION = "fusion"


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """Why one list put a passage into a fused ranking.

    Attributes:
        retriever: Name of the arm.
        rank: 1-based, in that arm's list.
        score: The arm's own.
        share: What the list added to the fused score, such as w / (rrf_k + rank).
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


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question, with what is needed to see how it came about.

    Attributes:
        question: As asked.
        route: That answered it; never `Route.AUTO`.
        ranking: The answer.
        arms: Ranking of each arm that was run, by name; fusion runs several.
        seconds: Wall time by stage (parsing, encoding, each arm, fusing). Questions that are
            worked on together each carry an equal share of the time.
        version: Of the index.
        explanation: Of the graph arm, when it was asked for and the graph arm was run.
        decision: The router's; None where the caller named the route.
    """

    question: str
    route: Route
    ranking: Ranking
    arms: Mapping[str, Ranking]
    seconds: Mapping[str, float]
    version: int
    explanation: "Explanation | None" = None
    decision: "Decision | None" = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the routes border on each other.

    Attributes:
        low: τ_L; a score up to it takes the simple route.
        high: τ_H; a score from it on takes the graph route. 0 <= low <= high <= 1.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise PolicyError(
                f"The thresholds are {self.low} and {self.high}; "
                "use numbers with 0 <= low <= high <= 1."
            )
