"""Weighted reciprocal rank fusion: several rankings of one question become one."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from backends.types import Hit, Ranking
from router.errors import FusionError
from router.types import FusedHit, Source


@dataclass(frozen=True, slots=True)
class Part:
    """A ranking with what it adds to each passage that it holds.

    Attributes:
        ranking: Of one arm.
        shares: One for each of its hits.
    """

    ranking: Ranking
    shares: Sequence[float]


def fuse(
    rankings: Sequence[Ranking], weights: Sequence[float], *, rrf_k: float = 60.0, k: int
) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i / (rrf_k + rank_i(p)), ranks from 1.

    A list that does not hold a passage adds nothing to it. The result depends only on the set of
    (ranking, weight) pairs: their order changes no bit of it, since each sum is rounded once.
    Equal scores are ordered by id. A list of weight 0 is as if it had not been given.

    Source: Cormack, Clarke and Buettcher (SIGIR 2009); weighted as in EA-GraphRAG's equation 8.

    Args:
        rankings: One for each arm, never several run together.
        weights: One for each ranking, finite and at least 0; at least one above 0.
        rrf_k: How slowly a list's say falls with rank; at least 0.
        k: Most hits to return, at least 1.

    Returns:
        A ranking named "fusion" of `FusedHit`s. It is degraded when any list in it is.

    Raises:
        FusionError: Weights that do not fit, a passage twice in one list, or ranks that are not
            1, 2, 3, …
    """
    kept = weighted(rankings, weights)
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise FusionError(f"rrf_k is {rrf_k}; use a finite number, 0 or more (60 is usual).")
    return combine(
        [Part(ranking, [w / (rrf_k + hit.rank) for hit in ranking.hits]) for ranking, w in kept], k
    )


def combine(parts: Sequence[Part], k: int) -> Ranking:
    """Order passages by the sum of what each list adds to them, equal sums by id.

    Args:
        parts: At least one.
        k: Most hits to return, at least 1.

    Raises:
        FusionError: k is below 1.
    """
    if k < 1:
        raise FusionError(f"k is {k}; ask for at least 1 hit.")
    found: defaultdict[str, list[tuple[Ranking, Hit, float]]] = defaultdict(list)
    for part in parts:
        for hit, share in zip(part.ranking.hits, part.shares, strict=True):
            found[hit.id].append((part.ranking, hit, share))
    scored = [(math.fsum(share for _, _, share in own), id_) for id_, own in found.items()]
    scored.sort(key=lambda item: (-item[0], item[1]))
    return Ranking(
        retriever="fusion",
        hits=tuple(
            FusedHit(id_, score, rank, _sources(found[id_]))
            for rank, (score, id_) in enumerate(scored[:k], start=1)
        ),
        candidates=max(part.ranking.candidates for part in parts),
        degraded="; ".join(
            sorted(
                {f"{r.retriever}: {r.degraded}" for r in (p.ranking for p in parts) if r.degraded}
            )
        ),
    )


def weighted(rankings: Sequence[Ranking], weights: Sequence[float]) -> list[tuple[Ranking, float]]:
    """Rankings with their weights, without those that weigh nothing.

    Raises:
        FusionError: Weights that do not fit, a passage twice in one list, or ranks that are not
            1, 2, 3, …
    """
    if len(rankings) != len(weights):
        raise FusionError(
            f"{len(rankings)} rankings came with {len(weights)} weights; give one weight for each."
        )
    for ranking, weight in zip(rankings, weights, strict=True):
        if not (math.isfinite(weight) and weight >= 0):
            raise FusionError(
                f"The weight of '{ranking.retriever}' is {weight}; use a finite number, 0 or more."
            )
        _check_list(ranking)
    if not any(weight > 0 for weight in weights):
        raise FusionError("Nothing is left to fuse: give at least one list a weight above 0.")
    return [(ranking, w) for ranking, w in zip(rankings, weights, strict=True) if w > 0]


def _sources(found: Sequence[tuple[Ranking, Hit, float]]) -> tuple[Source, ...]:
    return tuple(
        sorted(
            Source(ranking.retriever, hit.rank, hit.score, share) for ranking, hit, share in found
        )
    )


def _check_list(ranking: Ranking) -> None:
    seen: set[str] = set()
    for place, hit in enumerate(ranking.hits, start=1):
        if hit.rank != place:
            raise FusionError(
                f"Place {place} of '{ranking.retriever}' says rank {hit.rank}; "
                "fuse whole rankings, best first, one for each arm."
            )
        if hit.id in seen:
            raise FusionError(
                f"Passage '{hit.id}' is twice in '{ranking.retriever}'; a ranking lists it once."
            )
        seen.add(hit.id)
