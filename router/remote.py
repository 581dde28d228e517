"""Remote arms: what is known of them, how offline work asks them, and how their lists are fused."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol, Self

import numpy as np

from wye.backends.types import Float64, RankedHit, Ranking, Source
from wye.router.fusion import added_up, fuse, scaled
from wye.router.types import Route

Scores = Literal["rank", "cosine", "bm25", "mass"]
"""Meaning of an arm's scores: an order only, cosines or sums on their scale, BM25, or shares of a
walk's mass."""


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of a remote arm before it is asked.

    Attributes:
        role: "simple", "graph" or "list".
        address: Digest of all that its answers depend on: where it is and how it is asked.
        price: Price of a call.
        depth: Hits that it is asked for.
        scores: Meaning of its scores.
        weight: Weight of its list in fusion.
        prefix: Prefix of its ids in an answer; "" if they are the collection's own ids.
    """

    name: str
    role: str
    address: str
    price: float
    depth: int
    scores: Scores
    weight: float
    prefix: str

    @property
    def is_simple(self) -> bool:
        """Whether it replaces our text arms."""
        return self.role == "simple"


@dataclass(frozen=True, slots=True)
class ArmHit:
    """A passage, under the arm's own id."""

    id: str
    title: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """A remote arm's answer, or why there is none.

    Attributes:
        hits: Hits, best first.
        ms: Time that the call took.
        spent: Cost of the call.
        reason: Why there is no answer; "" if there is one.
    """

    hits: tuple[ArmHit, ...]
    ms: float
    spent: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArmQuestion:
    """One question for one arm; the filter is parsed JSON."""

    arm: str
    text: str
    filter: object | None = None


class RemoteAsker(Protocol):
    """The remote arms of one collection, called as the service calls them."""

    arms: Sequence[ArmFacts]

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def ask(self, questions: Sequence[ArmQuestion]) -> Iterator[tuple[int, ArmAnswer]]:
        """Position and answer of each question, as they come, within each arm's rate limit."""
        ...


class OpenArms(Protocol):
    """Reads an arms file."""

    def __call__(self, path: Path, *, collection: str, has_index: bool) -> RemoteAsker:
        """The arms of a collection; of the first one if it is ""."""
        ...


OURS = "local"

# The arm of ours that has such scores, and their weight relative to a cosine. That of mass was
# chosen on train and dev questions of 2wiki, popqa and nq, together with our text arms: nDCG@10
# .938; .3 and 1 have .934 and .936, and reciprocal ranks .848. That of BM25 is fusion's own.
_SCALES: Mapping[Scores, tuple[Route, float]] = {
    "cosine": (Route.DENSE, 1.0),
    "bm25": (Route.LEXICAL, 0.35),
    "mass": (Route.GRAPH, 0.6),
}
_OF_OURS: Mapping[str, Scores] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25"}


@dataclass(frozen=True, slots=True)
class RemoteList:
    """A remote arm's list, to be fused.

    Attributes:
        scores: Meaning of its scores.
        weight: Weight of the list.
    """

    ranking: Ranking
    scores: Scores
    weight: float

    @property
    def is_addable(self) -> bool:
        """Whether its scores can be what they are declared as: never rising, BM25 and mass > 0."""
        found = [hit.score for hit in self.ranking.hits]
        if self.scores == "rank" or any(upper < lower for upper, lower in pairwise(found)):
            return False
        return self.scores == "cosine" or min(found, default=1.0) > 0

    @property
    def values(self) -> Float64:
        """What it adds to each hit, (m,); only for addable scores."""
        return self.weight * _values(self.ranking, self.scores)


def fuse_remote(ours: Ranking, lists: Sequence[RemoteList], k: int, *, by_scores: bool) -> Ranking:
    """Fuse our own ranking with remote lists.

    Scores of known meaning are added up on the scale of cosines, as in `fusion.combine_scores`. If
    a list has no such scores, all are fused by reciprocal rank. What our ranking gives to a passage
    is divided among those of our lists that have it.

    Args:
        ours: Our ranking, fused or of a single arm; its weight is 1.
        lists: Lists of remote arms, at least one.
        k: Most hits to return.
        by_scores: Whether our own scores are on the scale of cosines.
    """
    own = replace(ours, retriever=OURS)
    if by_scores and all(one.is_addable for one in lists):
        meaning = _OF_OURS.get(ours.retriever, "cosine")
        parts = [(own, _values(ours, meaning)), *((one.ranking, one.values) for one in lists)]
        ranking = added_up(parts, k)
    else:
        weights = [1.0, *(one.weight for one in lists)]
        ranking = fuse([own, *(one.ranking for one in lists)], weights, k=k)
    known = {hit.id: hit for hit in ours.hits}
    return replace(
        ranking,
        hits=tuple(
            hit._replace(sources=_parted(hit.sources, known.get(hit.id), ours.retriever))
            for hit in ranking.hits
        ),
        degraded="",
    )


def _values(ranking: Ranking, meaning: Scores) -> Float64:
    """Scores of a ranking (m,) on the scale of cosines, minus the last one.

    A passage that is not in the list has at most the last score.
    """
    if not ranking.hits:
        return np.zeros(0)
    scale, worth = _SCALES[meaning]
    values = worth * scaled(replace(ranking, retriever=scale))
    return np.asarray(values - values[-1])


def _parted(sources: Sequence[Source], own: RankedHit | None, name: str) -> tuple[Source, ...]:
    """Replace our ranking among the sources by our own lists."""
    found: list[Source] = []
    for source in sources:
        if source.retriever != OURS or own is None:
            found.append(source)
        elif not own.sources:
            found.append(source._replace(retriever=name))
        else:
            total = math.fsum(one.share for one in own.sources)
            found += [
                one._replace(
                    share=source.share * (one.share / total if total else 1 / len(own.sources))
                )
                for one in own.sources
            ]
    return tuple(sorted(found))
