"""The restart mass of passages: from similarity, BM25, and the entities they mention or are titled.

Each passage's prior is computed by itself, so it does not depend on which others are computed. They
share only the scale: the lowest and the highest similarity, and the best BM25.
"""

from collections.abc import Sequence

import numpy as np

from wye.backends.numerics import distinct, located, sums
from wye.backends.trigraph.bridging import HUB, Activation
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.seeds import Seed
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float32, Float64, Int64

# Exponent of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4


class Prior:
    """The prior of the allowed passages, for one question.

    Attributes:
        degree: (a,) number of allowed passages that mention each active entity.
        named: Rows of the allowed passages that mention an active entity or have it as their title.
            An entity that more than `HUB` passages mention adds none, and nothing to their prior.
    """

    def __init__(
        self,
        settings: TriGraphSettings,
        filtered: FilteredGraph,
        seeds: Sequence[Seed],
        activation: Activation,
    ) -> None:
        """Look up the passages that mention active entities."""
        entities, values = activation.entities, activation.value / activation.level
        self._settings = settings
        self.degree = filtered.degree(entities)
        telling = self.degree <= HUB
        rows, counts, lengths = filtered.mentions(entities[telling])
        self._mentioned = rows, np.repeat(values[telling], lengths) * np.log1p(counts)
        titled_rows, sizes = filtered.titles(entities)
        entity_mass = activation.weight if settings.summed else activation.value
        share = settings.title_weight * entity_mass**2 / np.maximum(sizes, 1)
        seed_positions = np.searchsorted(entities, [seed.entity for seed in seeds])
        sure = np.array([seed.value >= 1 for seed in seeds], bool)
        is_meant = np.ones(len(entities), bool)
        is_meant[seed_positions[~sure]] = False
        self._titled = titled_rows, np.repeat(share, sizes), np.repeat(is_meant, sizes)
        # BM25 weighs less if the question names a title outright.
        names_title = sizes[seed_positions[sure]].any()
        self._weight = settings.lexical_weight_titled if names_title else settings.lexical_weight
        named_rows = titled_rows[np.repeat(sizes <= HUB, sizes)]
        self.named: Int64 = distinct(np.concatenate([rows, named_rows]))
        self._similarity_range = 0.0, 0.0
        self._best_lexical = 0.0

    def scale(self, similar: Float32, lexical: Float32) -> None:
        """Set the scale from the extremes of some similarities and the best BM25 score."""
        if len(similar):
            self._similarity_range = float(similar.min()), float(similar.max())
        self._best_lexical = float(lexical.max(initial=0.0))

    def of(self, passages: Int64, similar: Float32, lexical: Float32) -> Float64:
        """(c,) (λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 added to similarity.

        Args:
            passages: (c,) rows, ascending.
            similar: (c,) their similarities.
            lexical: (c,) their BM25 scores.
        """
        similarity = _scaled(similar, *self._similarity_range)
        prior = _share(lexical, self._best_lexical)
        prior *= self._weight
        prior += similarity
        prior *= self._settings.similarity_weight
        bonus = self._bonus(passages)
        mentioned = np.flatnonzero(bonus)
        prior[mentioned] += np.log1p(bonus[mentioned])
        prior *= self._settings.passage_weight
        self._add_titles(prior, passages, similarity)
        return prior

    def _bonus(self, passages: Int64) -> Float64:
        """(c,) Σ a_e·ln(1 + N_e)/L_e over the active entities that a passage mentions."""
        rows, values = self._mentioned
        positions, known = located(rows, passages)
        return sums(positions[known], values[known], len(passages))

    def _add_titles(self, prior: Float64, passages: Int64, similarity: Float64) -> None:
        """Add the mass that an active title gives to its passages.

        Squaring the value favours a title that is named outright or reached over several bridges
        against an uncertain one. If only lower-case words of the question matched the title, its
        passage must be close to the question as well.
        """
        rows, share, is_meant = self._titled
        positions, known = located(rows, passages)
        closeness = similarity[positions[known]]
        closeness = np.where(is_meant[known], closeness, closeness**DOUBT)
        np.add.at(prior, positions[known], share[known] * closeness)


def _scaled(similar: Float32, low: float, high: float) -> Float64:
    """Similarities scaled from [low, high] to [0, 1] and clipped; 1 if low and high are equal."""
    if high <= low:
        return np.ones(len(similar))
    scaled = similar.astype(np.float64)
    scaled -= low
    scaled /= high - low
    return np.clip(scaled, 0, 1, out=scaled)


def _share(scores: Float32, best: float) -> Float64:
    return scores.astype(np.float64) / best if best > 0 else np.zeros(len(scores))
