"""What the gateway needs of an index; `wye.router.snapshot.Snapshot` provides it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from wye.backends.trigraph.explanation import Explanation
from wye.backends.trigraph.seeds import SeedStats
from wye.backends.types import (
    Mask,
    NameCoverage,
    Query,
    Ranking,
    Retriever,
    Scores,
    WordCoverage,
)
from wye.router.steps import Passages
from wye.router.types import Route


class TextArm(Retriever, Protocol):
    """A text arm, whose scores also make the graph's prior."""

    @property
    def deepest(self) -> int:
        """Up to this k, `rank` of `scores` equals `search`; 0 where it never does."""
        ...

    def scores(self, queries: Sequence[Query], allowed: Mask | None = None) -> list[Scores]:
        """Scores of each question's passages: all, or those that the arm preselects."""
        ...

    def rank(self, scores: Scores, k: int, allowed: Mask | None = None) -> Ranking:
        """The k passages with the highest scores."""
        ...


class GraphBatch(Protocol):
    """The graph arm's work on one batch; only the graph has seeds and explanations."""

    def needs_parse(self, position: int) -> bool:
        """Whether the mentions that a parser finds could change a question's seeds."""
        ...

    def names(self, position: int) -> list[str]:
        """Names of entities in a question's words, of several words or spelt as names."""
        ...

    def seeds(self, positions: Sequence[int]) -> list[tuple[SeedStats, ...]]:
        """The seeds of some questions, found without walking."""
        ...

    def names_in(
        self, positions: Sequence[int], ids: Sequence[Sequence[str]]
    ) -> list[tuple[NameCoverage, ...]]:
        """How some passages of each question cover the names that are spelt out in it."""
        ...

    def search(
        self,
        positions: Sequence[int],
        k: int,
        similarities: Mapping[int, Scores],
        lexical: Mapping[int, Scores],
    ) -> list[Ranking]:
        """At most k passages for some questions.

        Args:
            similarities: The dense arm's scores by position, where known.
            lexical: The lexical arm's.
        """
        ...

    def explain(self, position: int, ranking: Ranking) -> Explanation:
        """Why the passages of a ranking have their ranks."""
        ...


class GraphArm(Protocol):
    """The graph arm."""

    def needs_vector(self, mention: str) -> bool:
        """Whether a tagged mention can only be linked by its vector."""
        ...

    def batch(self, queries: Sequence[Query], allowed: Mask | None) -> GraphBatch:
        """Begin a batch, which computes nothing twice; a query is read when first needed."""
        ...


class FurtherArm(Retriever, Protocol):
    """An arm that is asked only where it is named."""

    def explain(self, query: Query, ranking: Ranking, allowed: Mask | None) -> Explanation:
        """Why the passages of a ranking have their ranks."""
        ...


class Arms(Protocol):
    """One version of an index."""

    version: int

    def __len__(self) -> int:
        """How many passages there are."""
        ...

    @property
    def passages(self) -> Passages:
        """Access to the names and sentences of passages, for steps."""
        ...

    def texts(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Title and text of passages, in the order asked for."""
        ...

    @property
    def dense(self) -> TextArm:
        """The dense arm."""
        ...

    @property
    def lexical(self) -> TextArm:
        """The lexical arm."""
        ...

    @property
    def graph(self) -> GraphArm:
        """The graph arm."""
        ...

    def further(self, arm: Route) -> FurtherArm:
        """An arm that is asked only where it is named."""
        ...

    def allowed(self, filter_: object | None) -> Mask | None:
        """Mask of the passages that pass a metadata filter; None where all pass."""
        ...

    def words_in(
        self, texts: Sequence[str], ids: Sequence[Sequence[str]]
    ) -> list[tuple[WordCoverage, ...]]:
        """How some passages of each question cover its content words."""
        ...
