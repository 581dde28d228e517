"""What searches of others found, put together with what our own arms did."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from backends.types import Float64, RankedHit, Ranking, Source
from router.fusion import added_up, fuse, scaled
from router.types import Route

Scores = Literal["rank", "cosine", "bm25", "mass"]
"""What the scores of an arm are, if they are anything that we know: nothing but an order, cosines
or sums on their scale, BM25, or shares of a walk's mass."""
OURS = "local"

# Each with the arm of ours that has such scores, and what one of them is worth beside a cosine.
# That of mass was chosen on train and dev questions of 2wiki, popqa and nq, beside our text arms:
# nDCG@10 .938, where .3 and 1 have .934 and .936, and reciprocal ranks .848. That of BM25 is
# fusion's own.
_SCALES: Mapping[Scores, tuple[Route, float]] = {
    "cosine": (Route.DENSE, 1.0),
    "bm25": (Route.LEXICAL, 0.2),
    "mass": (Route.GRAPH, 0.6),
}
_OF_OURS: Mapping[str, Scores] = {Route.GRAPH: "mass", Route.LEXICAL: "bm25"}


@dataclass(frozen=True, slots=True)
class RemoteList:
    """What a remote arm found, as a list to be fused.

    Attributes:
        scores: What they are.
        weight: Of the list.
    """

    ranking: Ranking
    scores: Scores
    weight: float

    @property
    def is_addable(self) -> bool:
        """Whether its scores can be what they are said to be: falling, and shares above 0."""
        found = [hit.score for hit in self.ranking.hits]
        if self.scores == "rank" or any(upper < lower for upper, lower in pairwise(found)):
            return False
        return self.scores == "cosine" or min(found, default=1.0) > 0

    @property
    def values(self) -> Float64:
        """(m,) what it adds for each hit, where its scores can be added."""
        return self.weight * _values(self.ranking, self.scores)


def adds_up(lists: Sequence[RemoteList], *, by_scores: bool) -> bool:
    """Whether scores are added up, as `together` does it, or ranks are fused."""
    return by_scores and all(one.is_addable for one in lists)


def together(ours: Ranking, lists: Sequence[RemoteList], k: int, *, by_scores: bool) -> Ranking:
    """One ranking of our own and of remote lists.

    Scores whose meaning is known are added up on the scale of cosines, as our own fusion does
    (`router.fusion.combine_scores`); where one list has none, all are fused by reciprocal rank. Of
    what our ranking gives to a passage, each of our lists that had it is said to have given its
    part.

    Args:
        ours: Fused or of a single arm; weighs 1.
        lists: Of remote arms, at least one.
        k: Most hits to return.
        by_scores: Whether our own scores are sums on that scale.
    """
    own = replace(ours, retriever=OURS)
    if adds_up(lists, by_scores=by_scores):
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
    """(m,) what the scores of a ranking are worth on the scale of cosines, above its last.

    Of a passage that is not in a list it is known only that it has no more than the last.
    """
    if not ranking.hits:
        return np.zeros(0)
    scale, worth = _SCALES[meaning]
    values = worth * scaled(replace(ranking, retriever=scale))
    return np.asarray(values - values[-1])


def _parted(sources: Sequence[Source], own: RankedHit | None, name: str) -> tuple[Source, ...]:
    """The same, with our own lists in the place of their ranking."""
    found: list[Source] = []
    for source in sources:
        if source.retriever != OURS or own is None:
            found.append(source)
        elif not own.sources:
            found.append(replace(source, retriever=name))
        else:
            total = math.fsum(one.share for one in own.sources)
            found += [
                replace(
                    one,
                    share=source.share * (one.share / total if total else 1 / len(own.sources)),
                )
                for one in own.sources
            ]
    return tuple(sorted(found))
