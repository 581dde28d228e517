"""Activation: which entities matter to a question, and how much of that mass its passages restart.

Bridging goes from the seeds along the sentences most similar to the question to entities that it
does not name, each step multiplying by the sentence's similarity (LinearRAG, section 3.2.1).

The restart mass of passages, their prior, comes from similarity, BM25, and the active entities that
they mention or are titled. Passages share only the scale: the lowest and the highest similarity,
and the best BM25 of the text hits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wye.backends.arrays import located, sums
from wye.backends.trigraph.question import HUB, Edges, PassageSource, Sentences
from wye.backends.trigraph.seeds import Seed
from wye.backends.trigraph.settings import TriGraphSettings
from wye.backends.types import Float32, Float64, Int64


class Bridge(NamedTuple):
    """The sentence over which an entity was first reached from another, the `source`."""

    sentence: int
    similarity: float
    source: int


@dataclass(frozen=True, slots=True)
class Activation:
    """The entities that bridging activates, in ascending order.

    Attributes:
        bridges: For each entity that is not a seed, how it was first reached.
    """

    entities: Int64  # (a,) int64 active entities, seeds included
    value: Float64  # (a,) float64 largest value a_e with which each was reached
    weight: Float64  # (a,) float64 sum of the values with which each was reached
    level: Int64  # (a,) int64 step L_e at which each was first reached; seeds have 1
    bridges: Mapping[int, Bridge] = field(default_factory=dict)


def bridge(
    sentences: Sentences,
    seeds: Mapping[int, float],
    *,
    steps: int,
    threshold: float,
    sentences_per_entity: int,
) -> Activation:
    """Activate entities step by step. The values equal those of `reference.bridge`.

    In T `steps`, of which the seeds are the first, each entity above the threshold takes so many of
    its best unused sentences.
    """
    value, weight = dict(seeds), dict(seeds)
    level = dict.fromkeys(seeds, 1)
    bridges: dict[int, Bridge] = {}
    known: dict[int, tuple[Int64, Float32]] = {}
    used: set[int] = set()
    reached = dict(seeds)
    starts = np.searchsorted(sentences.sentence, np.arange(len(sentences.rows) + 1))
    for step in range(2, steps + 1):
        expanded = sorted(e for e, reached_value in reached.items() if reached_value >= threshold)
        known.update(_compared(sentences, [e for e in expanded if e not in known]))
        best: dict[int, float] = {}
        for entity in expanded:
            for sentence, sigma in _best_unused(*known[entity], used, sentences_per_entity):
                used.add(sentence)
                passed_on = reached[entity] * sigma
                if passed_on < threshold:
                    continue
                for other in sentences.entity[starts[sentence] : starts[sentence + 1]].tolist():
                    weight[other] = weight.get(other, 0.0) + passed_on
                    best[other] = max(best.get(other, 0.0), passed_on)
                    if other not in level:
                        level[other] = step
                        bridges[other] = Bridge(int(sentences.rows[sentence]), sigma, entity)
        for entity, best_value in best.items():
            value[entity] = max(value.get(entity, 0.0), best_value)
        if not best:
            break
        reached = best
    entities = sorted(value)
    return Activation(
        np.array(entities, np.int64),
        np.array([value[e] for e in entities]),
        np.array([weight[e] for e in entities]),
        np.array([level[e] for e in entities], np.int64),
        bridges,
    )


def equation_5(
    sentences: Sentences, seeds: Mapping[int, float], *, steps: int, threshold: float
) -> Activation:
    """Activation as LinearRAG prints it. The values equal those of `reference.equation_5`.

    a becomes max(a, M' (s * (M a))) with s the similarities of the sentences; then values below the
    threshold become 0, except for seeds. Every sentence of an active entity counts, and counts
    again at each of T steps, so values may exceed 1. A similarity below 0 counts as 0.
    """
    named = np.array(sorted(seeds), np.int64)
    entities, entity = np.unique(np.concatenate([named, sentences.entity]), return_inverse=True)
    seed, entity = np.split(entity, [len(named)])
    value, level = np.zeros(len(entities)), np.zeros(len(entities), np.int64)
    value[seed], level[seed] = [seeds[entity] for entity in named.tolist()], 1
    is_seed = level > 0
    for step in range(2, steps + 1):
        on_sentence = sums(sentences.sentence, value[entity], len(sentences.rows))
        active = np.flatnonzero(on_sentence)
        on_sentence[active] *= np.maximum(sentences.similarity(active), 0)
        value = np.maximum(value, sums(entity, on_sentence[sentences.sentence], len(value)))
        value[(value < threshold) & ~is_seed] = 0
        level[(level == 0) & (value > 0)] = step
    active = np.flatnonzero((value > 0) | is_seed)
    return Activation(entities[active], value[active], value[active], level[active])


def _compared(sentences: Sentences, entities: Sequence[int]) -> dict[int, tuple[Int64, Float32]]:
    """The sentences of ascending entities, as positions, with their similarity to the question."""
    if not entities:
        return {}
    which, is_one = located(sentences.entity, np.array(entities, np.int64))
    mentions = np.flatnonzero(is_one)
    mentions = mentions[np.argsort(which[mentions], kind="stable")]
    positions = sentences.sentence[mentions]
    # Entities share few sentences: comparing some twice costs less than finding duplicates.
    similarity = sentences.similarity(positions)
    ends = np.bincount(which[mentions], minlength=len(entities)).cumsum().tolist()
    return {
        entity: (positions[start:end], similarity[start:end])
        for entity, start, end in zip(entities, [0, *ends], ends, strict=False)
    }


def _best_unused(
    sentences: Int64, sigma: Float32, used: set[int], count: int
) -> list[tuple[int, float]]:
    """The best `count` unused sentences with their similarities, best first, ties by row.

    Each sentence that is looked at gets a similarity of -inf: it is used, or is about to be.
    """
    best: list[tuple[int, float]] = []
    while len(best) < count and len(sentences):
        position = int(sigma.argmax())
        similarity = float(sigma[position])
        if similarity == -math.inf:
            break
        sigma[position] = -math.inf
        sentence = int(sentences[position])
        if sentence not in used:
            best.append((sentence, similarity))
    return best


# Exponent of a passage's closeness to the question where its title may not have been meant.
DOUBT = 4


class Restart:
    """The mass of passages and, `masses` (a,), active entities before normalisation."""

    def __init__(
        self,
        source: PassageSource,
        seeds: Sequence[Seed],
        activation: Activation,
        settings: TriGraphSettings,
    ) -> None:
        """Look up how many passages mention the active entities, or have them as titles."""
        self._source, self._activation, self._settings = source, activation, settings
        active = activation.entities
        degree, titles = source.degree(active), source.title_counts(active)
        values = {seed.entity: seed.value for seed in seeds}
        certainty = np.array([values.get(entity, -1.0) for entity in active.tolist()])
        # BM25 weighs less if the question names a title outright.
        is_titled = bool((titles[certainty >= 1] > 0).any())
        self._lexical = settings.lexical_weight_titled if is_titled else settings.lexical_weight
        self._of_mention = np.where(degree <= HUB, activation.value / activation.level, 0)
        # Squaring the value favours a title that is named outright or reached over several bridges
        # against an uncertain one. If only lower-case words of the question matched the title, its
        # passage must be close to the question as well.
        self._of_title = settings.title_weight * activation.weight**2 / np.maximum(titles, 1)
        self._closeness_power = np.where((certainty >= 0) & (certainty < 1), DOUBT, 1)
        divisor = np.maximum(degree, 1) ** settings.degree_power
        self.masses = np.where(degree > 0, activation.weight / divisor, 0)

    def prior(self, edges: Edges) -> Float64:
        """(c,) mass of passages, which does not depend on what other passages there are.

        It is (λ·(sim + w·BM25) + ln(1 + Σ a_e·ln(1 + N_e)/L_e))·W_p, and what its title adds.
        """
        source, settings, active = self._source, self._settings, self._activation.entities
        similar, lexical = source.scores(edges.passages)
        similarity = source.scale.similarity(similar)
        words = self._lexical * source.scale.lexical(lexical)
        prior = settings.similarity_weight * (similarity + words)
        which, is_active = located(edges.entity, active)
        mentions = np.flatnonzero(is_active)
        bonus = self._of_mention[which[mentions]] * np.log1p(edges.count[mentions])
        prior += np.log1p(sums(edges.passage[mentions], bonus, len(prior)))
        # Without an entity to start from, passages rank by their prior, whatever its weight.
        prior *= settings.passage_weight if len(active) else settings.passage_weight or 1.0
        which, is_active = located(edges.title_entity, active)
        which, passage = which[is_active], edges.title_passage[is_active]
        closeness = similarity[passage] ** self._closeness_power[which]
        prior += sums(passage, self._of_title[which] * closeness, len(prior))
        return prior
