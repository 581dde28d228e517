"""Each method of fusion by its name, over the evidence of a batch."""

from collections.abc import Sequence

from backends.types import Ranking
from router.blend import blend, blend_weights
from router.fusion import fuse
from router.fusion_settings import FusionSettings
from router.trust import trust
from router.types import ArmResults, Route


def fuse_all(
    evidence: Sequence[ArmResults],
    settings: FusionSettings,
    scores: Sequence[float | None],
    k: int,
) -> list[Ranking]:
    """One ranking for each question, by the method of the settings.

    Args:
        evidence: Of the arms that `FusionSettings.arms` names.
        settings: Of any method but "seeded", which fuses nothing.
        scores: s of each question; None where nothing scored it.
        k: Most hits to return, at least 1.

    Raises:
        FusionError: Every list weighs 0.
    """
    if settings.method == "rrf":
        return [_by_rank(one, settings, s, k) for one, s in zip(evidence, scores, strict=True)]
    known = [settings.s if score is None else score for score in scores]
    if settings.method == "trust":
        known = trust(evidence, settings.trust, scores).tolist()
    return [_by_score(one, settings, t, k) for one, t in zip(evidence, known, strict=True)]


def blend_text(evidence: Sequence[ArmResults], settings: FusionSettings, k: int) -> list[Ranking]:
    """The text arms without the graph: dense and lexical scores, added up."""
    return [_by_score(one, settings, 0.0, k) for one in evidence]


def _by_rank(
    evidence: ArmResults, settings: FusionSettings, score: float | None, k: int
) -> Ranking:
    # A replay has every arm's list, also those that the gateway would not have asked for.
    lists = {arm: evidence.rankings[arm] for arm in settings.arms() if arm in evidence.rankings}
    weights = [settings.weight(arm, score) for arm in lists]
    return fuse(list(lists.values()), weights, rrf_k=settings.rrf_k, k=k)


def _by_score(evidence: ArmResults, settings: FusionSettings, trusted: float, k: int) -> Ranking:
    weights = blend_weights(
        trusted, lexical_share=settings.lexical_share, graph_scale=settings.graph_scale
    )
    return blend(
        list(evidence.rankings.values()), [weights[Route(arm)] for arm in evidence.rankings], k=k
    )
