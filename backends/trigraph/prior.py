"""What passages restart a walk with: similarity, BM25, and what names they mention or stand under.

Each passage's prior is made for itself, so it is the same whichever others are asked for. What
they share is the scale: what counts as no similarity and as all of it, and the best BM25.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from backends.numerics import located, sums
from backends.trigraph.bridging import HUB, Activation
from backends.types import Float32, Float64, Int64

if TYPE_CHECKING:
    from backends.trigraph.retriever import FilteredGraph, TriGraphSettings
    from backends.trigraph.seeds import Seed

# Power of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4


class Prior:
    """Of the passages that take part, for one question.

    Attributes:
        degree: (a,) how many of them mention each active entity.
        named: Rows of those that mention an active entity or have it for a title, but
            for hubs where these are left out.
    """

    def __init__(
        self,
        settings: "TriGraphSettings",
        filtered: "FilteredGraph",
        seeds: Sequence["Seed"],
        activation: Activation,
        *,
        with_hubs: bool,
    ) -> None:
        """Look up who mentions what is active.

        Args:
            with_hubs: Whether passages of entities that more than `HUB` mention are named as well.
                Where they are asked for, these entities count in any case.
        """
        entities, worth = activation.entities, activation.value / activation.level
        self._settings = settings
        self._weight = _lexical_weight(settings, filtered, seeds)
        self.degree = filtered.degree(entities)
        is_hub = np.zeros(len(entities), bool) if with_hubs else self.degree > HUB
        rows, counts, degree = filtered.mentions(entities[~is_hub])
        self._mentioned = rows, np.repeat(worth[~is_hub], degree) * _often(counts)
        self._of_hubs = [
            (one, *filtered.mentions(np.array([hub]))[:2])
            for hub, one in zip(entities[is_hub].tolist(), worth[is_hub].tolist(), strict=True)
        ]
        titled, over = filtered.titles(entities)
        mass = activation.weight if settings.summed else activation.value
        share = settings.title_weight * mass**2 / np.maximum(over, 1)
        doubtful = [seed.entity for seed in seeds if seed.value < 1]
        self._titled = titled, np.repeat(share, over), np.repeat(~np.isin(entities, doubtful), over)
        under = titled if with_hubs else titled[np.repeat(over <= HUB, over)]
        self.named: Int64 = np.concatenate([rows, under]).astype(np.int64)
        self._ends = 0.0, 0.0
        self._best = 0.0

    def scale(self, similar: Float32, lexical: Float32) -> None:
        """Go by the least and the largest of some similarities, and by the best BM25."""
        if len(similar):
            self._ends = float(similar.min()), float(similar.max())
        self._best = float(lexical.max(initial=0.0))

    def of(self, passages: Int64, similar: Float32, lexical: Float32) -> Float64:
        """(λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 beside similarity.

        Args:
            passages: (c,) rows, ascending.
            similar: (c,) their similarities.
            lexical: (c,) their BM25.
        """
        near = _scaled(similar, *self._ends)
        prior = _share(lexical, self._best)
        prior *= self._weight
        prior += near
        prior *= self._settings.similarity_weight
        bonus = self._bonus(passages)
        mentioned = np.flatnonzero(bonus)
        prior[mentioned] += np.log1p(bonus[mentioned])
        prior *= self._settings.passage_weight
        self._add_titles(prior, passages, near)
        return prior

    def _bonus(self, passages: Int64) -> Float64:
        """(c,) Σ a_e·ln(1 + N_e)/L_e over the active entities that a passage mentions."""
        rows, worth = self._mentioned
        places, known = located(rows, passages)
        # NumPy adds up nothing to whole numbers.
        bonus = sums(places[known], worth[known], len(passages)).astype(np.float64)
        for one, listed, counts in self._of_hubs:
            places, known = located(passages, listed)
            bonus[known] += one * _often(counts[places[known]])
        return bonus

    def _add_titles(self, prior: Float64, passages: Int64, near: Float64) -> None:
        """An activated title sends the walk to the passages it stands over.

        Squaring the value lets a title named outright, or reached along several bridges, stand
        out, and an uncertain one recede. Where only lower-case words of the question matched the
        title, its passage must be close to the question as well.
        """
        rows, share, meant = self._titled
        places, known = located(rows, passages)
        closeness = near[places[known]]
        closeness = np.where(meant[known], closeness, closeness**DOUBT)
        np.add.at(prior, places[known], share[known] * closeness)


def _lexical_weight(
    settings: "TriGraphSettings", filtered: "FilteredGraph", seeds: Sequence["Seed"]
) -> float:
    """BM25 matters where names do not already say what the question is about."""
    sure = np.array([seed.entity for seed in seeds if seed.value >= 1], np.int64)
    if filtered.titles(sure)[1].any():
        return settings.lexical_weight_titled
    return settings.lexical_weight


def _often(counts: Float32) -> Float64:
    """ln(1 + N) of how often passages mention an entity."""
    often: Float64 = np.log1p(counts.astype(np.float64))
    return often


def _scaled(similar: Float32, low: float, high: float) -> Float64:
    """Similarity, of which the low one becomes 0 and the high one 1; 1 where they are equal."""
    if high <= low:
        return np.ones(len(similar))
    scaled = similar.astype(np.float64)
    scaled -= low
    scaled /= high - low
    return np.clip(scaled, 0, 1, out=scaled)


def _share(scores: Float32, best: float) -> Float64:
    return scores.astype(np.float64) / best if best > 0 else np.zeros(len(scores))
