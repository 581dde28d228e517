"""Which lists are fused, and how much each counts."""

from dataclasses import dataclass, field

from router.errors import SettingsError
from router.types import Route

ARMS = (Route.DENSE, Route.LEXICAL, Route.GRAPH)


@dataclass(frozen=True, slots=True)
class ListWeights:
    """Fixed weights of fused lists; a list without one gets its weight from s.

    Attributes:
        dense: Of the dense list, 0 or more.
        lexical: Of the lexical list, 0 or more.
        graph: Of the graph list, 0 or more.
    """

    dense: float | None = None
    lexical: float | None = None
    graph: float | None = None


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """How rankings become one.

    Attributes:
        lists: Arms to fuse, with commas between them.
        s: How complex a question is taken to be while nothing scores it, from 0 to 1: the graph
            list weighs s and every other list 1 - s.
        rrf_k: How slowly a list's say falls with rank; 0 or more.
        depth: Hits that each list brings in, at least as many as are asked for.
        weights: Fixed weights instead of those from s.
    """

    lists: tuple[str, ...] = (Route.DENSE, Route.GRAPH)
    s: float = 0.5
    rrf_k: float = 60.0
    depth: int = 100
    weights: ListWeights = field(default_factory=ListWeights)

    def __post_init__(self) -> None:
        unknown = [name for name in self.lists if name not in ARMS]
        if unknown or not self.lists or len(set(self.lists)) < len(self.lists):
            raise SettingsError(
                f"WYE_FUSION__LISTS is {', '.join(self.lists) or 'empty'}; "
                f"name some of {', '.join(ARMS)}, each once."
            )
        if not 0 <= self.s <= 1:
            raise SettingsError(f"WYE_FUSION__S is {self.s}; use a number from 0 to 1.")
        if self.depth < 1:
            raise SettingsError(f"WYE_FUSION__DEPTH is {self.depth}; use 1 or more.")

    def weight(self, arm: str, score: float | None = None) -> float:
        """Weight of an arm's list.

        Source: EA-GraphRAG, equation 8: w_graph = s, w_dense = 1 - s.

        Args:
            arm: By name.
            score: The question's s; the setting's where nothing scored it.
        """
        fixed: float | None = getattr(self.weights, arm)
        if fixed is not None:
            return fixed
        s = self.s if score is None else score
        return s if arm == Route.GRAPH else 1 - s
