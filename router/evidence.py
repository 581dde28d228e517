"""All that the arms say about one question, as fusion and its signals take it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from backends.seeds import SeedReach
from backends.types import Query, Ranking
from router.types import Route


@dataclass(frozen=True, slots=True)
class Evidence:
    """One question with what was found for it.

    Attributes:
        query: As analysed.
        seeds: Where the graph's walk starts.
        rankings: Of each arm that was asked.
    """

    query: Query
    seeds: tuple[SeedReach, ...] = ()
    rankings: Mapping[Route, Ranking] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Consulted:
    """What every arm said to one question, and what that took.

    Attributes:
        evidence: Of every arm.
        seconds: Wall time by stage.
    """

    evidence: Evidence
    seconds: Mapping[str, float]
