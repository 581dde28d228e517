"""Weighted reciprocal rank fusion: several rankings of one question become one."""

import math
from collections import defaultdict
from collections.abc import Sequence

from backends.types import Ranking
from router.errors import FusionError
from router.types import FusedHit, Source


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
    _check(rankings, weights, rrf_k=rrf_k, k=k)
    parts = [(ranking, w) for ranking, w in zip(rankings, weights, strict=True) if w > 0]
    sources: defaultdict[str, list[Source]] = defaultdict(list)
    for ranking, weight in parts:
        for hit in ranking.hits:
            share = weight / (rrf_k + hit.rank)
            sources[hit.id].append(Source(ranking.retriever, hit.rank, hit.score, share))
    scored = [(math.fsum(source.share for source in found), id_) for id_, found in sources.items()]
    scored.sort(key=lambda item: (-item[0], item[1]))
    return Ranking(
        retriever="fusion",
        hits=tuple(
            FusedHit(id_, score, rank, tuple(sorted(sources[id_])))
            for rank, (score, id_) in enumerate(scored[:k], start=1)
        ),
        candidates=max(ranking.candidates for ranking, _ in parts),
        degraded="; ".join(
            sorted({f"{part.retriever}: {part.degraded}" for part, _ in parts if part.degraded})
        ),
    )


def _check(rankings: Sequence[Ranking], weights: Sequence[float], *, rrf_k: float, k: int) -> None:
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
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise FusionError(f"rrf_k is {rrf_k}; use a finite number, 0 or more (60 is usual).")
    if k < 1:
        raise FusionError(f"k is {k}; ask for at least 1 hit.")


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
