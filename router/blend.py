"""Fusion of scores: what each arm is sure of counts, which its ranks do not tell.

Ranks say that one passage stands before another and not by how much, so a list that knows nothing
weighs as much as one that knows. Scores say it once they are on scales that can be added: cosine as
it is, BM25 as a share of the best, and the walk's mass as a logarithm, since it falls off like a
power of the rank. No scale depends on the corpus, and each arm's list is all that is needed.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from backends.types import Ranking
from router.errors import FusionError
from router.fusion import Part, combine, weighted
from router.types import Route

LEAST_SHARE = 1e-6
"""Of the best passage's mass: less counts as so much."""


def blend(rankings: Sequence[Ranking], weights: Sequence[float], *, k: int) -> Ranking:
    """Fuse rankings of one question: score(p) = Σ_i w_i · (v_i(p) - f_i).

    v_i is the arm's score on its scale: cosine, BM25 / best, ln(mass / best). f_i is the last value
    of a list that was cut off: of a passage that is not in it, it is known only that it has no
    more, so the list adds nothing. (The exact scores of such passages were no better on the train
    and dev questions of three datasets.) A list that has all there is adds BM25 / best from 0 on.

    As with `router.fusion.fuse`, the order of the rankings changes no bit, and ties break by id.

    Args:
        rankings: One for each arm.
        weights: One for each ranking, finite and at least 0; at least one above 0.
        k: Most hits to return, at least 1.

    Returns:
        A ranking named "fusion" of `FusedHit`s. It is degraded when any list in it is.

    Raises:
        FusionError: Weights that do not fit, a ranking that is of no arm known here, or one that
            `router.fusion.fuse` would refuse.
    """
    parts = []
    for ranking, weight in weighted(rankings, weights):
        values = scaled(ranking)
        floor = _floor(ranking, values)
        parts.append(Part(ranking, [weight * (value - floor) for value in values]))
    return combine(parts, k)


def blend_weights(trust: float, *, lexical_share: float, graph_scale: float) -> dict[Route, float]:
    """Weight of each arm's values, given how far the graph is to be trusted.

    Args:
        trust: t, from 0 (text alone) to 1 (graph alone).
        lexical_share: Weight b of BM25 beside cosine.
        graph_scale: Weight c: how much of a cosine a unit of log mass is worth.

    Returns:
        dense 1 - t, lexical b·(1 - t), graph c·t.
    """
    text = 1 - trust
    return {
        Route.DENSE: text,
        Route.LEXICAL: lexical_share * text,
        Route.GRAPH: graph_scale * trust,
    }


def scaled(ranking: Ranking) -> list[float]:
    """Scores of a ranking on the scale of its arm, in order.

    Raises:
        FusionError: The ranking is of no arm known here.
    """
    scale = _SCALES.get(ranking.retriever)
    if scale is None:
        raise FusionError(
            f"There is no scale for the scores of '{ranking.retriever}'; "
            f"blend {', '.join(_SCALES)}, or fuse by rank."
        )
    return scale([hit.score for hit in ranking.hits])


def log_share(score: float, best: float) -> float:
    """ln(score / best), at least ln(LEAST_SHARE); 0 where the best is not above 0."""
    return math.log(max(score / best, LEAST_SHARE)) if best > 0 else 0.0


def _cosine(scores: Sequence[float]) -> list[float]:
    return list(scores)


def _share_of_best(scores: Sequence[float]) -> list[float]:
    return [score / scores[0] if scores[0] > 0 else 0.0 for score in scores]


def _log_share_of_best(scores: Sequence[float]) -> list[float]:
    return [log_share(score, scores[0]) for score in scores]


_SCALES: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    Route.DENSE: _cosine,
    Route.LEXICAL: _share_of_best,
    Route.GRAPH: _log_share_of_best,
}


def _floor(ranking: Ranking, values: Sequence[float]) -> float:
    """What a passage has that the list lacks, at most."""
    if not values:
        return 0.0
    whole = len(ranking.hits) >= ranking.candidates
    return 0.0 if whole and ranking.retriever == Route.LEXICAL else values[-1]
