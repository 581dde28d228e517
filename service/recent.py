"""The last answers of this process, in memory, for whoever watches."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from router.types import Route

KEPT = 1000
"""Answers that are remembered; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is remembered of one answer.

    Attributes:
        time: When it was given, in seconds since 1970.
        collection: That was asked.
        asked: Route that was asked for.
        route: Route that answered.
        score: The router's; None where it was not asked.
        ms: From queueing to the passages.
        degraded: Kind of degradation, or "".
        question: As asked; None unless questions are logged anyway.
    """

    time: float
    collection: str
    asked: Route
    route: Route
    score: float | None
    ms: float
    degraded: str
    question: str | None = None


@dataclass(frozen=True, slots=True)
class RouteTimes:
    """Answers over one route.

    Attributes:
        count: How many.
        share: Of all.
        p50_ms: Median time to the passages.
        p95_ms: 95th percentile of the same.
    """

    count: int
    share: float
    p50_ms: float
    p95_ms: float


class Recent:
    """A ring buffer of samples; used by the event loop only."""

    def __init__(self, kept: int = KEPT) -> None:
        self.total = 0
        self._samples: deque[Sample] = deque(maxlen=kept)

    def add(self, sample: Sample) -> None:
        """Remember an answer, and forget the oldest if there are too many."""
        self.total += 1
        self._samples.append(sample)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Oldest first."""
        return tuple(self._samples)


def routes_of(samples: Sequence[Sample]) -> dict[Route, RouteTimes]:
    """Shares and times by the route that answered, in the order of `Route`."""
    times: dict[Route, list[float]] = {}
    for sample in samples:
        times.setdefault(sample.route, []).append(sample.ms)
    return {
        route: RouteTimes(
            len(own), len(own) / len(samples), percentile(own, 0.5), percentile(own, 0.95)
        )
        for route in Route
        if (own := times.get(route))
    }


def degradations_of(samples: Sequence[Sample]) -> dict[str, int]:
    """Kind of degradation -> answers."""
    return dict(Counter(sample.degraded for sample in samples if sample.degraded))


def scores_of(samples: Sequence[Sample], collection: str) -> list[float]:
    """The router's scores of one collection's questions, oldest first."""
    return [s.score for s in samples if s.collection == collection and s.score is not None]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed.

    Args:
        values: At least one.
        share: From 0 to 1.
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
