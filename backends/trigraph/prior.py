"""The restart mass of passages: from similarity, BM25, and the entities they mention or are titled.

Each passage's prior is computed by itself, so it does not depend on which others are computed. The
passages of one question share only the scale: the lowest and the highest similarity, and the best
BM25. Questions are computed together, since most of the time is that of the calls: the passage in
row r of a corpus of n has the key q·n + r in the q-th question.
"""

from collections.abc import Sequence

import numpy as np

from wye.backends.numerics import distinct, first_of_each, located, sums
from wye.backends.trigraph.bridging import HUB, Activation
from wye.backends.trigraph.graph import FilteredGraph
from wye.backends.trigraph.seeds import Seed
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float32, Float64, Int64

# Exponent of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4


class Priors:
    """The prior of the allowed passages, for each of q questions.

    Attributes:
        degree: (a,) number of allowed passages that mention each active entity of each question.
        named: Keys of the allowed passages that mention an active entity or have it as their title,
            ascending. An entity that more than `HUB` passages mention adds none, and nothing to
            their prior.
    """

    def __init__(
        self,
        settings: TriGraphSettings,
        filtered: FilteredGraph,
        passages: int,
        seeds: Sequence[Sequence[Seed]],
        activations: Sequence[Activation],
    ) -> None:
        """Look up the passages that mention active entities.

        Args:
            passages: Number n of passages of the corpus.
            seeds: The seeds of each question; there is at least one question.
        """
        self._settings, self._passages = settings, passages
        question = np.repeat(np.arange(len(activations)), [len(each.value) for each in activations])
        entities = np.concatenate([each.entities for each in activations])
        value = np.concatenate([each.value for each in activations])
        weight = np.concatenate([each.weight for each in activations])
        level = np.concatenate([each.level for each in activations])
        self.degree = filtered.degree(entities)
        telling = np.flatnonzero(self.degree <= HUB)
        rows, counts, lengths = filtered.mentions(entities[telling])
        owners = np.repeat(telling, lengths)
        mentioned = question[owners] * passages + rows
        self._mentioned = mentioned, (value / level)[owners] * np.log1p(counts)
        titled_rows, sizes = filtered.titles(entities)
        share = settings.title_weight * weight**2 / np.maximum(sizes, 1)
        owners = np.repeat(np.arange(len(entities)), sizes)
        titled = question[owners] * passages + titled_rows
        # Entities of a question are ascending.
        stride = int(entities.max(initial=0)) + 1
        seed_question = np.repeat(np.arange(len(seeds)), [len(each) for each in seeds])
        seed_entity = np.array([seed.entity for each in seeds for seed in each], np.int64)
        is_sure = np.array([seed.value >= 1 for each in seeds for seed in each], bool)
        position, _ = located(seed_question * stride + seed_entity, question * stride + entities)
        is_meant = np.ones(len(entities), bool)
        is_meant[position[~is_sure]] = False
        self._titled = titled, share[owners], is_meant[owners]
        # BM25 weighs less if the question names a title outright.
        self._weight = np.full(len(seeds), settings.lexical_weight, np.float64)
        naming = seed_question[is_sure][sizes[position[is_sure]] > 0]
        self._weight[naming] = settings.lexical_weight_titled
        self.named: Int64 = distinct(np.concatenate([mentioned, titled[sizes[owners] <= HUB]]))
        # Without an entity to start from, passages rank by their prior, whatever its weight.
        lengths = np.array([len(each.entities) for each in activations])
        usual = settings.passage_weight
        self._passage_weight = np.where(lengths > 0, usual, usual or 1.0)
        self._lowest = np.zeros(len(seeds))
        self._highest = np.zeros(len(seeds))
        self._best_lexical = np.zeros(len(seeds))

    def scale(self, keys: Int64, similar: Float32, lexical: Float32) -> None:
        """Set each question's scale from the similarities and BM25 scores of some passages.

        Args:
            keys: (c,) keys of passages, ascending.
            similar: (c,) their similarities.
            lexical: (c,) their BM25 scores.
        """
        question = keys // self._passages
        first = first_of_each(question)
        if len(first):
            known = question[first]
            self._lowest[known] = np.minimum.reduceat(similar, first)
            self._highest[known] = np.maximum.reduceat(similar, first)
            self._best_lexical[known] = np.maximum.reduceat(lexical, first)

    def of(self, keys: Int64, similar: Float32, lexical: Float32) -> Float64:
        """(c,) (λ·sim + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, with BM25 added to similarity.

        The arguments are as in `scale`.
        """
        question = keys // self._passages
        similarity = _scaled(similar, self._lowest[question], self._highest[question])
        best = self._best_lexical[question]
        prior = np.divide(lexical, best, out=np.zeros(len(keys)), where=best > 0)
        prior *= self._weight[question]
        prior += similarity
        prior *= self._settings.similarity_weight
        bonus = self._bonus(keys)
        mentioned = np.flatnonzero(bonus)
        prior[mentioned] += np.log1p(bonus[mentioned])
        prior *= self._passage_weight[question]
        self._add_titles(prior, keys, similarity)
        return prior

    def _bonus(self, keys: Int64) -> Float64:
        """(c,) Σ a_e·ln(1 + N_e)/L_e over the active entities that a passage mentions."""
        mentioned, values = self._mentioned
        positions, known = located(mentioned, keys)
        return sums(positions[known], values[known], len(keys))

    def _add_titles(self, prior: Float64, keys: Int64, similarity: Float64) -> None:
        """Add the mass that an active title gives to its passages.

        Squaring the value favours a title that is named outright or reached over several bridges
        against an uncertain one. If only lower-case words of the question matched the title, its
        passage must be close to the question as well.
        """
        titled, share, is_meant = self._titled
        positions, known = located(titled, keys)
        closeness = similarity[positions[known]]
        closeness = np.where(is_meant[known], closeness, closeness**DOUBT)
        np.add.at(prior, positions[known], share[known] * closeness)


def _scaled(similar: Float32, low: Float64, high: Float64) -> Float64:
    """Similarities scaled from [low, high] to [0, 1] and clipped; 1 if low and high are equal."""
    width = high - low
    scaled = np.divide(similar - low, width, out=np.ones(len(similar)), where=width > 0)
    return np.clip(scaled, 0, 1, out=scaled)
