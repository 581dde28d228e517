"""Folds near-duplicates: of passages that say the same, one keeps its place among the hits.

Copies of a page fill all places of a reply and add nothing to the first. Equal vectors alone do not
make copies: "open until 5" and "open until 6" are as near. So near-duplicates also have the same
words in the same order, but for a few that neither count, name nor negate.
"""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.text import are_copies, words_as_written
from wye.backends.types import Ranking, Source
from wye.router.errors import QuestionError
from wye.router.types import FusedHit
from wye.router.wording import sources_of

if TYPE_CHECKING:
    from wye.router.snapshot import Snapshot

FOLD, KEEP = "fold", "keep"
"""What may become of near-duplicates: one of them keeps its place, or all do."""
DUPLICATE = "duplicate"
"""Source of a hit that was moved behind the others; its rank is that of the hit it repeats."""
LEAST_COSINE = 0.97
"""Cosine of two near-duplicates' vectors."""
FOLDED = 4
"""Hits that are ranked for each one wanted, so that others take the places of near-duplicates."""
MOST_COMPARED = 300
"""First hits of a ranking among which near-duplicates are looked for."""


def require_choice(duplicates: str) -> None:
    """Refuse what is neither "fold", "keep" nor "".

    Raises:
        QuestionError: It is something else.
    """
    if duplicates not in ("", FOLD, KEEP):
        raise QuestionError(f"duplicates is {duplicates!r:.40}; use {FOLD} or {KEEP}.")


def width(depth: int, deepest: int) -> int:
    """How many hits to rank so that `depth` remain; no more than the lists that are fused have."""
    return max(depth, min(FOLDED * depth, deepest))


def fold(
    ranking: Ranking, arms: "Snapshot", depth: int
) -> tuple[Ranking, dict[str, tuple[str, ...]]]:
    """Move near-duplicates of better hits behind all other hits.

    Returns:
        The first `depth` hits, and by id of a hit that has near-duplicates, their ids, best first.
        A moved hit scores no more than the last one that was not moved.
    """
    hits, ids = ranking.hits, ranking.ids(MOST_COMPARED)
    if not ids:
        return replace(ranking, hits=hits[:depth]), {}
    vectors = arms.vectors(ids)
    cosines = vectors @ vectors.T
    pairs = np.argwhere(np.tril(cosines >= LEAST_COSINE, -1)).tolist()
    if not pairs:
        return replace(ranking, hits=hits[:depth]), {}
    near = sorted({at for pair in pairs for at in pair})
    texts = dict(zip(near, arms.texts([ids[at] for at in near]), strict=True))

    @cache
    def words(at: int) -> list[str]:
        return words_as_written("\n".join(texts[at]))

    best: dict[int, int] = {}  # a moved hit -> the hit that it repeats
    for later, earlier in pairs:  # by the later hit, then by the earlier one
        if later not in best and earlier not in best and are_copies(words(earlier), words(later)):
            best[later] = earlier
    if not best:
        return replace(ranking, hits=hits[:depth]), {}
    others = [at for at in range(len(hits)) if at not in best]
    rank_of = {at: rank for rank, at in enumerate(others, start=1)}
    lowest = hits[others[-1]].score
    ordered = []
    for rank, at in enumerate([*others, *best], start=1):
        hit, sources = hits[at], sources_of(hits[at], ranking)
        score = min(hit.score, lowest) if at in best else hit.score
        if at in best:
            cosine, share = float(cosines[at, best[at]]), score - hit.score
            sources = *sources, Source(DUPLICATE, rank_of[best[at]], cosine, share)
        ordered.append(FusedHit(hit.id, score, rank, sources))
    repeats = {
        ids[first]: tuple(ids[at] for at, other in best.items() if other == first)
        for first in sorted({*best.values()})
    }
    return replace(ranking, hits=tuple(ordered[:depth])), repeats
