"""Which lists are fused, how, and how much each counts."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from router.errors import SettingsError
from router.trust import GraphWeightModel
from router.types import Route

ARMS = (Route.DENSE, Route.LEXICAL, Route.GRAPH)
Method = Literal["trust", "blend", "rrf", "seeded"]


@dataclass(frozen=True, slots=True)
class ListWeights:
    """Fixed weights of lists that are fused by rank; one without gets its weight from s.

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
        method: "trust" adds up scores of all arms, the graph's by how far seeds and walk say that
            it is to be trusted; "blend" does so by s alone; "rrf" adds up reciprocal ranks, as
            EA-GraphRAG does; "seeded" walks the graph from the first of the lists.
        lists: Arms that "rrf" fuses, with commas between them; of the first, "seeded" takes the
            passages to start from.
        s: How complex a question is taken to be while nothing scores it, from 0 to 1: the graph
            list weighs s and every other list 1 - s.
        rrf_k: How slowly a list's say falls with rank; 0 or more.
        depth: Hits that each list brings in, at least as many as are asked for.
        lexical_share: Weight of a passage's share of the best BM25 beside its cosine.
        graph_scale: Weight of the logarithm of its share of the largest mass.
        weights: Fixed weights instead of those from s.
        trust: What "trust" goes by.
    """

    method: Method = "trust"
    lists: tuple[str, ...] = (Route.DENSE, Route.GRAPH)
    s: float = 0.5
    rrf_k: float = 60.0
    depth: int = 100
    lexical_share: float = 0.2
    graph_scale: float = 0.3
    weights: ListWeights = field(default_factory=ListWeights)
    trust: GraphWeightModel = field(default_factory=GraphWeightModel)

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise SettingsError(
                f"WYE_FUSION__METHOD is {self.method}; take {', '.join(get_args(Method))}."
            )
        unknown = [name for name in self.lists if name not in ARMS]
        if unknown or not self.lists or len(set(self.lists)) < len(self.lists):
            raise SettingsError(
                f"WYE_FUSION__LISTS is {', '.join(self.lists) or 'empty'}; "
                f"name some of {', '.join(ARMS)}, each once."
            )
        if self.method == "seeded" and self.lists[0] == Route.GRAPH:
            raise SettingsError(
                "WYE_FUSION__LISTS begins with graph, and seeded walks from another list; "
                "name dense or lexical first."
            )
        if not 0 <= self.s <= 1:
            raise SettingsError(f"WYE_FUSION__S is {self.s}; use a number from 0 to 1.")
        if self.depth < 1:
            raise SettingsError(f"WYE_FUSION__DEPTH is {self.depth}; use 1 or more.")
        for name in ("lexical_share", "graph_scale"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SettingsError(
                    f"WYE_FUSION__{name.upper()} is {getattr(self, name)}; use 0 or more."
                )

    def weight(self, arm: str, score: float | None = None) -> float:
        """Weight of an arm's list where lists are fused by rank.

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

    def arms(self) -> list[Route]:
        """The arms whose lists are needed; one that weighs nothing need not be asked."""
        if self.method == "rrf":
            return [Route(name) for name in self.lists if self.weight(name) != 0]
        return [Route(self.lists[0])] if self.method == "seeded" else list(ARMS)
