"""Ranks again by what a question's wording asks for, after its route has ranked.

No arm knows that a code names one thing: to an encoder E-9140 is near E-2207, and to BM25 it is one
word among others. Here the few passages that have it come first, on every route.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.notations import Code, codes_in
from wye.backends.types import Int64, Mask, RankedHit, Ranking, Source
from wye.router.types import FusedHit

if TYPE_CHECKING:
    from wye.router.snapshot import Snapshot

CODE = "code"
"""Source of a hit that has a rare code of the question."""
MOST_PASSAGES = 3
"""A code in more passages than this is a subject, not the name of one thing."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What the wording of a question says about the order of passages; false if nothing.

    Attributes:
        codes: The codes and days that it names.
    """

    codes: Sequence[Code] = ()

    def __bool__(self) -> bool:
        return bool(self.codes)


def read_wording(question: str) -> Wording:
    """The wording of a question."""
    return Wording(codes_in(question))


def by_wording(
    wording: Wording, ranking: Ranking, arms: "Snapshot", allowed: Mask | None, k: int
) -> Ranking:
    """A ranking in the order that the question's wording asks for.

    Args:
        allowed: Mask (n,) of the passages that pass the filter; None for all.
        k: Most hits of the result, unless the ranking has more.
    """
    return _codes_first(wording.codes, ranking, arms, allowed, k)


def _codes_first(
    codes: Sequence[Code], ranking: Ranking, arms: "Snapshot", allowed: Mask | None, k: int
) -> Ranking:
    """Put the passages that have a rare code of the question first; the others keep their order."""
    counts = _passages_with_codes(codes, arms, allowed)
    if not counts:
        return ranking
    hits = {hit.id: hit for hit in ranking.hits}
    best = max((hit.score for hit in ranking.hits), default=0.0)
    best = best if best > 0 else 1.0
    lifted = []
    for row, count in counts.items():
        id_ = arms.corpus.ids[row]
        hit = hits.pop(id_, None) or RankedHit(id_, 0.0, 0)
        score = count * best + max(hit.score, 0.0)
        sources = *_sources(hit, ranking), Source(CODE, 1, float(count), score - hit.score)
        lifted.append(FusedHit(id_, score, 0, sources))
    lifted.sort(key=lambda hit: (-hit.score, hit.id))
    others = [FusedHit(hit.id, hit.score, 0, _sources(hit, ranking)) for hit in hits.values()]
    kept = [*lifted, *others][: max(k, len(ranking.hits))]
    ranked = tuple(hit._replace(rank=rank) for rank, hit in enumerate(kept, start=1))
    candidates = max(ranking.candidates, len(ranked))
    return replace(ranking, hits=ranked, candidates=candidates, degraded="")


def _passages_with_codes(
    codes: Sequence[Code], arms: "Snapshot", allowed: Mask | None
) -> dict[int, int]:
    """Row of each passage with a rare code -> how many of the codes it has."""
    counts: dict[int, int] = {}
    for code in codes:
        rows = rows_with(code, arms)
        rows = rows if allowed is None else rows[allowed[rows]]
        for row in rows.tolist() if len(rows) <= MOST_PASSAGES else ():
            counts[row] = counts.get(row, 0) + 1
    return counts


def rows_with(code: Code, arms: "Snapshot") -> Int64:
    """Rows of the passages with a code: joined, or else with all of its parts."""
    lexical = arms.lexical
    rows = np.unique(np.concatenate([lexical.rows_with(key) for key in code.keys]))
    parts = [part for part in code.parts if part not in lexical.settings.stopwords]
    if not len(rows) and len(parts) > 1:
        rows = lexical.rows_with(parts[0])
        for part in parts[1:]:
            rows = np.intersect1d(rows, lexical.rows_with(part))
    return rows


def _sources(hit: RankedHit, ranking: Ranking) -> tuple[Source, ...]:
    """The lists that held a hit; that of a single arm counts as one."""
    if hit.sources or not hit.rank:
        return hit.sources
    return (Source(str(ranking.retriever), hit.rank, hit.score, hit.score),)
