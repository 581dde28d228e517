"""Remote arms: what is known of one, what it returns, and how its list is fused with ours."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from wye.backends.types import Float64, Metadata, RankedHit, Ranking, Source
from wye.router.fusion import fuse, rank_sums, scaled
from wye.router.types import Route

ScoreKind = Literal["rank", "cosine", "bm25", "mass"]
"""Meaning of an arm's scores: an order only, cosines or sums on their scale, BM25, or shares of a
walk's mass."""


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """What is known of a remote arm before it is called."""

    name: str
    address: str  # digest of all that its answers depend on: where it is and how it is called
    price: float
    depth: int  # hits that a call requests
    scores: ScoreKind
    weight: float  # weight of its list in fusion
    prefix: str  # prefix of its ids in an answer; "" if they are ids of the collection


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """A passage that a remote arm returned, under the arm's id of it; higher scores are better."""

    id: str
    text: str
    title: str
    score: float
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """A remote arm's answer after `ms`, best hits first, or the reason why there is none."""

    hits: tuple[RemoteHit, ...]
    ms: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ArmQuestion:
    """One question for one arm."""

    arm: str
    text: str


Save = Callable[[ArmQuestion, ArmAnswer], None]


class RemoteAsker(Protocol):
    """The remote arms of one collection, called as the service calls them."""

    arms: Sequence[ArmFacts]

    def ask(self, questions: Sequence[ArmQuestion], save: Save) -> None:
        """Ask all questions within each arm's limits, and save each answer as it arrives."""


OpenArms = Callable[[Path], AbstractContextManager[RemoteAsker]]
"""Opens the arms of the first collection of an arms file."""


OURS = "local"

# The arm of ours that has such scores, and their weight relative to a cosine. That of mass was
# chosen on train and dev questions of 2wiki, popqa and nq, together with our text arms: nDCG@10
# .938; .3 and 1 have .934 and .936, and reciprocal ranks .848. That of BM25 is fusion's.
_SCALES: Mapping[ScoreKind, tuple[Route, float]] = {
    "cosine": (Route.DENSE, 1.0),
    "bm25": (Route.LEXICAL, 0.35),
    "mass": (Route.GRAPH, 0.6),
}
_OF_OURS: Mapping[str, ScoreKind] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25"}


@dataclass(frozen=True, slots=True)
class RemoteList:
    """A remote arm's list, to be fused."""

    ranking: Ranking
    scores: ScoreKind
    weight: float

    @property
    def is_addable(self) -> bool:
        """Whether its scores can be what they are declared as: never rising, BM25 and mass > 0."""
        scores = [hit.score for hit in self.ranking.hits]
        if self.scores == "rank" or any(upper < lower for upper, lower in pairwise(scores)):
            return False
        return self.scores == "cosine" or min(scores, default=1.0) > 0


def remote_ranking(name: str, prefix: str, hits: Sequence[RemoteHit], note: str = "") -> Ranking:
    """An arm's hits as a ranking, by ids that are unique in the answer."""
    ranked = (RankedHit(prefix + hit.id, hit.score, rank) for rank, hit in enumerate(hits, start=1))
    return Ranking(name, tuple(ranked), len(hits), note)


def fuse_remote(ours: Ranking, lists: Sequence[RemoteList], k: int, *, by_scores: bool) -> Ranking:
    """Fuse the local ranking, whose weight is 1, with at least one remote list.

    Scores of known meaning are added up on the scale of cosines, as in `fusion.combine_scores`, if
    ours are on it too (`by_scores`). If a list has no such scores, all are fused by reciprocal
    rank. What our ranking gives to a passage is divided among those of our lists that have it.
    """
    local = replace(ours, retriever=OURS)
    if by_scores and all(remote.is_addable for remote in lists):
        parts = [(local, _values(ours, _OF_OURS.get(ours.retriever, "cosine")))]
        parts += [(of.ranking, of.weight * _values(of.ranking, of.scores)) for of in lists]
        ranking = rank_sums(parts, k)
    else:
        weights = [1.0, *(remote.weight for remote in lists)]
        ranking = fuse([local, *(remote.ranking for remote in lists)], weights, k=k)
    our_hits = {hit.id: hit for hit in ours.hits}
    hits = []
    for hit in ranking.hits:
        hits.append(hit._replace(sources=_split(hit.sources, our_hits.get(hit.id), ours.retriever)))
    return replace(ranking, hits=tuple(hits), degraded="")


def _values(ranking: Ranking, meaning: ScoreKind) -> Float64:
    """Scores of a ranking (m,) on the scale of cosines, minus the last one, the most of others."""
    if not ranking.hits:
        return np.zeros(0)
    scale, worth = _SCALES[meaning]
    values = worth * scaled(replace(ranking, retriever=scale))
    return np.asarray(values - values[-1])


def _split(sources: Sequence[Source], our_hit: RankedHit | None, name: str) -> tuple[Source, ...]:
    """Replace the local ranking among the sources by the lists that it was fused from."""
    result: list[Source] = []
    for source in sources:
        if source.retriever != OURS or our_hit is None:
            result.append(source)
        elif not our_hit.sources:
            result.append(source._replace(retriever=name))
        else:
            total = math.fsum(part.share for part in our_hit.sources)
            for part in our_hit.sources:
                share = part.share / total if total else 1 / len(our_hit.sources)
                result.append(part._replace(share=source.share * share))
    return tuple(sorted(result))
